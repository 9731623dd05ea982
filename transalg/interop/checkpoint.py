"""A checkpoint of others, in our terms: what every format gives, and how it becomes the folder of a run."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from transalg.atomic import discard, refuse_links_of_runs, sync_to_disk, temporary_path
from transalg.hyper import Hyper
from transalg.hyper.shapes import shapes
from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.runs.config import DERIVED, Config
from transalg.runs.metadata import Metadata
from transalg.runs.tensors import MODEL
from transalg.tasks import TASKS
from transalg.tokenization import Tokenizer


@dataclass(frozen=True)
class Checkpoint:
    """Hyperparameters, tensors that are made one at a time, and a tokenizer."""

    hyper: Hyper
    tensors: Iterator[tuple[str, Tensor]]  # in the order of `shapes`
    dtype: torch.dtype
    core: tokenizers.Tokenizer
    labels: tuple[str, ...] = ()
    embedding: dict[str, Any] | None = None
    left_out: tuple[str, ...] = field(default=())  # names of tensors that the model does not need

    @property
    def task(self) -> str:
        """The first task whose models are of this kind."""
        return next(name for name, task in TASKS.items() if task.hyper_class is type(self.hyper))


def check_target(out: Path, *, overwrite: bool) -> None:
    """Whether a folder may be written here."""
    refuse_links_of_runs(out)
    if out.exists() and not (overwrite and out.is_dir()):
        expected = "--overwrite replaces it" if out.is_dir() else "expected a folder that does not exist"
        raise ValueError(f"{out}: exists already; {expected}")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"{out}: there is no folder {out.parent} to write it in; make it first, or choose another")


def write_run(checkpoint: Checkpoint, out: Path, source: str, *, overwrite: bool = False) -> None:
    """Write a run, made of what is in `source`; `out` has all of it or nothing. Only one tensor is in memory at a time."""
    check_target(out, overwrite=overwrite)
    hyper = checkpoint.hyper
    tokenizer = Tokenizer(checkpoint.core, special=hyper.special_tokens, N_V=hyper.N_V)
    metadata = Metadata(task=checkpoint.task, hyper=hyper, labels=checkpoint.labels, embedding=checkpoint.embedding)
    sizes = {name: value for name, value in asdict(hyper).items() if name not in DERIVED and value is not None}
    config = Config(task=checkpoint.task, split=0.0, imported=source, model=sizes)
    with new_folder(out, overwrite=overwrite) as part:
        tokenizer.save(part / run_folder.TOKENIZER)
        (part / run_folder.CONFIG).write_text(config.toml(), encoding="utf-8")
        tensors = ((MODEL + name, tensor) for name, tensor in checkpoint.tensors)
        named_shapes = {MODEL + name: shape for name, shape in shapes(hyper).items()}
        checkpoints.save_one_by_one(run_folder.checkpoint_file(part, run_folder.BEST), named_shapes, checkpoint.dtype, tensors, metadata)


class new_folder:
    """A folder to write into, which becomes `out` when the block ends without an exception, and is removed otherwise."""

    def __init__(self, out: Path, *, overwrite: bool = False) -> None:
        check_target(out, overwrite=overwrite)
        self.out, self.part = out, temporary_path(out.absolute())

    def __enter__(self) -> Path:
        try:
            self.part.mkdir()
        except OSError as error:
            raise ValueError(f"{self.out}: cannot be written: {error.strerror}") from error
        return self.part

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        try:
            if kind is None:
                for path in self.part.iterdir():
                    if path.is_file():
                        sync_to_disk(path)
                self._take_the_place()
        finally:
            shutil.rmtree(self.part, ignore_errors=True)
        if isinstance(error, OSError):
            raise ValueError(f"{self.out}: cannot be written: {error.strerror or error}") from error

    def _take_the_place(self) -> None:
        """Of a folder that was there before, which goes when the new one has its name."""
        old = temporary_path(self.out.absolute())
        replaces = self.out.exists()
        if replaces:
            self.out.rename(old)
        try:
            self.part.rename(self.out)
        except BaseException:
            if replaces:
                old.rename(self.out)
            raise
        discard(old)
