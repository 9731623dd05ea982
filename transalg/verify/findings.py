"""What a check of a module found: law by law, as a value and as text."""

from dataclasses import dataclass
from math import nan
from typing import Literal

Status = Literal["holds", "broken", "not checked"]


@dataclass(frozen=True)
class Finding:
    """One law."""

    law: str
    status: Status
    text: str  # what holds, what is broken and where, or why it was not checked
    error: float = nan  # how far the law is from holding, where that is a number


@dataclass(frozen=True)
class Findings:
    """All laws. `print` shows them."""

    name: str  # of the module's class
    like: str
    found: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is broken. What was not checked is not broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[str, ...]:
        """The laws that do not hold."""
        return tuple(finding.law for finding in self.found if finding.status == "broken")

    def __getitem__(self, law: str) -> Finding:
        return next(finding for finding in self.found if finding.law == law)

    def __str__(self) -> str:
        counts = [f"{sum(finding.status == status for finding in self.found)} {status}" for status in ("holds", "broken", "not checked")]
        width = max(len(finding.law) for finding in self.found)
        marks = {"holds": "ok    ", "broken": "BROKEN", "not checked": "–     "}
        lines = [f"{marks[finding.status]}  {finding.law:<{width}}  {finding.text}" for finding in self.found]
        return "\n".join([f"{self.name} like {self.like}: {', '.join(counts).replace('holds', 'hold')}", *lines])
