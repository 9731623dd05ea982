"""What a run answers: a text it wrote, the class of a text, how probable a text is."""

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True)
class Completion:
    """A text that a model wrote."""

    text: str
    ids: list[int]
    log_p: float  # log P̂ of all of it, with eos if it came
    ended: bool  # by eos or a stop string, not by its length
    score: float | None = None  # what a search ranks by


@dataclass(frozen=True)
class Classification:
    """The most probable class of a text, and P̂ of all of them."""

    label: str
    P: dict[str, float]

    @property
    def probability(self) -> float:
        return self.P[self.label]


@dataclass(frozen=True)
class Score:
    """How probable a text is: log P̂ of every token."""

    tokens: list[str]
    log_p: list[float]

    @property
    def total(self) -> float:
        return sum(self.log_p)

    @property
    def perplexity(self) -> float:
        return exp(min(700.0, -self.total / max(1, len(self.log_p))))
