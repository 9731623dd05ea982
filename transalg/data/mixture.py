"""The rows of several data sets: a part of each validates, and an epoch draws from each in proportion to its weight."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from transalg.data.rows import ListedRecords, Range, Rows, WholeRecords, split_range
from transalg.data.shuffle import Index, permuted

ORDER = 4  # what a permutation is for


@dataclass(frozen=True)
class Mixture:
    """Rows to draw from. Of a data set, every row is drawn once before any is drawn again, however many epochs that takes.

    An epoch has as many rows as all data sets together. Where it begins in each follows from its number, so nothing is stored.
    """

    records: Rows
    sets: tuple[Index, ...]  # the rows of each data set, in the order in which they are drawn
    weights: tuple[float, ...]

    def rows(self, shift: int = 0, epoch: int = 0) -> Rows:
        counts = quotas(self.weights, sum(map(len, self.sets)))
        drawn = [each[(epoch * count + np.arange(count)) % len(each)] for each, count in zip(self.sets, counts, strict=True)]
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        order = np.argsort(places, kind="stable")  # evenly, so that any run of rows has its share of each data set
        which, sets = np.concatenate(drawn)[order], np.repeat(np.arange(len(counts)), counts)[order]
        return replace(self.records, subset=ListedRecords(self.records.subset(which)), sets=sets)


def quotas(weights: tuple[float, ...], total: int) -> list[int]:
    """How many of `total` rows each weight gets: its proportion, rounded, the largest remainders up; at least one.

    >>> quotas((1, 0.5), 300), quotas((1, 1, 1), 11), quotas((1000, 1), 10)
    ([200, 100], [4, 4, 3], [10, 1])
    """
    exact = [total * weight / sum(weights) for weight in weights]
    counts = [int(each) for each in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: total - sum(counts)]:
        counts[i] += 1
    return [max(1, count) for count in counts]


def mixture(records: Rows, heads: Mapping[str, range], weights: Mapping[str, float]) -> Mixture:
    """Draw from the data sets that have a weight, the order of each fixed at random."""
    members = _members(records, heads)
    for name in weights:
        if name not in members:
            raise ValueError(f"{name}: expected texts to train on, got none that the model can take")
    sets = [permuted(np.arange(len(members[name])), len(members[name]), ORDER, i) for i, name in enumerate(weights)]
    return Mixture(records, tuple(members[name][order] for name, order in zip(weights, sets, strict=True)), tuple(weights.values()))


def split(records: Rows, heads: Mapping[str, range], validation_range: Range, seed: int) -> tuple[WholeRecords, WholeRecords]:
    """The training and the validation set, which is the same range of every data set, drawn by the seed."""
    train, valid = list[Index](), list[Index]()
    for name, rows in _members(records, heads).items():
        lo, hi = split_range(len(rows), validation_range, f"records of {name}")
        drawn = rows[permuted(np.arange(len(rows)), len(rows), seed)]
        train += [drawn[:lo], drawn[hi:]]
        valid.append(drawn[lo:hi])
    parts = (np.sort(np.concatenate(each)) for each in (train, valid))
    first, second = (WholeRecords(replace(records, subset=ListedRecords(records.subset(part)))) for part in parts)
    return first, second


def of_head(records: Rows, heads: Mapping[str, range], head: str) -> Rows:
    """The rows of one data set."""
    members = _members(records, heads).get(head, np.zeros(0, np.int64))
    if not len(members):
        raise ValueError(f"{head}: expected texts with labels, got none")
    return replace(records, subset=ListedRecords(records.subset(members)))


def set_numbers(classes: NDArray[np.integer], heads: Mapping[str, range]) -> Index:
    """Of each class the number of its data set."""
    return np.searchsorted([block.stop for block in heads.values()], classes, "right").astype(np.int64)


def _members(records: Rows, heads: Mapping[str, range]) -> dict[str, Index]:
    """The rows of each data set that has some."""
    assert records.store.classes is not None
    numbers = set_numbers(records.store.classes[records.subset(np.arange(len(records)))], heads)
    members = {name: np.flatnonzero(numbers == i) for i, name in enumerate(heads)}
    return {name: rows for name, rows in members.items() if len(rows)}
