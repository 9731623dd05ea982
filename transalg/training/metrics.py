"""Metrics of a run: a JSON line for every few steps and every validation."""

import json
from pathlib import Path

from transalg.atomic import atomic_write
from transalg.runs.folder import METRICS, TENSORBOARD


class Metrics:
    """RUN/metrics.jsonl, a line at a time; and TensorBoard's files, if wanted."""

    def __init__(self, out: Path, first: bool, *, tensorboard: bool) -> None:
        self.path, self.first, self.board = out / METRICS, first, None
        if tensorboard and first:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(out / TENSORBOARD))

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self.board is not None:
            self.board.close()

    def write(self, step: int, tokens: int, seconds: float, **figures: float) -> None:
        if not self.first:
            return
        line = {"step": step, "tokens": tokens, "seconds": round(seconds, 3), **figures}
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be written: {error.strerror}") from error
        if self.board is not None:
            for name, value in figures.items():
                self.board.add_scalar(name, value, step)


def forget_after(out: Path, step: int) -> None:
    """Drop the lines after this step, which will be done again, and an incomplete line from when the machine died."""
    path = out / METRICS
    if not path.exists():
        return
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                lines.append(line)
        except (ValueError, KeyError):
            continue
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in lines)
