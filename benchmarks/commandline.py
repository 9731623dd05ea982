"""What the benchmarks of training share: the real command line, the figures of a run, and data."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SHAPE = ["--model.L", "4", "--model.H", "4", "--model.d-e", "128", "--model.ell-max", "64", "--train.batch-size", "12"]
STEPS = 440  # of SHAPE on Tiny Shakespeare, to compare choices


def transalg(*arguments: object) -> str:
    """Run the command line; what it printed."""
    command = [sys.executable, "-m", "transalg", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def final_loss(run: Path) -> float:
    """The loss of a run's best model on all of the validation set."""
    lines = [line for line in metrics(run) if "val_loss" in line or "best_val_loss" in line]
    return float(lines[-1].get("best_val_loss", lines[-1].get("val_loss")))


def measured(run: Path, *more: object) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(transalg("evaluate", run, "--json", *more))
    return figures


def trec_rows(part: str) -> list[dict[str, str]]:
    """The questions of TREC with their coarse classes."""
    with open(DATA / "cls" / f"TREC.{part}", encoding="latin-1") as lines:
        rows = [line.rstrip("\n").split(" ", 1) for line in lines]
    return [{"label": label.split(":")[0], "text": text} for label, text in rows]


def sst2_rows() -> list[dict[str, str]]:
    """The sentences of SST-2's training set with their classes."""
    lines = (DATA / "cls" / "sst2.train").read_text(encoding="utf-8").splitlines()
    return [dict(zip(("label", "text"), line.split(" ", 1), strict=True)) for line in lines]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def missing(path: Path) -> bool:
    if not path.exists():
        print(f"{path.name}: not here, skipped")
    return not path.exists()


def main(doc: str | None, benchmarks: Mapping[str, Callable[[Path], None]]) -> None:
    """The command line of a module of benchmarks, each of which takes the folder for runs and data."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*benchmarks, []], help="all unless given")
    parser.add_argument("--keep", type=Path, help="the folder for runs and data")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.which or benchmarks:
            benchmarks[name](folder)
