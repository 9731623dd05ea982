"""A ragged batch as one matrix: a row for every token that is there, none for padding.

Whatever treats tokens one by one (embeddings, norms, projections, MLPs) works on that matrix and does no padded work. Attention needs
sequences: they are sorted by length, those of like length form a bucket, and a bucket is one call of the attention kernel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Shape = tuple[int, ...]  # B × ℓ
KERNEL_CALL_COST = 8192  # what a call of the attention kernel costs more than its work, in scores: waste below this is cheaper than a call


@dataclass(frozen=True)
class Part:
    """The tokens of a bucket's sequences, on one side of an attention."""

    count: int
    shape: Shape  # sequences × the longest of them
    there: Tensor | None = None  # which places of that shape are tokens; None if all are
    into: Tensor | None = None  # for every place the token it takes, any for a place without one
    back: Tensor | None = None  # for every token its place

    def take(self, X: Tensor) -> Tensor:
        """count × … to sequences × longest × …"""
        if self.into is not None:
            X = _pick(X, self.into)
        return X.view(*self.shape, *X.shape[1:])

    def give(self, X: Tensor) -> Tensor:
        """Sequences × longest × … back to a row for each token."""
        X = X.flatten(0, 1)
        return X if self.back is None else _pick(X, self.back)


def _pick(X: Tensor, index: Tensor) -> Tensor:
    """X[index], by the kernel of embeddings, whose gradient runs in parallel on CPUs where that of indexing does not."""
    return F.embedding(index, X.reshape(len(X), -1)).view(len(index), *X.shape[1:])


@dataclass(frozen=True)
class Bucket:
    """Sequences that one call of the attention kernel treats: their queries' and their keys' tokens."""

    queries: Part
    keys: Part


@dataclass(frozen=True)
class Rows:
    """How the tokens of a batch lie in the matrix."""

    shape: Shape  # B × ℓ, the batch as it was given
    lengths: tuple[int, ...] | None = None  # of the sequences, in the matrix's order; None if all are ℓ long, in the batch's order
    places: Tensor | None = None  # of every token in the batch, flattened; None likewise
    buckets: tuple[Bucket, ...] = ()

    @property
    def firsts(self) -> Tensor | slice:
        """The first token of each sequence, in the batch's order."""
        ell = self.shape[1]
        if self.lengths is None or self.places is None:
            return slice(None, None, ell)
        starts = torch.tensor(_starts(self.lengths), device=self.places.device)
        return starts[(self.places[starts] // ell).argsort()]

    def pack(self, ids: Tensor) -> Tensor:
        """B × ℓ to a row for each token."""
        return ids.flatten() if self.places is None else ids.flatten()[self.places]

    def unpack(self, X: Tensor) -> Tensor:
        """A row for each token to B × ℓ × …, 0 where there is none."""
        B, ell = self.shape
        if self.places is not None:
            X = X.new_zeros(B * ell, *X.shape[1:]).index_copy(0, self.places, X)
        # not a view to autograd, which would forbid hooks on what a model returns
        whole: Tensor = torch.ops.aten._unsafe_view(X, [B, ell, *X.shape[1:]])
        return whole

    def positions(self, device: torch.device) -> Tensor | None:
        """Of each token in its sequence; None if the batch is full."""
        return None if self.places is None else (self.places % self.shape[1]).to(device)


def rows(shape: Shape, lengths: Sequence[int] | None, device: torch.device) -> Rows:
    """The matrix of a batch, its sequences sorted by length."""
    if lengths is None or all(length == shape[1] for length in lengths):
        return Rows(shape)
    order = sorted(range(shape[0]), key=lambda row: lengths[row])
    return _ragged(shape, lengths, order, device)


def paired(
    z_shape: Shape,
    z_lengths: Sequence[int] | None,
    x_shape: Shape,
    x_lengths: Sequence[int] | None,
    device: torch.device,
) -> tuple[Rows, Rows, tuple[Bucket, ...]]:
    """The matrices of two batches, sequence by sequence in the same order, and the buckets in which x attends to z."""
    B = z_shape[0]
    full_z = z_lengths is None or all(length == z_shape[1] for length in z_lengths)
    full_x = x_lengths is None or all(length == x_shape[1] for length in x_lengths)
    if full_z and full_x:
        return Rows(z_shape), Rows(x_shape), ()
    z_all, x_all = z_lengths or [z_shape[1]] * B, x_lengths or [x_shape[1]] * B
    order = sorted(range(B), key=lambda row: (z_all[row], x_all[row]))
    z, x = _ragged(z_shape, z_all, order, device), _ragged(x_shape, x_all, order, device)
    assert z.lengths is not None and x.lengths is not None
    return z, x, tuple(_buckets(x.lengths, z.lengths, device))


def _ragged(shape: Shape, lengths: Sequence[int], order: list[int], device: torch.device) -> Rows:
    sorted_lengths = tuple(lengths[row] for row in order)
    places = torch.cat([torch.arange(row * shape[1], row * shape[1] + lengths[row]) for row in order]).to(device)
    return Rows(shape, sorted_lengths, places, tuple(_buckets(sorted_lengths, sorted_lengths, device)))


def _starts(lengths: Sequence[int]) -> list[int]:
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts[:-1]


def _buckets(queries: Sequence[int], keys: Sequence[int], device: torch.device) -> Iterator[Bucket]:
    """Neighbours come into one bucket as long as the scores that padding adds cost less than another call."""
    first, longest_q, longest_k = 0, queries[0], keys[0]
    for row in range(1, len(queries) + 1):
        if row < len(queries):
            q, k = max(longest_q, queries[row]), max(longest_k, keys[row])
            apart = (row - first) * longest_q * longest_k + queries[row] * keys[row]
            if (row - first + 1) * q * k - apart <= KERNEL_CALL_COST:
                longest_q, longest_k = q, k
                continue
        yield Bucket(_part(queries[first:row], device), _part(keys[first:row], device))
        if row < len(queries):
            first, longest_q, longest_k = row, queries[row], keys[row]


def _part(lengths: Sequence[int], device: torch.device) -> Part:
    longest = max(lengths)
    shape = (len(lengths), longest)
    if min(lengths) == longest:
        return Part(sum(lengths), shape)
    there = torch.arange(longest) < torch.tensor(lengths)[:, None]
    into = (there.flatten().cumsum(0) - 1).clamp(min=0)
    return Part(sum(lengths), shape, there.to(device), into.to(device), there.flatten().nonzero()[:, 0].to(device))
