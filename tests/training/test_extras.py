"""What a run does beside training: TensorBoard's files, and a compiled objective."""

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.runs import config, files
from tests.unchecked import in_a_process_without_checks
from transalg.training.start import train

pytestmark = pytest.mark.slow


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_tensorboard_shows_what_metrics_have(tmp_path: Path) -> None:
    train(config("lm", files(tmp_path), tensorboard=True), tmp_path / "run")
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    for name in ("loss", "eta", "val_loss"):
        written = [(line["step"], line[name]) for line in metrics(tmp_path / "run") if name in line]
        assert written, name
        assert [(one.step, one.value) for one in board.Scalars(name)] == [(step, pytest.approx(value)) for step, value in written]


def test_a_compiled_run_learns_the_same() -> None:
    """The test of `compiled.py`, in a process without the run-time check of shapes, which torch's compiler cannot look into."""
    in_a_process_without_checks(Path(__file__).with_name("compiled.py"), passed=1)
