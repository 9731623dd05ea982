"""Rows to batches: shuffled by a seed, rows of similar length together, by number of rows or of tokens; any position in it can be resumed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from transalg.data.rows import AnyRows, Rows, RowSource
from transalg.data.shuffle import Index, derive_seed, permuted

POOL = 64  # batches that are shuffled together and sorted by length
ORDER, POOLS, SHIFT = 1, 2, 3  # what a seed is derived for


@dataclass(frozen=True)
class DataPosition:
    """How much of the data training has used."""

    epoch: int = 0
    batch: int = 0  # of this epoch, how many are done


@dataclass(frozen=True)
class Plan:
    """How rows become batches: so many rows, or as many as have so many tokens."""

    rows: int
    tokens: int | None = None
    seed: int = 0
    shuffle: bool = True
    shift: bool = False  # documents are cut at other positions in every epoch

    def epoch(self, source: RowSource, epoch: int) -> Rows:
        """The rows of an epoch."""
        return source.rows(derive_seed(2**31, self.seed, SHIFT, epoch) if self.shift else 0, epoch)

    def batches(self, rows: AnyRows, epoch: int = 0) -> Iterator[Index]:
        """The rows of every batch of an epoch."""
        size = self.rows * POOL if self.tokens is None else max(POOL * self.tokens // 64, 1024)
        for first in range(0, len(rows), size):
            index = np.arange(first, min(first + size, len(rows)))
            if self.shuffle:
                index = permuted(index, len(rows), self.seed, ORDER, epoch)
                lengths = rows.lengths(index)
                order = _by_length(lengths, None if rows.sets is None else rows.sets[index])
                batches = self.divide(index[order], lengths[order])
                yield from (batches[i] for i in permuted(np.arange(len(batches)), len(batches), self.seed, POOLS, epoch, first))
            else:
                yield from self.divide(index, rows.lengths(index))

    def count(self, source: Any) -> int:
        """How many batches the first epoch has."""
        rows = self.epoch(source, 0)
        return -(-len(rows) // self.rows) if self.tokens is None else sum(1 for _ in self.batches(rows))

    def forever(self, source: Any, position: DataPosition) -> Iterator[tuple[DataPosition, AnyRows, Index]]:
        """Batches from a position on, epoch after epoch, each with the position after it."""
        epoch, skip = position.epoch, position.batch
        while True:
            rows = self.epoch(source, epoch)
            for i, index in enumerate(self.batches(rows, epoch)):
                if i >= skip:
                    yield DataPosition(epoch, i + 1), rows, index
            epoch, skip = epoch + 1, 0

    def divide(self, index: Index, lengths: Index) -> list[Index]:
        """These rows as batches, in their order."""
        if self.tokens is None:
            return [index[i : i + self.rows] for i in range(0, len(index), self.rows)]
        batches, start, total = [], 0, 0
        for i, length in enumerate(lengths.tolist()):
            if i > start and total + length > self.tokens:
                batches.append(index[start:i])
                start, total = i, 0
            total += length
        return [*batches, index[start:]]


def _by_length(lengths: Index, sets: Index | None) -> Index:
    """The longest first; of several data sets in step, so that every batch has its share of each: the longest, the next, … of all of them."""
    order = np.argsort(-lengths, kind="stable")
    if sets is None:
        return order
    places = np.zeros(len(lengths))
    for each in np.unique(sets):
        members = order[sets[order] == each]
        places[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.argsort(places, kind="stable")
