"""Batches as losses take them, in as many parts as there are processes and accumulation steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transalg.data.rows import Batch
from transalg.hyper import Hyper
from transalg.model import MixedBatch


@dataclass(frozen=True)
class Example:
    """A batch as its loss takes it, row by row, and the number of its predictions."""

    tensors: tuple[Tensor, ...]  # a row in each for every row of the batch
    lengths: tuple[Tensor, ...]  # of the rows, for each of the `lengths` arguments
    count: int
    widths: tuple[int, ...] = ()  # for each tensor, which of the lengths are those of its rows; the first unless given

    def part(self, index: int, parts: int, device: torch.device) -> tuple[tuple[Any, ...], bool]:
        """The loss's inputs for every parts-th row from this one on, and whether there are any; if not, the inputs are those of row 0."""
        rows = len(self.tensors[0])
        which = slice(index, None, parts) if index < rows else slice(0, 1)
        lengths = [each[which].tolist() for each in self.lengths]
        widths = self.widths or (0,) * len(self.tensors)
        cut = [
            each[which] if each.ndim == 1 else each[which, : max(lengths[width])] for width, each in zip(widths, self.tensors, strict=True)
        ]
        return (*(each.to(device, non_blocking=True) for each in cut), *lengths), index < rows


@dataclass(frozen=True)
class MixedExample:
    """A batch of all modalities as its loss takes it."""

    batch: MixedBatch
    tasks: Tensor  # of each row the number of its task
    count: float  # the weights of its predictions together

    def part(self, index: int, parts: int, device: torch.device) -> tuple[tuple[Any, ...], bool]:
        """As `Example.part`."""
        if parts == 1:
            return (self.batch.to(device), self.tasks), True
        rows = [*range(index, len(self.batch), parts)]
        return (self.batch.select(rows or [0]).to(device), self.tasks[rows or [0]]), bool(rows)


def stream(batch: Batch, name: str) -> tuple[Tensor, Tensor]:
    """The token IDs of a stream, B × ℓ, and its rows' lengths."""
    ids, lengths = batch.streams[name]
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def augmented(batch: Batch, stream: str | None, hyper: Hyper, noise: float, drop: float, seed: int) -> Batch:
    """The batch with some ordinary tokens of a stream replaced by others, and some left out; bos and eos stay."""
    if stream is None or not (noise or drop):
        return batch
    ids, lengths = batch.streams[stream]
    rng = np.random.default_rng(seed)
    special = hyper.special_tokens
    inside = np.arange(ids.shape[1]) < lengths[:, None]
    ordinary = inside & ~np.isin(ids, special.ids)
    drawn = rng.random(ids.shape)
    other = special.ordinary(rng.integers(0, max(1, hyper.N_V - len(special.ids)), ids.shape))
    ids = np.where(ordinary & (drawn < noise), other, ids)
    stays = inside & ((rng.random(ids.shape) >= drop) | ~ordinary)
    order = np.argsort(~stays, axis=1, kind="stable")  # what stays moves to the front
    return Batch(batch.streams | {stream: (np.take_along_axis(ids, order, axis=1), stays.sum(axis=1))}, batch.classes)
