"""Rows of episodes to batches that cost equally much: as many rows as have so many tokens. A batch follows from the number of its first row."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from transalg.data.batches import DataPosition, Plan
from transalg.data.episode_rows import EpisodeRows, Row, token_counts
from transalg.data.episodes import INDEX, META, Episodes
from transalg.data.rows import Batch
from transalg.data.shuffle import Index
from transalg.tokenization.modalities import Vocabulary

RECENT = 1024  # rows that are remembered
LOOK = 64  # rows of a folder that its mean length is taken from


@dataclass(frozen=True)
class NumberedRows:
    """The rows of one seed, which have no end; `count` of them are as many tokens as the episodes have, an epoch."""

    episodes: EpisodeRows
    seed: int
    count: int
    numbers: tuple[int, ...] = ()  # of the folders, if they are not 0, 1, …
    sets: None = None
    recent: dict[int, Row] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return self.count

    def rows(self, shift: int = 0, epoch: int = 0) -> "NumberedRows":
        return self

    def row(self, n: int) -> Row:
        if n not in self.recent:
            while len(self.recent) >= RECENT:
                del self.recent[next(iter(self.recent))]
            self.recent[n] = self.episodes.row(self.seed, n)
        return self.recent[n]

    @cached_property
    def mean_tokens(self) -> float:
        """The mean length of a row, of the first ones: to make thousands of rows would take half a minute."""
        return float(self.lengths(np.arange(LOOK)).mean())

    def lengths(self, index: Index) -> Index:
        """How many tokens each row has."""
        return np.array([len(self.row(n).sequence) for n in index.tolist()], np.int64)

    def batch(self, index: Index) -> Batch:
        """The rows; their classes are the numbers of their folders."""
        rows = [self.row(n) for n in index.tolist()]
        lengths = self.lengths(index)
        ids = np.zeros((len(rows), lengths.max(initial=1)), np.int64)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = row.sequence.ids
        return Batch(
            {"x": (ids, lengths)},
            np.array([self.numbers[row.task] if self.numbers else row.task for row in rows], np.int64),
            tuple(row.sequence for row in rows),
        )


@dataclass(frozen=True)
class EpisodePlan(Plan):
    """Rows in the order of their numbers. A position is how many of them are done."""

    def forever(self, source: Any, position: DataPosition) -> Iterator[tuple[DataPosition, NumberedRows, Index]]:
        assert isinstance(source, NumberedRows)
        stop = position.batch
        while True:
            start, total = stop, 0
            while stop == start or self._has_room(stop - start, total, source, stop):
                total += len(source.row(stop).sequence)
                stop += 1
            yield DataPosition(0, stop), source, np.arange(start, stop)

    def _has_room(self, rows: int, total: int, source: NumberedRows, following: int) -> bool:
        if self.tokens is None:
            return rows < self.rows
        return total + len(source.row(following).sequence) <= self.tokens

    def count(self, source: Any) -> int:
        assert isinstance(source, NumberedRows)
        rows = self.rows if self.tokens is None else max(1.0, self.tokens / source.mean_tokens)
        return max(1, round(len(source) / rows))


def numbered_rows(
    tasks: Sequence[Episodes],
    vocabulary: Vocabulary,
    ell_max: int,
    weights: Sequence[float],
    seed: int,
    *,
    prompts: float,
    split: str = "train",
) -> NumberedRows:
    """Rows of these folders. A weight is a share of tokens: a folder of short rows gets more of them."""
    total, of_rows = 0.0, list[float]()
    for task, weight in zip(tasks, weights, strict=True):
        alone = EpisodeRows((task,), vocabulary, ell_max, prompts=prompts, split=split)
        mean = float(np.mean([len(alone.row(0, n).sequence) for n in range(LOOK)]))
        of_rows.append(weight / mean)
        total += token_count(task, vocabulary, split)
    mean = sum(weights) / sum(of_rows)
    rows = EpisodeRows(tuple(tasks), vocabulary, ell_max, tuple(of_rows), prompts, split)
    return NumberedRows(rows, seed, max(1, round(total / mean)))


def token_count(task: Episodes, vocabulary: Vocabulary, split: str = "train") -> int:
    """How many tokens the episodes of a split have."""
    return sum(int(token_counts(task, int(number), vocabulary).sum()) for number in task.members(split))


def digest(tasks: Sequence[Episodes]) -> str:
    """Of all files of some folders."""
    total = hashlib.blake2b(digest_size=16)
    for task in tasks:
        for name in (META, INDEX, *sorted({episode.file for episode in task.episodes})):
            with (task.folder / name).open("rb") as file:
                total.update(hashlib.file_digest(file, hashlib.blake2b).digest())
    return total.hexdigest()
