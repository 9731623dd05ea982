"""How the defaults were found: the choices that were tried, each on the same seeds, on one thread.

    python -m benchmarks.defaults                  # all; or some by name: positions pooling …
    python -m benchmarks.defaults pooling --seeds 1

A choice is a value in CHOICES; a new one is a line. The default comes first, as it is without a flag. The data is read from ../shared/data;
what is missing is skipped with a message. Runs go to a temporary folder unless --keep FOLDER is given.
"""

import argparse
import gzip
import os
import shlex
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commandline import DATA, SHAPE, STEPS, final_loss, measured, metrics, missing, transalg, trec_rows, write

LM = shlex.join([*SHAPE, "--train.steps", str(STEPS), "--train.eval-every", str(STEPS)])
WIDER = "--model.L 4 --model.H 4 --model.d-e 256 --model.ell-max 128 --train.batch-size 12 --train.steps 300 --train.eval-every 300"
MLM = "--train.steps 600 --train.batch-size 128 --documents line"
GATED = "--model.activation SwiGLU --model.d-mlp 341"
PLAIN = "--model.norm RMSnorm --model.bias none"


@dataclass(frozen=True)
class Choice:
    """A default and what else was tried for it."""

    task: str  # what is trained
    data: str
    flags: str
    figure: str
    variants: dict[str, str]  # flags by name; the default first


CHOICES = {
    "positions": Choice(
        *("lm", "lm/tinyshakespeare.txt", LM, "validation loss"),
        {
            "rotary": "",
            "learned, the paper's": "--model.positions learned",
            "learned, SwiGLU": f"--model.positions learned {GATED}",
            "learned, RMSnorm, no biases": f"--model.positions learned {PLAIN}",
            "rotary, SwiGLU, RMSnorm, no biases": f"{GATED} {PLAIN}",
        },
    ),
    "dtype": Choice(
        *("lm", "lm/tinyshakespeare.txt", WIDER, "validation loss"),
        {"float32": "--train.dtype float32", "bfloat16": "--train.dtype bfloat16"},
    ),
    "pooling": Choice(
        *("classify", "trec", "", "accuracy"),
        {"mean": "", "bos": "--model.pooling bos", "max": "--model.pooling max"},
    ),
    "classifier": Choice(
        *("classify", "trec", "", "accuracy"),
        {
            "1 layer of 128, learned positions, words": "",
            "2 layers": "--model.L 2",
            "256 wide": "--model.d-e 256",
            "rotary": "--model.positions rotary",
            "no positions": "--model.positions none",
            "byte pairs": "--tokenizer bpe --vocab-size 4000",
        },
    ),
    "mlm": Choice(
        *("mlm", "trec.txt", MLM, "validation loss"),
        {
            "learning rate 0.003": "",
            "learning rate 0.015": "--train.eta 0.015",
            "learned positions": "--model.positions learned",
            "norms after the sub-layers": "--model.norm-first False",
            "no tied weights": "--model.tied False",
            "no warm-up": "--train.warmup 0",
            "batches of 32": "--train.batch-size 32",
        },
    ),
    "pairs": Choice(
        *("seq2seq", "mt", "--train.steps 600", "validation loss"),
        {
            "the default": "",
            "learned positions": "--model.positions learned",
            "norms after the sub-layers": "--model.norm-first False",
            "no tied weights": "--model.tied False",
            "no label smoothing": "--model.label-smoothing 0",
            "no dropout": "--model.dropout 0",
            "dropout 0.2": "--model.dropout 0.2",
            "2 + 2 layers": "--model.L-enc 2 --model.L-dec 2",
        },
    ),
    "smoothing": Choice(
        *("seq2seq", "dates", "--train.steps 700", "exact match"),
        {"none": "", "label smoothing 0.1": "--model.label-smoothing 0.1"},
    ),
}


def translations() -> list[dict[str, str]]:
    """English and German captions in lower case."""
    english, german = (
        gzip.decompress((DATA / "mt" / f"train.{side}.gz").read_bytes()).decode().lower().splitlines() for side in ("en", "de")
    )
    return [{"source": z, "target": x} for z, x in zip(english, german, strict=True)]


def figure(choice: Choice, run: Path, folder: Path) -> float:
    if choice.figure == "validation loss":
        return final_loss(run)
    if choice.figure == "accuracy":
        return float(measured(run, "--data", folder / "trec-test.jsonl")["accuracy"])
    return float(measured(run)["exact match"])


def measure(name: str, choice: Choice, folder: Path, seeds: int) -> None:
    print(f"{name}: {choice.task}, {choice.data}, {choice.figure}", flush=True)
    data = next(
        (path for path in (folder / f"{choice.data}-train.jsonl", folder / choice.data, DATA / choice.data) if path.exists()), choice.data
    )
    for variant, flags in choice.variants.items():
        figures, seconds = list[float](), list[float]()
        for seed in range(seeds):
            run = folder / f"{name}-{variant.replace(' ', '-')}-{seed}"
            words = [*shlex.split(choice.flags), *shlex.split(flags), "--train.seed", seed, "--train.threads", 1]
            transalg("train", choice.task, "--data", data, "--out", run, "--overwrite", *words)
            figures.append(figure(choice, run, folder))
            seconds.append(metrics(run)[-1]["seconds"])
        shown = ", ".join(f"{one:.4g}" for one in figures)
        print(f"  {variant}: {shown}; median {statistics.median(figures):.4g}, {statistics.median(seconds):.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*CHOICES, []], help="all unless given")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="the folder for runs and data")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if missing(DATA / "cls" / "TREC.train"):
            return
        for part in ("train", "test"):
            write(folder / f"trec-{part}.jsonl", trec_rows(part))
        if not missing(DATA / "mt" / "train.en.gz"):
            write(folder / "mt-train.jsonl", translations())
        (folder / "trec.txt").write_text("".join(f"{row['text']}\n" for row in trec_rows("train")), encoding="utf-8")
        for name in options.which or CHOICES:
            if CHOICES[name].data == "mt" and not (folder / "mt-train.jsonl").exists():
                continue
            measure(name, CHOICES[name], folder, options.seeds)


if __name__ == "__main__":
    main()
