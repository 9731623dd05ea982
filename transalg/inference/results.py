"""What a run returns: a completion, the class of a text, the score of a text. It has numbers, or there is no result."""

from dataclasses import dataclass
from math import exp, isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TOO_LARGE = "the model computes NaN: numbers in it are too large; train it again with a smaller η, or restore it from a copy"


def numbers(values: "Tensor") -> "Tensor":
    """These, if none of them is NaN: weights can be numbers, and yet so large that sums of them are not."""
    if values.isnan().any():
        raise ValueError(TOO_LARGE)
    return values


def number(value: float) -> float:
    """The same of one."""
    if isnan(value):
        raise ValueError(TOO_LARGE)
    return value


class CutText(UserWarning):
    """Texts longer than ℓ_max were cut."""


class NoBest(UserWarning):
    """A run has no best checkpoint yet, and its last one was loaded."""


@dataclass(frozen=True)
class Completion:
    """A text that a model generated."""

    text: str
    ids: list[int]
    log_p: float  # log P̂ of all its tokens, including eos if it was drawn
    ended: bool  # by eos or a stop string, not by the length limit
    score: float | None = None  # of beam search


@dataclass(frozen=True)
class Classification:
    """The most probable class of a text, and P̂ of every class."""

    label: str
    P: dict[str, float]

    @property
    def probability(self) -> float:
        """P̂ of the most probable class."""
        return self.P[self.label]


@dataclass(frozen=True)
class Score:
    """The log-probability of a text, token by token."""

    tokens: list[str]
    log_p: list[float]

    @property
    def total(self) -> float:
        """log P̂ of the text."""
        return sum(self.log_p)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss per token."""
        return exp(min(700.0, -self.total / max(1, len(self.log_p))))
