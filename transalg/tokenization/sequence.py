"""A sequence of tokens of every modality: what Gato reads."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from transalg.hyper.modalities import ACT, IMG, LOCAL, PATCH, TEXT

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sequence:
    """ℓ tokens: the kind of each, its ID and its index within the timestep; the n patches of its images, in the order of their tokens."""

    kind: NDArray[np.uint8]  # ℓ: TEXT, OBS, IMG, SEP or ACT
    ids: Ints  # ℓ: token IDs; 0 for a patch
    index: Ints  # ℓ: p, of text, observed values and patches; 0 for the others
    patches: Floats  # n × C × 16 × 16, in [−1, 1]
    intervals: Floats  # n × 4: r, r′, c, c′: the rows and the columns of its image that a patch has, in [0, 1]
    loss: Floats  # ℓ: m, the weight of the token in the loss; 0 unless it is text or an action, and for actions marked as exploratory

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def part(self, start: int | None, stop: int | None = None) -> "Sequence":
        """The tokens of a slice, with their patches: `s.part(-1024)` is the last 1,024 tokens."""
        first, last, _ = slice(start, stop).indices(len(self))
        last = max(first, last)
        before, until = (int((self.kind[:end] == IMG).sum()) for end in (first, last))
        t, n = slice(first, last), slice(before, until)
        return Sequence(self.kind[t], self.ids[t], self.index[t], self.patches[n], self.intervals[n], self.loss[t])


def concatenate(sequences: Iterable[Sequence]) -> Sequence:
    """One sequence after the other; at least one."""
    parts = list(sequences)
    return Sequence(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Sequence)))


def text(ids: Ints, channels: int = 3) -> Sequence:
    """A text alone, p from 0."""
    if len(ids) > LOCAL:
        raise ValueError(f"text: expected at most {LOCAL} tokens at a time, got {len(ids)}")
    return Sequence(
        kind=np.full(len(ids), TEXT, np.uint8),
        ids=np.asarray(ids, np.int64),
        index=np.arange(len(ids)),
        patches=no_patches(channels),
        intervals=np.zeros((0, 4), np.float32),
        loss=np.ones(len(ids), np.float32),
    )


def action_token(token: int, channels: int = 3) -> Sequence:
    """One token of an action."""
    kind, ids, index = np.full(1, ACT, np.uint8), np.full(1, token, np.int64), np.zeros(1, np.int64)
    return Sequence(kind, ids, index, no_patches(channels), np.zeros((0, 4), np.float32), np.ones(1, np.float32))


def no_patches(channels: int) -> Floats:
    return np.zeros((0, channels, PATCH, PATCH), np.float32)
