"""Metrics of a run: a JSON line for every few steps and every validation."""

import json
import os
from pathlib import Path

from transalg.atomic import atomic_write
from transalg.checks import is_integer
from transalg.reading import parse_json, read_text
from transalg.runs.folder import METRICS, TENSORBOARD


class Metrics:
    """RUN/metrics.jsonl, a line at a time; and TensorBoard's files, if wanted."""

    def __init__(self, out: Path, first: bool, *, tensorboard: bool) -> None:
        self.first, self.tensorboard = first, tensorboard
        self.open(out)

    def open(self, out: Path) -> None:
        """Write to this folder from now on."""
        self.path, self.board = out / METRICS, None
        if self.tensorboard and self.first:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(out / TENSORBOARD))

    def close(self) -> None:
        if self.board is not None:
            self.board.close()

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, tokens: int, seconds: float, **figures: float) -> None:
        if not self.first:
            return
        line = {"step": step, "tokens": tokens, "seconds": round(seconds, 3), **figures}
        try:
            append = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            with open(append, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be written: {error.strerror}") from error
        if self.board is not None:
            for name, value in figures.items():
                self.board.add_scalar(name, value, step)


def forget_after(out: Path, step: int) -> None:
    """Drop the lines after this step, which will be done again, and whatever is no line of metrics, such as half a one."""
    path = out / METRICS
    if not path.exists():
        return
    lines = [line for line in read_text(path).splitlines() if (number := _step(line)) is not None and number <= step]
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def last_step(out: Path) -> int:
    """The last step that metrics.jsonl tells of; 0 if there is none."""
    path = out / METRICS
    return max((_step(line) or 0 for line in read_text(path).splitlines()), default=0) if path.exists() else 0


def _step(line: str) -> int | None:
    try:
        values = parse_json(line)
    except ValueError:
        return None
    step = values.get("step") if isinstance(values, dict) else None
    return step if is_integer(step) else None
