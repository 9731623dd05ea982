"""Learning rates over a run: how large a share of η each step gets."""

from math import cos, pi
from typing import Literal

Kind = Literal["cosine", "linear", "constant", "trapezoid"]
KINDS: tuple[Kind, ...] = ("cosine", "linear", "constant", "trapezoid")


def lr_factor(step: int, steps: int, *, schedule: Kind = "cosine", warmup: int = 0, final: float = 0.1, decay: float = 0.2) -> float:
    """The factor of η at a step, counted from 0, of so many.

    Up linearly over the warm-up; then constant; or down to the share `final` along a cosine, or a line; or (trapezoid) constant, and down
    along a line over the last share `decay` of the steps.
    """
    if schedule not in KINDS:
        raise ValueError(f"schedule: expected {', '.join(KINDS)}, got {schedule!r}")
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    start = max(warmup, round(steps * (1 - decay))) if schedule == "trapezoid" else warmup
    if step < start:
        return 1.0
    done = min(1.0, (step - start) / max(1, steps - 1 - start))
    return final + (1 - final) * (1 + cos(pi * done)) / 2 if schedule == "cosine" else 1 - (1 - final) * done
