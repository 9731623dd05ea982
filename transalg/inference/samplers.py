"""What may be done to the logits before a token is drawn (line 5 of Algorithm 14). Small things, put together as one likes:

>>> (RepetitionPenalty(1.2), TopK(40), Temperature(0.7), TopP(0.95))
(RepetitionPenalty(penalty=1.2), TopK(k=40), Temperature(tau=0.7), TopP(p=0.95))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import torch
from torch import Tensor

from transalg.formal.domains import refuse

Context = Sequence[Sequence[int]]  # for every row the tokens so far


class Sampler(Protocol):
    def __call__(self, logits: Tensor, context: Context) -> Tensor:
        """Other logits, B × N_V; −∞ for what must not come."""


@dataclass(frozen=True)
class Temperature:
    """q ∝ p^{1/τ}, τ ∈ [0, ∞]: the most probable token alone at 0, at ∞ every token that is left alike."""

    tau: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.tau, bool) or not isinstance(self.tau, int | float) or not self.tau >= 0:
            raise refuse("tau", "a number in [0, ∞]", self.tau)

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        if self.tau == 0:
            return torch.full_like(logits, -inf).scatter(1, logits.argmax(dim=1, keepdim=True), 0.0)
        if self.tau == inf:
            return torch.where(logits == -inf, -inf, 0.0).to(logits)
        return (logits - logits.amax(dim=1, keepdim=True)) / self.tau


@dataclass(frozen=True)
class TopK:
    """Only the k most probable tokens, and those as probable as the last of them."""

    k: int

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise refuse("top_k", "1 or more", self.k)

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        least = logits.topk(min(self.k, logits.shape[1]), dim=1).values[:, -1:]
        return logits.masked_fill(logits < least, -inf)


@dataclass(frozen=True)
class TopP:
    """Only the fewest tokens that have the probability p together, the most probable one always."""

    p: float

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, int | float) or not 0 < self.p <= 1:
            raise refuse("top_p", "a share in (0, 1]", self.p)

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        if self.p == 1:
            return logits
        ordered, order = logits.sort(dim=1, descending=True, stable=True)
        P = torch.softmax(ordered, dim=1)
        beyond = P.cumsum(dim=1) - P >= self.p  # what comes before it is enough
        return logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Makes tokens that were there already less probable (CTRL, Keskar 2019): their logits are divided by the penalty, or multiplied if negative."""

    penalty: float

    def __post_init__(self) -> None:
        if isinstance(self.penalty, bool) or not isinstance(self.penalty, int | float) or not 0 < self.penalty < inf:
            raise refuse("repetition_penalty", "a number above 0, 1 for none", self.penalty)

    def __call__(self, logits: Tensor, context: Context) -> Tensor:
        logits = logits.clone()
        for row, tokens in enumerate(context):
            there = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=logits.device)
            found = logits[row, there]
            logits[row, there] = torch.where(found > 0, found / self.penalty, found * self.penalty)
        return logits


def samplers(
    tau: float = 1.0, top_k: int | None = None, top_p: float | None = None, repetition_penalty: float = 1.0
) -> tuple[Sampler, ...]:
    """The usual ones, in the order in which each sees what it should: which tokens are likely before τ, how likely after it."""
    found: list[Sampler] = []
    if repetition_penalty != 1:
        found.append(RepetitionPenalty(repetition_penalty))
    if top_k is not None:
        found.append(TopK(top_k))
    found.append(Temperature(tau))
    if top_p is not None:
        found.append(TopP(top_p))
    return tuple(found)


def greedy(chosen: Sequence[Sampler]) -> bool:
    """Whether only one token can come."""
    return any(isinstance(one, Temperature) and one.tau == 0 for one in chosen)


def most_probable(logits: Tensor) -> list[int]:
    """The token with the largest logit of every row, the first of those alike; by NumPy on CPUs, which is ten times as fast."""
    plain = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    found = logits.numpy().argmax(axis=1) if plain else logits.argmax(dim=1)
    return [int(one) for one in found.tolist()]


def draw(logits: Tensor, chosen: Sequence[Sampler], context: Context, generators: Sequence[torch.Generator]) -> list[int]:
    """A token for every row, drawn from what the samplers leave of the logits, with the row's own random numbers."""
    if greedy(chosen):
        for one in chosen:
            if isinstance(one, Temperature) and one.tau == 0:
                break
            logits = one(logits, context)
        return most_probable(logits)
    logits = logits.double()
    for one in chosen:
        logits = one(logits, context)
    q = torch.softmax(logits, dim=1)
    if generators:
        q = q.to(generators[0].device)
    return [int(torch.multinomial(row, 1, generator=generator)) for row, generator in zip(q, generators, strict=True)]
