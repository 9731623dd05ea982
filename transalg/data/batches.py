"""Rows to batches: in a seeded order, rows of like length together, by number or by tokens; any place in it can be found again."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from transalg.data.rows import Documents, Rows
from transalg.data.shuffle import Index, derive_seed, permuted

POOL = 64  # batches that are drawn together and sorted by length
ORDER, POOLS, SHIFT = 1, 2, 3  # what a random number is for


@dataclass(frozen=True)
class Place:
    """How far training has come in the data."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done


@dataclass(frozen=True)
class Plan:
    """How rows become batches: so many rows, or as many as have so many tokens."""

    rows: int
    tokens: int | None = None
    seed: int = 0
    shuffle: bool = True
    shift: bool = False  # documents are cut at other places in every epoch

    def epoch(self, documents: Documents, epoch: int) -> Rows:
        """The rows of an epoch."""
        return documents.rows(derive_seed(2**31, self.seed, SHIFT, epoch) if self.shift else 0)

    def batches(self, rows: Rows, epoch: int = 0) -> Iterator[Index]:
        """The rows of every batch of an epoch."""
        size = self.rows * POOL if self.tokens is None else max(POOL * self.tokens // 64, 1024)
        for first in range(0, len(rows), size):
            index = np.arange(first, min(first + size, len(rows)))
            if self.shuffle:
                index = permuted(index, len(rows), self.seed, ORDER, epoch)
                lengths = rows.lengths(index)
                order = np.argsort(-lengths, kind="stable")
                cut = self._cut(index[order], lengths[order])
                yield from (cut[i] for i in permuted(np.arange(len(cut)), len(cut), self.seed, POOLS, epoch, first))
            else:
                yield from self._cut(index, rows.lengths(index))

    def count(self, documents: Documents) -> int:
        """How many batches the first epoch has."""
        rows = self.epoch(documents, 0)
        return -(-len(rows) // self.rows) if self.tokens is None else sum(1 for _ in self.batches(rows))

    def forever(self, documents: Documents, place: Place) -> Iterator[tuple[Place, Rows, Index]]:
        """Batches from a place on, epoch after epoch, each with the place behind it."""
        epoch, skip = place.epoch, place.batch
        while True:
            rows = self.epoch(documents, epoch)
            for i, index in enumerate(self.batches(rows, epoch)):
                if i >= skip:
                    yield Place(epoch, i + 1), rows, index
            epoch, skip = epoch + 1, 0

    def _cut(self, index: Index, lengths: Index) -> list[Index]:
        if self.tokens is None:
            return [index[i : i + self.rows] for i in range(0, len(index), self.rows)]
        found, start, total = [], 0, 0
        for i, length in enumerate(lengths.tolist()):
            if i > start and total + length > self.tokens:
                found.append(index[start:i])
                start, total = i, 0
            total += length
        return [*found, index[start:]]
