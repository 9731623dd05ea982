"""A run's folder: config.toml, tokenizer.json, metrics.jsonl, and the best and the last model, each a file or a folder of shards."""

from pathlib import Path
from typing import Literal

from transalg.hyper import GatoHyper, Hyper
from transalg.hyper.modalities import BINS
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.tokenization import Tokenizer
from transalg.tokenization.tokenizer import check_unknown, read_core, vocabulary_size

Checkpoint = Literal["best", "last"]
BEST: Checkpoint = "best"
LAST: Checkpoint = "last"
UNSETTLED = (".ready", ".moving")  # folders in a run's folder, see `transalg.runs.swap`
CONFIG, TOKENIZER, METRICS, TENSORBOARD = "config.toml", "tokenizer.json", "metrics.jsonl", "tensorboard"


def checkpoint_file(run: Path, name: str) -> Path:
    """Where a checkpoint that is not sharded lies; a sharded one lies in the folder of the same name."""
    return run / f"{name}.safetensors"


def find_checkpoint(run: Path, checkpoint: Checkpoint = BEST) -> Checkpoint:
    """The checkpoint to load: this one, or the last where there is no best yet."""
    if checkpoint not in (BEST, LAST):
        raise ValueError(f"checkpoint: expected {BEST} or {LAST}, got {checkpoint!r}")
    if not run.is_dir():
        raise ValueError(f"{run}: expected the folder of a run, there is none")
    if any((run / name).is_dir() for name in UNSETTLED):
        raise ValueError(
            f"{run}: --overwrite was killed while it put the new run in its place; transalg train --resume --out {run} completes it"
        )
    for name in dict.fromkeys((checkpoint, LAST)):
        if find_place(run, name) is not None:
            return name
    raise ValueError(f"{run}: there is no trained model in this folder (no {checkpoint_file(run, checkpoint).name})")


def find_place(run: Path, checkpoint: Checkpoint) -> Path | None:
    """The file of a checkpoint, or the folder of its shards; None if there is neither."""
    path = checkpoint_file(run, checkpoint)
    return path if path.exists() else checkpoints.find_sharded(run / checkpoint)


def model_metadata(run: Path, checkpoint: Checkpoint = BEST) -> Metadata:
    """The metadata of a run's best or last model."""
    return _metadata(_found(run, checkpoint))


def last_metadata(run: Path) -> Metadata | None:
    """The metadata of a run's last checkpoint; None before the first."""
    place = find_place(run, LAST)
    return None if place is None else _metadata(place)


def model_tensors(run: Path, checkpoint: Checkpoint = BEST) -> checkpoints.Tensors:
    """The parameters of a run's best or last model, by name."""
    return load_checkpoint(run, checkpoint)[0]


def load_checkpoint(run: Path, checkpoint: Checkpoint = BEST) -> tuple[checkpoints.Tensors, Metadata]:
    """The same, and the metadata of the same file."""
    return checkpoints.load_model(_found(run, checkpoint))


def load_tokenizer(run: Path, hyper: Hyper) -> Tokenizer:
    """The tokenizer of a run. Its special tokens are those of the run's model, for tokenizer.json has only their names."""
    core = read_core(run / TOKENIZER)
    size = vocabulary_size(core)
    used = max(size, BINS) + BINS + 1 if isinstance(hyper, GatoHyper) else size
    if used > hyper.N_V or (used < hyper.N_V and hyper.special is None):  # a model of others may have rows that no token uses
        raise ValueError(f"{run}: the model has N_V = {hyper.N_V}, but {TOKENIZER} has {size} tokens")
    if hyper.special is None:  # not the vocabulary of others
        try:
            check_unknown(core)
        except ValueError as error:
            raise ValueError(f"{run / TOKENIZER}: {error}") from error
    if hyper.special is None and (gap := min({*range(size)} - {*core.get_vocab().values()}, default=None)) is not None:
        raise ValueError(
            f"{run / TOKENIZER}: model.vocab: expected a token for every ID below {size}, got none for {gap}; restore the file"
        )
    return Tokenizer(core, special=hyper.special_tokens, N_V=size if isinstance(hyper, GatoHyper) else hyper.N_V)


def _metadata(place: Path) -> Metadata:
    return checkpoints.load_sharded_metadata(place) if place.is_dir() else checkpoints.load_metadata(place)


def _found(run: Path, checkpoint: Checkpoint) -> Path:
    place = find_place(run, find_checkpoint(run, checkpoint))
    assert place is not None
    return place
