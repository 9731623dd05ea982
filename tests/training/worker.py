"""A process that torchrun starts: trains, and dies once where the test wants it to. worker.py FOLDER OUT TASK JSON-of-options [rank step]"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.training.runs import config
from transalg.training.report import Report
from transalg.training.start import train


class Die(Report):
    def __init__(self, step: int, first: bool) -> None:
        self.at, self.first = step, first

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        if step == self.at and self.first and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    folder, out, task, options, *death = sys.argv[1:]
    chosen = json.loads(options)
    model = chosen.pop("model", {})
    report = Die(int(death[0]), os.environ["RANK"] == "0") if death else None
    train(config(task, Path(folder), model, **chosen), Path(folder) / out, resume=chosen.get("steps") is None, report=report)
