"""A run's folder: config.toml, tokenizer.json, metrics.jsonl, and the best and the last model."""

from pathlib import Path
from typing import Any

import torch

from transalg.runs import checkpoints

BEST, LAST = "best", "last"


def facts(run: Path) -> dict[str, Any]:
    """What the best model of a run says of itself: task, hyper, labels, step, val_loss."""
    folder = _sharded(run)
    return checkpoints.facts(run / f"{BEST}.safetensors") if folder is None else checkpoints.facts_sharded(folder)


def last(run: Path) -> dict[str, Any] | None:
    """What the last checkpoint of a run says of itself; None if there is none yet."""
    folder, path = checkpoints.sharded(run / LAST), run / f"{LAST}.safetensors"
    if path.exists():
        return checkpoints.facts(path)
    return None if folder is None else checkpoints.facts_sharded(folder)


def tensors(run: Path) -> checkpoints.Tensors:
    """The parameters of the best model of a run, by name."""
    folder = _sharded(run)
    if folder is None:
        return checkpoints.load(run / f"{BEST}.safetensors")[0]
    checkpoints.facts_sharded(folder)
    found = {name: torch.empty(saved.size, dtype=saved.properties.dtype) for name, saved in checkpoints.names_sharded(folder).items()}
    checkpoints.load_sharded(folder, found)
    return {name.removeprefix(checkpoints.MODEL): tensor for name, tensor in found.items()}


def _sharded(run: Path) -> Path | None:
    if not run.is_dir():
        raise ValueError(f"{run}: expected the folder of a run, there is none")
    folder = checkpoints.sharded(run / BEST)
    if folder is None and not (run / f"{BEST}.safetensors").exists():
        raise ValueError(f"{run}: there is no trained model in this folder (no {BEST}.safetensors)")
    return None if (run / f"{BEST}.safetensors").exists() else folder
