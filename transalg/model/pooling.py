"""Pooling: how each is computed for a batch, and the formal component it equals. What it costs: `hyper/pooling.py`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transalg.formal.pooling import bos_pooling, max_pooling, mean_pooling
from transalg.model.layout import Layout

Rows = Float[Tensor, "T d"]
Pooled = Float[Tensor, "B d_f"]


@dataclass(frozen=True)
class Pooling:
    """One vector for every sequence of a batch."""

    compute: Callable[[Callable[..., Tensor], Tensor, Layout], Tensor]  # from lines 10 and 11, X of line 9, and its layout
    formal: Callable[[Tensor], Tensor]


def first(head: Callable[..., Tensor], X: Rows, tokens: Layout) -> Pooled:
    """head(X) of the first token; the head does not run on the others."""
    return head(X, tokens.first_tokens)


def mean(head: Callable[..., Tensor], X: Rows, tokens: Layout) -> Pooled:
    """The mean of head(X) over the tokens of each sequence."""
    total = tokens.pad(head(X)).sum(dim=1)
    return total / tokens.batch_lengths(X.device)[:, None]


def largest(head: Callable[..., Tensor], X: Rows, tokens: Layout) -> Pooled:
    """The largest value of every feature of head(X) over the tokens of each sequence."""
    padded = tokens.pad(head(X))
    inside = torch.arange(tokens.shape[1], device=X.device) < tokens.batch_lengths(X.device)[:, None]
    return padded.masked_fill(~inside[:, :, None], -torch.inf).amax(dim=1)


POOLINGS: dict[str, Pooling] = {
    "bos": Pooling(first, bos_pooling),
    "mean": Pooling(mean, mean_pooling),
    "max": Pooling(largest, max_pooling),
}
