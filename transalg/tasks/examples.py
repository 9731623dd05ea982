"""The four tasks: which model learns what from a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transalg.data.rows import Batch
from transalg.hyper import Hyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.runs.config import Task
from transalg.tasks.losses import mask

MODELS: dict[Task, Any] = {"lm": DTransformer, "mlm": ETransformer, "seq2seq": EDTransformer, "classify": Classifier}


@dataclass(frozen=True)
class Example:
    """A batch as its loss takes it, row by row, and how many predictions it asks for."""

    tensors: tuple[Tensor, ...]  # a row in each for every row of the batch
    lengths: tuple[Tensor, ...]  # of the rows, for each of the `lengths` arguments
    task: Task
    count: int

    def part(self, index: int, parts: int, device: torch.device) -> tuple[tuple[Any, ...], bool]:
        """The arguments of the loss for every parts-th row from this one on, and whether there are any; if not, they are those of row 0."""
        rows = len(self.tensors[0])
        which = slice(index, None, parts) if index < rows else slice(0, 1)
        lengths = [each[which].tolist() for each in self.lengths]
        cut = [(each[which] if each.ndim == 1 else each[which, : max(lengths[i])]) for i, each in self._widths()]
        tensors = [each.to(device, non_blocking=True) for each in cut]
        return (*tensors, *lengths), index < rows

    def _widths(self) -> list[tuple[int, Tensor]]:
        """Each tensor with the place of its lengths."""
        return [(i if self.task == "seq2seq" else 0, each) for i, each in enumerate(self.tensors)]


def example(task: Task, batch: Batch, hyper: Hyper, seed: int) -> Example:
    """A batch for the task's loss. What is masked depends on the seed alone."""
    x, lengths = (torch.from_numpy(each) for each in batch.streams["x"])
    if task == "lm":
        return Example((x,), (lengths,), task, int((lengths - 1).sum()))
    if task == "mlm":
        x_tilde, chosen = mask(x, hyper, lengths, torch.Generator().manual_seed(seed))  # type: ignore[arg-type]
        return Example((x, x_tilde, chosen), (lengths,), task, int(chosen.sum()))
    if task == "classify":
        return Example((x, torch.from_numpy(batch.classes)), (lengths,), task, len(x))
    z, z_lengths = (torch.from_numpy(each) for each in batch.streams["z"])
    return Example((z, x), (z_lengths, lengths), task, int((lengths - 1).sum()))


def augmented(task: Task, batch: Batch, hyper: Hyper, noise: float, drop: float, seed: int) -> Batch:
    """The batch with some of the tokens that the model reads replaced by others, and some left out; bos and eos stay."""
    if not (noise or drop):
        return batch
    stream = "z" if task == "seq2seq" else "x"
    ids, lengths = batch.streams[stream]
    rng = np.random.default_rng(seed)
    ordinary = (ids < hyper.mask_token) & (np.arange(ids.shape[1]) < lengths[:, None])
    ids = np.where(ordinary & (rng.random(ids.shape) < noise), rng.integers(0, max(1, hyper.mask_token), ids.shape), ids)
    keep = (rng.random(ids.shape) >= drop) | ~ordinary
    keep &= np.arange(ids.shape[1]) < lengths[:, None]
    order = np.argsort(~keep, axis=1, kind="stable")  # what is kept moves to the front
    streams = batch.streams | {stream: (np.take_along_axis(ids, order, axis=1), keep.sum(axis=1))}
    return Batch(streams, batch.classes)
