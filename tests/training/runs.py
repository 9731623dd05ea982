"""Small runs of all tasks."""

import json
from pathlib import Path
from typing import Any

import torch

from transalg import tasks
from transalg.runs import checkpoints
from transalg.runs.config import Config

TASKS = tuple(name for name, task in tasks.TASKS.items() if task.records != "episodes")  # of text; see tests/tasks/test_gato.py
WORDS = ["a cat sat", "the dog ran", "on a mat", "for the cat", "a dog and a cat", "the mat", "sat on the dog", "ran"]
SIZES = {"H": 2, "d_e": 10, "d_mlp": 13, "dropout": 0.0}


def files(folder: Path) -> Path:
    """Data for every task: lines, which are also pairs and labelled texts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lines.txt").write_text("".join(f"{one}\n" for one in WORDS))
    (folder / "pairs.txt").write_text("".join(f"{one}\t{one[::-1]}\n" for one in WORDS))
    (folder / "labels.txt").write_text("".join(f"{'cat' if 'cat' in one else 'other'}\t{one}\n" for one in WORDS))
    (folder / "animals.txt").write_text("".join(f"{'dog' if 'dog' in one else 'none'}\t{one}\n" for one in WORDS))
    return folder


def options(task: str, folder: Path, model: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    """Options for a run of a second."""
    names = {"seq2seq": ["pairs.txt"], "classify": ["labels.txt"], "multi": ["labels.txt", "animals.txt"]}.get(task, ["lines.txt"])
    data = [str(folder / name) for name in names]
    layers = {"L_enc": 1, "L_dec": 1} if task == "seq2seq" else {"L": 1}
    chosen = {
        "steps": 6,
        "batch_size": 3,
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "log_every": 1,
        "eval_every": 3,
        "save_every": 2,
    } | train
    settings = {"task": task, "data": data if len(data) > 1 else data[0], "tokenizer": "char", "split": 0.25, "train": chosen}
    return settings | {"model": SIZES | layers | {"ell_max": 29} | (model or {})} | ({"documents": "line"} if task in ("lm", "mlm") else {})


def config(task: str, folder: Path, model: dict[str, Any] | None = None, **train: Any) -> Config:
    return Config.from_dict(options(task, folder, model, **train))


def assert_same(folder: Path, one: str, other: str) -> None:
    """Two runs have the same models, metadata and metrics, but for the seconds they took."""
    for name in ("last.safetensors", "best.safetensors"):
        (ours, metadata), (theirs, their_metadata) = (checkpoints.load(folder / out / name) for out in (one, other))
        assert ours.keys() == theirs.keys() and all(ours[key].equal(theirs[key]) for key in ours), name
        for each in (metadata, their_metadata):
            (each.state or {}).pop("seconds", None)
        assert metadata == their_metadata
    lines = [[json.loads(line) for line in (folder / out / "metrics.jsonl").read_text().splitlines()] for out in (one, other)]
    for line in lines[0] + lines[1]:
        assert line.pop("seconds") >= 0
    assert lines[0] == lines[1]
