"""What a run does beside training: TensorBoard's files, and a compiled objective."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.tolerance import tolerance
from tests.training.runs import config, files
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


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # the compiler looks at it
def test_a_compiled_run_learns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled up to the kernels, for which a compiler of C++ would have to be here."""
    files(tmp_path)
    train(config("classify", tmp_path, steps=2), tmp_path / "plain")
    real, compiled = torch.compile, []

    def compile(function: Any) -> Any:
        compiled.append(function)
        return real(function, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", compile)
    train(config("classify", tmp_path, steps=2, compile=True), tmp_path / "compiled")
    assert len(compiled) == 1
    ours, theirs = ([line["loss"] for line in metrics(tmp_path / name) if "loss" in line] for name in ("compiled", "plain"))
    assert ours == pytest.approx(theirs, abs=tolerance(torch.float32, terms=29, depth=2 * 2))
