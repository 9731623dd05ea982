"""A run's folder: config.toml, tokenizer.json, metrics.jsonl, and the best and the last model, each a file or a folder of shards."""

from pathlib import Path

import torch

from transalg.hyper import Hyper
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.tokenization import Tokenizer
from transalg.tokenization.tokenizer import read_core, vocabulary_size

BEST, LAST = "best", "last"
CONFIG, TOKENIZER, METRICS, TENSORBOARD = "config.toml", "tokenizer.json", "metrics.jsonl", "tensorboard"


def checkpoint_file(run: Path, name: str) -> Path:
    """Where a checkpoint that is not sharded lies; a sharded one lies in the folder of the same name."""
    return run / f"{name}.safetensors"


def best_metadata(run: Path) -> Metadata:
    """The metadata of a run's best model."""
    folder = _sharded_best(run)
    return checkpoints.load_metadata(checkpoint_file(run, BEST)) if folder is None else checkpoints.load_sharded_metadata(folder)


def last_metadata(run: Path) -> Metadata | None:
    """The metadata of a run's last checkpoint; None before the first."""
    folder, path = checkpoints.find_sharded(run / LAST), checkpoint_file(run, LAST)
    if path.exists():
        return checkpoints.load_metadata(path)
    return None if folder is None else checkpoints.load_sharded_metadata(folder)


def best_tensors(run: Path) -> checkpoints.Tensors:
    """The parameters of a run's best model, by name."""
    folder = _sharded_best(run)
    if folder is None:
        return checkpoints.load(checkpoint_file(run, BEST))[0]
    checkpoints.load_sharded_metadata(folder)
    tensors = {name: torch.empty(saved.size, dtype=saved.properties.dtype) for name, saved in checkpoints.sharded_sizes(folder).items()}
    checkpoints.load_sharded(folder, tensors)
    return {name.removeprefix(checkpoints.MODEL): tensor for name, tensor in tensors.items()}


def load_tokenizer(run: Path, hyper: Hyper) -> Tokenizer:
    """The tokenizer of a run. Its special tokens are those of the run's model, for tokenizer.json has only their names."""
    core = read_core(run / TOKENIZER)
    if vocabulary_size(core) != hyper.N_V:
        raise ValueError(f"{run}: the model has N_V = {hyper.N_V}, but {TOKENIZER} has {vocabulary_size(core)} tokens")
    return Tokenizer(core, special=hyper.special_tokens)


def _sharded_best(run: Path) -> Path | None:
    """The folder of the best model's shards; None if it is one file."""
    if not run.is_dir():
        raise ValueError(f"{run}: expected the folder of a run, there is none")
    folder, path = checkpoints.find_sharded(run / BEST), checkpoint_file(run, BEST)
    if folder is None and not path.exists():
        raise ValueError(f"{run}: there is no trained model in this folder (no {path.name})")
    return None if path.exists() else folder
