"""A run with a compiled objective. `test_extras.py` runs this in a process of its own."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tolerance import tolerance
from tests.training.runs import config, files
from tests.training.test_extras import metrics
from transalg.training.start import train


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
