"""Contenders measured side by side: in one process, turn by turn, several rounds, so that a slow phase of the machine hits all alike."""

import statistics
import time
from collections.abc import Callable


def rounds(contenders: dict[str, Callable[[], object]], count: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds of every contender in every round; each round turns the order around."""
    for run in contenders.values():
        for _ in range(warm):
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(count):
        for name, run in list(contenders.items())[:: 1 if i % 2 else -1]:
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], ours: str, other: str) -> float:
    """How many times as fast ours is: the median over the rounds of other / ours."""
    return statistics.median(theirs / own for theirs, own in zip(seconds[other], seconds[ours], strict=True))
