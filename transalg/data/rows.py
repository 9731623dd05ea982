"""Records to rows of at most ℓ_max tokens: documents are cut into chunks, pairs and labelled texts stay one row each; training and validation sets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transalg.data.shuffle import Index, permuted
from transalg.data.sources import TooLong
from transalg.data.store import Store
from transalg.tokenization.sequence import Sequence

BLOCK = 2**20  # records that are looked at together
FEW = 100  # documents: fewer are split at a position in the text, not drawn
GROUP = 16  # documents whose chunks are counted together
Spans = Callable[[Index], tuple[Index, Index]]  # where each row begins and ends among the tokens
Range = tuple[float, float]  # a part of the data, from the first fraction to the second


@dataclass(frozen=True)
class RecordSubset:
    """Records lo, …, hi − 1 of n in a random order, or all others; computed on demand, so a subset of a large corpus takes no memory."""

    n: int
    lo: int = 0
    hi: int = 0
    inside: bool = False
    seed: int | None = None  # None: in their own order

    def __len__(self) -> int:
        return self.hi - self.lo if self.inside else self.n - (self.hi - self.lo)

    def __call__(self, index: Index) -> Index:
        index = index + self.lo if self.inside else index + (index >= self.lo) * (self.hi - self.lo)
        return index if self.seed is None else permuted(index, self.n, self.seed)


@dataclass(frozen=True)
class ListedRecords:
    """Records that are listed one by one."""

    which: Index

    def __len__(self) -> int:
        return len(self.which)

    def __call__(self, index: Index) -> Index:
        return np.asarray(self.which[index])


@dataclass(frozen=True)
class Batch:
    """Some rows, padded to the longest; the padding after a row's length means nothing."""

    streams: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]  # x, or z and x: IDs and lengths
    classes: NDArray[np.int64] | None
    sequences: tuple[Sequence, ...] = ()  # the rows themselves, if they have tokens of other modalities than text

    def __len__(self) -> int:
        return len(self.streams["x"][1])

    @property
    def tokens(self) -> int:
        return int(sum(lengths.sum() for _, lengths in self.streams.values()))

    def rows(self, which: slice) -> "Batch":
        """Some of them, no wider than they have to be."""
        streams = {name: (ids[which], lengths[which]) for name, (ids, lengths) in self.streams.items()}
        return Batch(
            {name: (ids[:, : lengths.max(initial=1)], lengths) for name, (ids, lengths) in streams.items()},
            None if self.classes is None else self.classes[which],
        )


@dataclass(frozen=True)
class Rows:
    """Rows of token IDs, by where each begins and ends in the memory-mapped tokens."""

    store: Store
    spans: Mapping[str, Spans]
    subset: RecordSubset | ListedRecords
    limits: Mapping[str, int] = field(default_factory=dict)  # tokens of a row of each stream; a longer one is cut, and ends with eos
    numbers: Index | None = None  # of the records, where some were skipped
    sets: Index | None = None  # of each row the number of its data set, where every batch has its share of each

    def __len__(self) -> int:
        return len(self.subset)

    @cached_property
    def cut(self) -> int:
        """How many rows are shorter than their records, because those exceed the limits."""
        if not self.limits:
            return 0
        return sum(self._cut(np.arange(first, min(first + BLOCK, len(self)))) for first in range(0, len(self), BLOCK))

    def records(self, index: Index) -> Index:
        """Which record of the data each row is, counted from 0; of rows that are whole records."""
        records = self.subset(index)
        return records if self.numbers is None else self.numbers[records]

    def lengths(self, index: Index) -> Index:
        """How many tokens each row has, of all its streams."""
        return sum((self._limited(stream, lengths) for stream, (_, lengths) in self._spans(index).items()), np.zeros(len(index), np.int64))

    def batch(self, index: Index) -> Batch:
        streams = {}
        for stream, (starts, full_lengths) in self._spans(index).items():
            lengths = self._limited(stream, full_lengths)
            positions = starts[:, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)
            ids = self.store.tokens[stream][positions].astype(np.int64)
            self.store.check_ids(ids)
            is_cut = lengths < full_lengths
            if self.store.eos is not None and self.limits.get(stream, 0) > 1:
                ids[is_cut, lengths[is_cut] - 1] = self.store.eos
            streams[stream] = ids, lengths
        classes = None if self.store.classes is None else self.store.classes[self.subset(index)].astype(np.int64)
        return Batch(streams, classes)

    def _spans(self, index: Index) -> dict[str, tuple[Index, Index]]:
        """Where the record of each row begins in each stream, and how many tokens it has."""
        self.store.check()
        records = self.subset(index)
        bounds = {stream: spans(records) for stream, spans in self.spans.items()}
        return {stream: (starts, stops - starts) for stream, (starts, stops) in bounds.items()}

    def _limited(self, stream: str, lengths: Index) -> Index:
        return np.minimum(lengths, self.limits[stream]) if stream in self.limits else lengths

    def _cut(self, index: Index) -> int:
        too_long = [lengths > self._limited(stream, lengths) for stream, (_, lengths) in self._spans(index).items()]
        return int(np.any(too_long, axis=0).sum())


class AnyRows(Protocol):
    """Rows of token IDs, or of tokens of every modality."""

    @property
    def sets(self) -> Index | None: ...
    def __len__(self) -> int: ...
    def lengths(self, index: Index) -> Index: ...
    def batch(self, index: Index) -> Batch: ...


class RowSource(Protocol):
    """What gives the rows of an epoch: documents cut into chunks, or whole records."""

    def rows(self, shift: int = 0, epoch: int = 0) -> Rows:
        """The rows; with a shift, long documents are cut at other positions. A mixture draws other rows in every epoch."""


@dataclass(frozen=True)
class StoredSpans:
    """Spans that stand in two arrays."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def __call__(self, index: Index) -> tuple[Index, Index]:
        return np.asarray(self.starts[index]), np.asarray(self.stops[index])


@dataclass(frozen=True)
class ChunkSpans:
    """Spans of the chunks of n documents, computed on demand: one number is stored for every 16 documents, nothing for a chunk.

    Of a document longer than `width` the first chunk is shorter by `shift` tokens.
    """

    documents: Spans
    n: int
    width: int
    overlap: int
    shift: int

    def __len__(self) -> int:
        return int(self._before[-1])

    def __call__(self, index: Index) -> tuple[Index, Index]:
        group = np.searchsorted(self._before, index, "right") - 1
        document = group[:, None] * GROUP + np.arange(min(GROUP, self.n))
        starts, stops = (each.reshape(document.shape) for each in self.documents(np.minimum(document, self.n - 1).ravel()))
        early, counts = self._counts(starts, stops)
        after = np.cumsum(counts, axis=1) + self._before[group, None]  # chunks up to the end of each document
        here = np.arange(len(index)), (after <= index[:, None]).sum(axis=1)
        number = index - (after[here] - counts[here])
        begin = starts[here] - early[here] + number * (self.width - self.overlap)
        return np.maximum(begin, starts[here]), np.minimum(begin + self.width, stops[here])

    def _counts(self, starts: Index, stops: Index) -> tuple[Index, Index]:
        """By how much the first chunk of each document is shorter, and how many chunks it has."""
        stride = self.width - self.overlap
        early = np.where(stops - starts > self.width, self.shift % stride, 0)
        return early, np.maximum(1, -(-(stops - starts - self.overlap + early) // stride))

    @cached_property
    def _before(self) -> Index:
        """The number of chunks before each group of documents, and of all."""
        totals = [np.zeros(1, np.int64)]
        for first in range(0, self.n, BLOCK):
            _, counts = self._counts(*self.documents(np.arange(first, min(first + BLOCK, self.n))))
            totals.append(np.add.reduceat(counts, np.arange(0, len(counts), GROUP)))
        return np.cumsum(np.concatenate(totals))


@dataclass(frozen=True)
class Chunks:
    """Documents to be cut into chunks of at most `width` tokens, each of which begins with the last `overlap` tokens of the one before."""

    store: Store
    subset: RecordSubset
    tokens: tuple[int, int] | None  # of few documents: only the tokens from the first position to the second, or (with hi < lo) all others
    width: int
    overlap: int
    pack: bool = False

    def rows(self, shift: int = 0, epoch: int = 0) -> Rows:
        """The chunks. With a shift, the first chunk of every document that has several is shorter by so many tokens."""
        self.store.check()
        bounds = self.store.bounds["x"]
        if self.pack:
            bounds = bounds[[0, -1]]
        subset = RecordSubset(len(bounds) - 1) if self.pack else self.subset
        documents = StoredSpans(bounds[:-1], bounds[1:])
        if self.tokens is not None:
            documents = self._inside(documents, *self.tokens)
            subset = RecordSubset(len(documents.starts))
        elif self._longest(bounds) <= self.width:
            return Rows(self.store, {"x": documents}, subset)
        spans = ChunkSpans(lambda index: documents(subset(index)), len(subset), self.width, self.overlap, shift)
        return Rows(self.store, {"x": spans}, RecordSubset(len(spans)))

    def _inside(self, documents: StoredSpans, lo: int, hi: int) -> StoredSpans:
        """The parts of the documents between the two positions, or outside them."""
        ranges = [(lo, hi)] if lo <= hi else [(0, hi), (lo, int(documents.stops[-1]))]
        pairs = [(np.maximum(documents.starts, a), np.minimum(documents.stops, b)) for a, b in ranges]
        starts, stops = (np.concatenate(each) for each in zip(*pairs, strict=True))
        long_enough = stops - starts > self.overlap
        return StoredSpans(starts[long_enough], stops[long_enough])

    @staticmethod
    def _longest(bounds: NDArray[np.int64]) -> int:
        return max(int(np.diff(bounds[i : i + BLOCK + 1]).max(initial=0)) for i in range(0, len(bounds) - 1, BLOCK))


@dataclass(frozen=True)
class WholeRecords:
    """Pairs or labelled texts, a row each, the same in every epoch."""

    records: Rows

    def rows(self, shift: int = 0, epoch: int = 0) -> Rows:
        return self.records


def chunks(
    store: Store, width: int, overlap: int, *, pack: bool = False, validation_range: Range | None = None, seed: int = 0
) -> tuple[Chunks, Chunks | None]:
    """The training and the validation set of documents, which is the range `validation_range` of them; without a range, all of them and None.

    Fewer than 100 documents, or packed ones, are split at two positions of the text; of more, some documents are drawn by the seed.
    """
    documents = Chunks(store, RecordSubset(len(store)), None, width, overlap, pack)
    if validation_range is None:
        return documents, None
    if pack or len(store) < FEW:
        total = int(store.bounds["x"][-1])
        lo, hi = (round(total * each) for each in validation_range)
        train, valid = replace(documents, tokens=(hi, lo)), replace(documents, tokens=(lo, hi))
        if not (len(train.rows()) and len(valid.rows())):
            raise ValueError(f"split: {total} tokens are too few to be split into {_percent(validation_range)} for validation and the rest")
        return train, valid
    train_subset, valid_subset = _split(len(store), validation_range, seed)
    return replace(documents, subset=train_subset), replace(documents, subset=valid_subset)


def whole_records(
    store: Store,
    limits: Mapping[str, int],
    where: Callable[[int], str],
    *,
    too_long: TooLong = "error",
    validation_range: Range | None = None,
    seed: int = 0,
) -> tuple[WholeRecords, WholeRecords | None]:
    """The training and the validation set of pairs or labelled texts, the range `validation_range` of them, drawn by the seed.

    A record longer than the limits is an error, skipped, or cut to a row that begins with bos and ends with eos.
    """
    spans = {stream: StoredSpans(bounds[:-1], bounds[1:]) for stream, bounds in store.bounds.items()}
    short, numbers = np.ones(len(store), bool), None
    for stream, span in spans.items():
        length = span.stops - span.starts
        long = length > limits[stream]
        if too_long == "error" and long.any():
            first = int(np.flatnonzero(long)[0])
            raise ValueError(
                f"{where(first)}: {int(length[first])} tokens, and the model takes {limits[stream]}; "
                "give --too-long skip or cut, or train with a larger --model.ell-max"
            )
        short &= ~long
    if too_long == "skip" and not short.all():
        numbers = which = np.flatnonzero(short)
        if not len(which):
            raise ValueError(f"{where(0)}: this and all other records are longer than the model takes, {dict(limits)}")
        spans = {stream: StoredSpans(*span(which)) for stream, span in spans.items()}
        store = replace(store, classes=None if store.classes is None else store.classes[which])
    count = len(next(iter(spans.values())).starts)
    if validation_range is None:
        return WholeRecords(Rows(store, spans, RecordSubset(count), limits, numbers)), None
    train, valid = _split(count, validation_range, seed)
    return WholeRecords(Rows(store, spans, train, limits, numbers)), WholeRecords(Rows(store, spans, valid, limits, numbers))


def _split(n: int, validation_range: Range, seed: int) -> tuple[RecordSubset, RecordSubset]:
    lo, hi = split_range(n, validation_range)
    return RecordSubset(n, lo, hi, inside=False, seed=seed), RecordSubset(n, lo, hi, inside=True, seed=seed)


def split_range(n: int, validation_range: Range, what: str = "records") -> tuple[int, int]:
    """Which of n records validate, from the first number to the second; a ValueError if that is none or all."""
    lo, hi = (round(n * each) for each in validation_range)
    if not 0 < hi - lo < n:
        raise ValueError(f"split: {n} {what} are too few to be split into {_percent(validation_range)} for validation and the rest")
    return lo, hi


def _percent(validation_range: Range) -> str:
    return f"{validation_range[1] - validation_range[0]:.0%}"
