"""A ragged batch as one matrix: a row for every token, none for padding.

Whatever treats tokens one by one (embeddings, norms, projections, MLPs) works on that matrix and does no padded work. Attention needs
sequences: they are sorted by length, those of like length form a bucket, and a bucket is one call of the attention kernel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

Shape = tuple[int, ...]  # B × ℓ
KERNEL_CALL_COST = (
    8192  # what a call of the attention kernel costs beside its work, in scores: less padding than this is cheaper than a call
)


@dataclass(frozen=True)
class BucketSide:
    """The tokens of a bucket's sequences, on one side of an attention: queries or keys."""

    count: int
    shape: Shape  # sequences × the longest of them
    token_mask: Bool[Tensor, "n ell"] | None = None  # which places of that shape are tokens; None if all are
    gather_index: Int[Tensor, "n*ell"] | None = None  # for every place the token it takes, any for a place of padding
    scatter_index: Int[Tensor, "count"] | None = None  # for every token its place

    def to_sequences(self, X: Shaped[Tensor, "count *d"]) -> Shaped[Tensor, "n ell *d"]:
        """A row for each token to sequences × longest."""
        if self.gather_index is not None:
            X = pick(X, self.gather_index)
        return X.view(*self.shape, *X.shape[1:])

    def to_tokens(self, X: Shaped[Tensor, "n ell *d"]) -> Shaped[Tensor, "count *d"]:
        """Sequences × longest back to a row for each token."""
        X = X.flatten(0, 1)
        return X if self.scatter_index is None else pick(X, self.scatter_index)


def pick(X: Shaped[Tensor, "n *d"], index: Int[Tensor, "m"]) -> Shaped[Tensor, "m *d"]:
    """X[index], by the kernel of embeddings, whose gradient runs in parallel on CPUs where that of indexing does not."""
    return F.embedding(index, X.reshape(len(X), -1)).view(len(index), *X.shape[1:])


@dataclass(frozen=True)
class Bucket:
    """Sequences that one call of the attention kernel treats: their queries' and their keys' tokens."""

    queries: BucketSide
    keys: BucketSide


@dataclass(frozen=True)
class Layout:
    """How the tokens of a batch lie in the matrix."""

    shape: Shape  # B × ℓ, the batch with its padding
    lengths: tuple[int, ...] | None = None  # of the sequences, in the matrix's order; None if all are ℓ long, in the batch's order
    token_index: Int[Tensor, "T"] | None = None  # of every token in the flattened batch; None likewise
    buckets: tuple[Bucket, ...] = ()
    memo: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # what all layers compute alike from the positions

    @property
    def first_tokens(self) -> Int[Tensor, "B"] | slice:
        """The first token of each sequence, in the batch's order."""
        ell = self.shape[1]
        if self.lengths is None or self.token_index is None:
            return slice(None, None, ell)
        starts = torch.tensor(_starts(self.lengths), device=self.token_index.device)
        return starts[(self.token_index[starts] // ell).argsort()]

    def batch_lengths(self, device: torch.device) -> Int[Tensor, "B"]:
        """The length of each sequence, in the batch's order."""
        B, ell = self.shape
        if self.lengths is None or self.token_index is None:
            return torch.full((B,), ell, device=device)
        return torch.bincount(self.token_index // ell, minlength=B).to(device)

    def unpad(self, ids: Shaped[Tensor, "B ell"]) -> Shaped[Tensor, "T"]:
        """B × ℓ to a row for each token."""
        return ids.flatten() if self.token_index is None else ids.flatten()[self.token_index]

    def pad(self, X: Shaped[Tensor, "T *d"]) -> Shaped[Tensor, "B ell *d"]:
        """A row for each token to B × ℓ × …, 0 in the padding."""
        B, ell = self.shape
        if self.token_index is not None:
            X = X.new_zeros(B * ell, *X.shape[1:]).index_copy(0, self.token_index, X)
        # not a view to autograd, which would forbid hooks on what a model returns
        padded: Tensor = torch.ops.aten._unsafe_view(X, [B, ell, *X.shape[1:]])
        return padded

    def positions(self, device: torch.device) -> Int[Tensor, "T"] | None:
        """Of each token in its sequence; None if the batch is full, and they are 0, …, ℓ − 1 in every row."""
        return None if self.token_index is None else (self.token_index % self.shape[1]).to(device)

    def all_positions(self, device: torch.device) -> Int[Tensor, "T"]:
        """The same, written out for a full batch as well."""
        positions = self.positions(device)
        return torch.arange(self.shape[1], device=device).repeat(self.shape[0]) if positions is None else positions


def layout(shape: Shape, lengths: Sequence[int] | None, device: torch.device) -> Layout:
    """The matrix of a batch, its sequences sorted by length."""
    if lengths is None or all(length == shape[1] for length in lengths):
        return Layout(shape)
    order = sorted(range(shape[0]), key=lambda row: lengths[row])
    return _ragged(shape, lengths, order, device)


def paired(
    z_shape: Shape,
    z_lengths: Sequence[int] | None,
    x_shape: Shape,
    x_lengths: Sequence[int] | None,
    device: torch.device,
) -> tuple[Layout, Layout, tuple[Bucket, ...]]:
    """The matrices of two batches, sequence by sequence in the same order, and the buckets in which x attends to z."""
    B = z_shape[0]
    full_z = z_lengths is None or all(length == z_shape[1] for length in z_lengths)
    full_x = x_lengths is None or all(length == x_shape[1] for length in x_lengths)
    if full_z and full_x:
        return Layout(z_shape), Layout(x_shape), ()
    z_all, x_all = z_lengths or [z_shape[1]] * B, x_lengths or [x_shape[1]] * B
    order = sorted(range(B), key=lambda row: (z_all[row], x_all[row]))
    z, x = _ragged(z_shape, z_all, order, device), _ragged(x_shape, x_all, order, device)
    assert z.lengths is not None and x.lengths is not None
    return z, x, tuple(_buckets(x.lengths, z.lengths, device))


def _ragged(shape: Shape, lengths: Sequence[int], order: list[int], device: torch.device) -> Layout:
    sorted_lengths = tuple(lengths[row] for row in order)
    token_index = torch.cat([torch.arange(row * shape[1], row * shape[1] + lengths[row]) for row in order]).to(device)
    return Layout(shape, sorted_lengths, token_index, tuple(_buckets(sorted_lengths, sorted_lengths, device)))


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
        yield Bucket(_side(queries[first:row], device), _side(keys[first:row], device))
        if row < len(queries):
            first, longest_q, longest_k = row, queries[row], keys[row]


def _side(lengths: Sequence[int], device: torch.device) -> BucketSide:
    longest = max(lengths)
    shape = (len(lengths), longest)
    if min(lengths) == longest:
        return BucketSide(sum(lengths), shape)
    token_mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    gather_index = (token_mask.flatten().cumsum(0) - 1).clamp(min=0)
    scatter_index = token_mask.flatten().nonzero()[:, 0]
    return BucketSide(sum(lengths), shape, token_mask.to(device), gather_index.to(device), scatter_index.to(device))
