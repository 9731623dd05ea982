"""Learning-rate schedules: one table of them. The factor of η at each step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Schedule:
    """A row of the table: how the factor falls after the warm-up."""

    fall: Callable[[float], float]  # from 0 to 1 as the fraction of the steps that is done goes from 0 to 1
    help: str
    late: bool = False  # constant at first: it falls in the last part of the steps, `decay`, only


SCHEDULES: dict[str, Schedule] = {
    "linear": Schedule(lambda done: done, "falls along a line"),
    "cosine": Schedule(lambda done: (1 - cos(pi * done)) / 2, "falls along half a cosine"),
    "constant": Schedule(lambda done: 0.0, "stays"),
    "trapezoid": Schedule(lambda done: done, "stays, then falls along a line", late=True),
}


def lr_factor(step: int, steps: int, *, schedule: str = "cosine", warmup: int = 0, final: float = 0.1, decay: float = 0.2) -> float:
    """The factor of η at a step, counted from 0, of `steps`.

    It rises linearly over the warm-up, then falls from 1 to `final` as the schedule says.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: expected {', '.join(SCHEDULES)}, got {schedule!r}")
    if step < warmup:
        return (step + 1) / (warmup + 1)
    row = SCHEDULES[schedule]
    start = max(warmup, round(steps * (1 - decay))) if row.late else warmup
    if step < start:
        return 1.0
    done = min(1.0, (step - start) / max(1, steps - 1 - start))
    return 1 - (1 - final) * row.fall(done)
