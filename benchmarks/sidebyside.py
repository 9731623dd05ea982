"""Contenders measured side by side: turn by turn, several rounds, so that a slow phase of the machine hits all alike."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


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
    return statistics.median(theirs / mine for theirs, mine in zip(seconds[other], seconds[ours], strict=True))


class Worker:
    """A contender in a process of its own, which works when it is its turn and waits otherwise."""

    def __init__(self, *command: str) -> None:
        pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen([sys.executable, *command], **pipe)

    def __call__(self) -> None:
        """One turn, from the word to the answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise RuntimeError(f"a contender gave up: {' '.join(map(str, self.process.args))}")

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def work(run: Callable[[], object]) -> None:
    """The worker's side: a turn for every line."""
    for _ in sys.stdin:
        run()
        print("done", flush=True)
