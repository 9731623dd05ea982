"""Damage a run of an earlier version in one place: its metadata, its tensors, its tokenizer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

RUNS = Path(__file__).parent / "format-1"
TEXT = "The cat sat on the mat.\nThe dog sat on the log.\nA bird sang in the tree.\nThe fish swam in the sea.\n" * 6
Tensors = dict[str, torch.Tensor]


def copied(folder: Path, task: str = "lm") -> Path:
    """A run, and the text that the one of lm was trained on."""
    (folder / "text.txt").write_text(TEXT)
    return Path(shutil.copytree(RUNS / task, folder / task))


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, json.loads(file.metadata()["transalg"])  # noqa: SIM118


def write(path: Path, tensors: Tensors, metadata: object) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt", "transalg": json.dumps(metadata)})


def rewrite(path: Path, change: Callable[[Tensors, dict[str, Any]], object]) -> None:
    """The same checkpoint after a change of its tensors and metadata."""
    tensors, metadata = read(path)
    change(tensors, metadata)
    write(path, tensors, metadata)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
