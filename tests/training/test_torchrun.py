"""Several processes, started by torchrun: the same losses as one; what a killed one leaves; sharded checkpoints."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tolerance import tolerance
from tests.training.runs import config, files, options
from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.training.start import train

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"dtype": "float64", "steps": 9, "batch_size": 5, "save_every": 2, "accumulate": 2}
STEPS = 12  # the longest run
SAME = tolerance(torch.float64, terms=5 * 29, depth=2 * 2 * STEPS)  # a batch has so many tokens
# AdamW divides by √v + ε: where a gradient is 0, as that of the keys' bias, a step is η/ε times its rounding noise.
SAME_WEIGHTS = tolerance(torch.float64, terms=5 * 29, depth=2 * 2 * STEPS, size=0.015 / 1e-8)


def torchrun(*arguments: str, restarts: int = 0) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, timeout=150)
    assert done.returncode == 0, done.stderr[-4000:]


def metrics(run: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("seconds")
    return lines


def assert_like_one_process(folder: Path, out: str, task: str) -> None:
    """Losses, validation losses and weights are those of one process with the same batches."""
    train(config(task, folder, **OPTIONS), folder / "one")
    ours, expected = metrics(folder / out), metrics(folder / "one")
    assert [line.keys() for line in ours] == [line.keys() for line in expected] and len(ours) == 12
    for line, other in zip(ours, expected, strict=True):
        for name in line:
            assert line[name] == pytest.approx(other[name], rel=0, abs=SAME), name
    torch.testing.assert_close(run_folder.model_tensors(folder / out), run_folder.model_tensors(folder / "one"), rtol=0, atol=SAME_WEIGHTS)


def test_a_killed_process_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    files(tmp_path)
    torchrun("-m", "tests.training.worker", str(tmp_path), "two", "seq2seq", json.dumps(OPTIONS), "6", restarts=1)
    assert_like_one_process(tmp_path, "two", "seq2seq")


def test_two_processes_by_the_command_and_then_one(tmp_path: Path) -> None:
    files(tmp_path)
    settings = options("mlm", tmp_path, **OPTIONS)
    flags = [f"--{name}={value}" for name, value in settings.items() if name not in ("task", "model", "train")]
    flags += [f"--{table}.{name}={value}" for table in ("model", "train") for name, value in settings[table].items() if name != "steps"]
    torchrun("-m", "transalg", "train", "mlm", "--out", str(tmp_path / "two"), *flags, "--train.steps", "9", "--train.patience", "1000")
    assert_like_one_process(tmp_path, "two", "mlm")


def test_sharded_over_two_processes_and_resumed_by_one(tmp_path: Path) -> None:
    files(tmp_path)
    sharded = OPTIONS | {"shard": True}
    torchrun("-m", "tests.training.worker", str(tmp_path), "two", "classify", json.dumps(sharded), "6", restarts=1)
    assert {path.name for path in (tmp_path / "two").iterdir()} >= {"best", "last"}
    kinds = {path.suffix for path in (tmp_path / "two" / "last").iterdir()}
    assert kinds == {".safetensors", ".json"}, "nothing is pickled"
    assert_like_one_process(tmp_path, "two", "classify")
    for out in ("one", "two"):
        train(None, tmp_path / out, resume=True, changes={"train": {"steps": STEPS}})
    ours, expected = (checkpoints.load(tmp_path / out / "last.safetensors")[0] for out in ("two", "one"))
    torch.testing.assert_close(ours, expected, rtol=0, atol=SAME_WEIGHTS)
    assert not (tmp_path / "two" / "last").exists()


def test_sharding_needs_processes(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(ValueError, match=r"train\.shard: expected several processes; start them with torchrun"):
        train(config("lm", tmp_path, shard=True), tmp_path / "run")
