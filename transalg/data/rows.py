"""Records to rows of at most ℓ_max tokens: documents are cut into chunks, pairs and labelled texts keep their bounds; train and validation apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transalg.data.shuffle import Index, permuted
from transalg.data.sources import TooLong
from transalg.data.store import Store

BLOCK = 2**20  # documents that are looked at together
FEW = 100  # documents: fewer are cut at a place in the text, not drawn
GROUP = 16  # documents whose chunks are counted together
Spans = Callable[[Index], tuple[Index, Index]]  # where each row begins and ends among the tokens


@dataclass(frozen=True)
class Part:
    """Records lo, …, hi − 1 in a random order, or all the others; computed when asked for, so a part of a large corpus takes no memory."""

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
class Batch:
    """Some rows, padded to the longest; what stands behind a row's length means nothing."""

    streams: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]  # x, or z and x: IDs and lengths
    classes: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.streams["x"][1])

    @property
    def tokens(self) -> int:
        return int(sum(lengths.sum() for _, lengths in self.streams.values()))

    def rows(self, which: slice) -> "Batch":
        """Some of them, no wider than they have to be."""
        cut = {name: (ids[which], lengths[which]) for name, (ids, lengths) in self.streams.items()}
        return Batch(
            {name: (ids[:, : lengths.max(initial=1)], lengths) for name, (ids, lengths) in cut.items()},
            None if self.classes is None else self.classes[which],
        )


@dataclass(frozen=True)
class Rows:
    """Rows of token IDs, by where each begins and ends in the memory-mapped tokens."""

    store: Store
    spans: Mapping[str, Spans]
    part: Part
    limits: dict[str, int]  # tokens of a row of each stream; what is behind is cut off

    def __len__(self) -> int:
        return len(self.part)

    def lengths(self, index: Index) -> Index:
        """How many tokens each row has, of all its streams."""
        return sum((stops - starts for starts, stops in self._places(index).values()), np.zeros(len(index), np.int64))

    def batch(self, index: Index) -> Batch:
        streams = {}
        for stream, (starts, stops) in self._places(index).items():
            width = int((stops - starts).max())
            places = np.minimum(starts[:, None] + np.arange(width), stops[:, None] - 1)
            streams[stream] = self.store.tokens[stream][places].astype(np.int64), stops - starts
        classes = None if self.store.classes is None else self.store.classes[self.part(index)].astype(np.int64)
        return Batch(streams, classes)

    def _places(self, index: Index) -> dict[str, tuple[Index, Index]]:
        which = self.part(index)
        found = {}
        for stream, spans in self.spans.items():
            starts, stops = spans(which)
            found[stream] = starts, np.minimum(stops, starts + self.limits[stream])
        return found


@dataclass(frozen=True)
class StoredSpans:
    """Spans that stand in two arrays."""

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def __call__(self, index: Index) -> tuple[Index, Index]:
        return np.asarray(self.starts[index]), np.asarray(self.stops[index])


@dataclass(frozen=True)
class ChunkSpans:
    """Spans of the chunks of n documents, computed when asked for: one number is kept for every 16 documents, nothing for a chunk.

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
        behind = np.cumsum(counts, axis=1) + self._before[group, None]
        here = np.arange(len(index)), (behind <= index[:, None]).sum(axis=1)
        number = index - (behind[here] - counts[here])
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
    part: Part
    cut: tuple[int, int] | None  # of few documents: the tokens between these two places only, or (with hi < lo) all but those
    width: int
    overlap: int
    pack: bool = False

    def rows(self, shift: int = 0) -> Rows:
        """The chunks. With a shift the first of every document that has several is shorter by so many tokens."""
        bounds = self.store.bounds["x"]
        if self.pack:
            bounds = bounds[[0, -1]]
        part = Part(len(bounds) - 1) if self.pack else self.part
        documents = StoredSpans(bounds[:-1], bounds[1:])
        if self.cut is not None:
            documents = self._inside(documents)
            part = Part(len(documents.starts))
        elif self._longest(bounds) <= self.width:
            return Rows(self.store, {"x": documents}, part, {"x": self.width})
        cuts = ChunkSpans(lambda index: documents(part(index)), len(part), self.width, self.overlap, shift)
        return Rows(self.store, {"x": cuts}, Part(len(cuts)), {"x": self.width})

    def _inside(self, documents: StoredSpans) -> StoredSpans:
        """What of the documents is between the two places, or is not."""
        assert self.cut is not None
        lo, hi = self.cut
        ranges = [(lo, hi)] if lo <= hi else [(0, hi), (lo, int(documents.stops[-1]))]
        pairs = [(np.maximum(documents.starts, a), np.minimum(documents.stops, b)) for a, b in ranges]
        starts, stops = (np.concatenate(each) for each in zip(*pairs, strict=True))
        some = stops - starts > self.overlap
        return StoredSpans(starts[some], stops[some])

    @staticmethod
    def _longest(bounds: NDArray[np.int64]) -> int:
        return max(int(np.diff(bounds[i : i + BLOCK + 1]).max(initial=0)) for i in range(0, len(bounds) - 1, BLOCK))


@dataclass(frozen=True)
class Whole:
    """Pairs or labelled texts, which keep their bounds."""

    found: Rows

    def rows(self, shift: int = 0) -> Rows:
        return self.found


Documents = Chunks | Whole


def chunks(
    store: Store, width: int, overlap: int, *, pack: bool = False, share: tuple[float, float] | None = None, seed: int = 0
) -> tuple[Any, Any]:
    """Documents for training and for validation, which gets the share from lo to hi; with no share, all of them and nothing.

    Fewer than 100 documents, or packed ones, are cut at two places of the text; of more, some are drawn by the seed.
    """
    whole = Chunks(store, Part(len(store)), None, width, overlap, pack)
    if share is None:
        return whole, None
    if pack or len(store) < FEW:
        total = int(store.bounds["x"][-1])
        lo, hi = (round(total * each) for each in share)
        train, valid = replace(whole, cut=(hi, lo)), replace(whole, cut=(lo, hi))
        if not (len(train.rows()) and len(valid.rows())):
            raise ValueError(f"split: {total} tokens are too few to be split into {share[1] - share[0]:.0%} for validation and the rest")
        return train, valid
    drawn = _drawn(len(store), share, seed)
    return replace(whole, part=drawn[0]), replace(whole, part=drawn[1])


def whole(
    store: Store,
    limits: dict[str, int],
    where: Callable[[int], str],
    *,
    too_long: TooLong = "error",
    share: tuple[float, float] | None = None,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Pairs or labelled texts for training and for validation, the share from lo to hi drawn by the seed."""
    spans = {stream: StoredSpans(bounds[:-1], bounds[1:]) for stream, bounds in store.bounds.items()}
    keep = np.ones(len(store), bool)
    for stream, span in spans.items():
        length = span.stops - span.starts
        long = length > limits[stream]
        if too_long == "error" and long.any():
            first = int(np.flatnonzero(long)[0])
            raise ValueError(
                f"{where(first)}: {int(length[first])} tokens, and the model takes {limits[stream]}; "
                "give --too-long skip or cut, or train with a larger --model.ell-max"
            )
        keep &= ~long
    if too_long == "skip" and not keep.all():
        which = np.flatnonzero(keep)
        if not len(which):
            raise ValueError(f"{where(0)}: this and all other records are longer than the model takes, {limits}")
        spans = {stream: StoredSpans(*span(which)) for stream, span in spans.items()}
        store = replace(store, classes=None if store.classes is None else store.classes[which])
    count = len(next(iter(spans.values())).starts)
    if share is None:
        return Whole(Rows(store, spans, Part(count), limits)), None
    train, valid = _drawn(count, share, seed)
    return Whole(Rows(store, spans, train, limits)), Whole(Rows(store, spans, valid, limits))


def _drawn(n: int, share: tuple[float, float], seed: int) -> tuple[Part, Part]:
    lo, hi = (round(n * each) for each in share)
    if not 0 < hi - lo < n:
        raise ValueError(f"split: {n} records are too few to be split into {share[1] - share[0]:.0%} for validation and the rest")
    return Part(n, lo, hi, inside=False, seed=seed), Part(n, lo, hi, inside=True, seed=seed)
