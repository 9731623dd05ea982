"""Samplers: functions that change the logits before a token is drawn (line 5 of Algorithm 14). A chain of them is applied in order:

>>> (RepetitionPenalty(1.2), TopK(40), Temperature(0.7), TopP(0.95))
(RepetitionPenalty(penalty=1.2), TopK(k=40), Temperature(tau=0.7), TopP(p=0.95))
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import Protocol

import torch
from torch import Tensor

from transalg.checks import integer, real
from transalg.inference.results import numbers

Context = Sequence[Sequence[int]]  # the tokens of every row so far


class Sampler(Protocol):
    def __call__(self, logits: Tensor, context: Context) -> Tensor:
        """New logits, B × N_V; −∞ for a token that must not be drawn."""


@dataclass(frozen=True)
class Temperature:
    """q ∝ p^{1/τ}, τ ∈ [0, ∞]: 0 leaves only the most probable token (greedy decoding), ∞ makes all remaining tokens equally probable."""

    tau: float = 1.0

    def __post_init__(self) -> None:
        real("tau", self.tau, "[0, ∞]")

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        if self.tau == 0:
            return torch.full_like(logits, -inf).scatter(1, logits.argmax(dim=1, keepdim=True), 0.0)
        if self.tau == inf:
            return torch.where(logits == -inf, -inf, 0.0).to(logits)
        return (logits - logits.amax(dim=1, keepdim=True)) / self.tau


@dataclass(frozen=True)
class TopK:
    """Only the k most probable tokens, and those as probable as the k-th."""

    k: int

    def __post_init__(self) -> None:
        integer("top_k", self.k, 1)

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        least = logits.topk(min(self.k, logits.shape[1]), dim=1).values[:, -1:]
        return logits.masked_fill(logits < least, -inf)


@dataclass(frozen=True)
class TopP:
    """Nucleus sampling: only the most probable tokens, as few as have probability p together; at least one."""

    p: float

    def __post_init__(self) -> None:
        real("top_p", self.p, "(0, 1]")

    def __call__(self, logits: Tensor, context: Context = ()) -> Tensor:
        if self.p == 1:
            return logits
        ordered, order = logits.sort(dim=1, descending=True, stable=True)
        P = torch.softmax(ordered, dim=1)
        beyond = P.cumsum(dim=1) - P >= self.p  # the more probable ones have p already
        return logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Tokens that occurred already become less probable (CTRL, Keskar 2019): a logit is divided by the penalty, or multiplied if negative."""

    penalty: float

    def __post_init__(self) -> None:
        real("repetition_penalty", self.penalty, "(0, ∞)")

    def __call__(self, logits: Tensor, context: Context) -> Tensor:
        logits = logits.clone()
        for row, tokens in enumerate(context):
            seen = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=logits.device)
            old = logits[row, seen]
            logits[row, seen] = torch.where(old > 0, old / self.penalty, old * self.penalty)
        return logits


def sampler_chain(
    tau: float = 1.0, top_k: int | None = None, top_p: float | None = None, repetition_penalty: float = 1.0
) -> tuple[Sampler, ...]:
    """The usual samplers in the usual order: repetition penalty, top-k, temperature, top-p."""
    chain: list[Sampler] = []
    if repetition_penalty != 1:
        chain.append(RepetitionPenalty(repetition_penalty))
    if top_k is not None:
        chain.append(TopK(top_k))
    chain.append(Temperature(tau))
    if top_p is not None:
        chain.append(TopP(top_p))
    return tuple(chain)


def most_probable(logits: Tensor) -> list[int]:
    """The token with the largest logit of every row, the first of equals; by NumPy on CPUs, which is ten times as fast."""
    plain = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64)
    best = logits.numpy().argmax(axis=1) if plain else logits.argmax(dim=1)
    return [int(token) for token in best.tolist()]


def draw(logits: Tensor, samplers: Sequence[Sampler], context: Context, generators: Sequence[torch.Generator]) -> list[int]:
    """A token for every row, drawn from the logits after all samplers, with the row's own generator."""
    if any(_greedy(sampler) for sampler in samplers):
        for sampler in takewhile(lambda sampler: not _greedy(sampler), samplers):
            logits = sampler(logits, context)
        return most_probable(logits)
    logits = logits.double()
    for sampler in samplers:
        logits = sampler(logits, context)
    q = numbers(torch.softmax(logits, dim=1))
    if generators:
        q = q.to(generators[0].device)
    return [int(torch.multinomial(row, 1, generator=generator)) for row, generator in zip(q, generators, strict=True)]


def _greedy(sampler: Sampler) -> bool:
    """Whether it leaves one token."""
    return isinstance(sampler, Temperature) and sampler.tau == 0
