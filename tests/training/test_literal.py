"""Literal mode, one row at a time, SGD on the summed loss, float64, is Algorithms 11–13."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.compare import assert_same_theta
from tests.tolerance import PROMISED
from tests.training.runs import config, files
from transalg.formal import DTraining, EDTraining, ETraining
from transalg.formal import training as formal_training
from transalg.model import build
from transalg.model.counterpart import formal_counterpart
from transalg.runs import checkpoints
from transalg.tasks import find
from transalg.training.loop import Loop
from transalg.training.start import train

pytestmark = pytest.mark.slow

LITERAL: dict[str, Any] = {
    "steps": 50, "batch_size": 1, "optimizer": "sgd", "eta": 0.05, "schedule": "constant", "warmup": 0, "clip": 0, "loss": "sum",
    "shuffle": False, "shift": False, "dtype": "float64",
}  # fmt: skip


@pytest.mark.parametrize("task", ["lm", "mlm", "seq2seq"])
def test_fifty_steps_of_literal_training(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    rows: list[Any] = []
    masked: list[torch.Tensor] = []

    def remember(self: Any, *arguments: Any, make: Any = Loop.__init__) -> None:
        make(self, *arguments)
        started.append((self.model.theta(), self.hyper))

    make_example = type(find(task)).example

    def note(self: Any, batch: Any, *arguments: Any) -> Any:
        example = make_example(self, batch, *arguments)
        streams = {name: torch.from_numpy(ids[0, : lengths[0]]) for name, (ids, lengths) in batch.streams.items()}
        rows.append(streams)
        if task == "mlm":
            masked.append(example.tensors[1][0, : len(streams["x"])])
        return example

    monkeypatch.setattr(Loop, "__init__", remember)
    monkeypatch.setattr(type(find(task)), "example", note)
    data = files(tmp_path / "data")
    chosen = config(task, data, {"tied": False, "init_residual": False, "dropout": 0.0, "label_smoothing": 0.0}, **LITERAL)
    from dataclasses import replace

    train(replace(chosen, split=0.0), tmp_path / "run")
    ((theta, hyper),) = started
    N_data = 8
    assert len(rows) == 50 and all(row["x"].equal(rows[i % N_data]["x"]) for i, row in enumerate(rows))
    xs = [row["x"] for row in rows]  # fifty passes of one row each are six and a quarter over eight
    zs = [row.get("z") for row in rows]
    eta = LITERAL["eta"]
    if task == "lm":
        expected = DTraining(xs, theta, 1, eta, DTransformer=formal_counterpart(hyper))
    elif task == "seq2seq":
        expected = EDTraining(zs, xs, theta, 1, eta, EDTransformer=formal_counterpart(hyper))
    else:
        drawn = iter(torch.cat(masked))
        monkeypatch.setattr(formal_training, "choose", lambda *_: next(drawn))
        expected = ETraining(xs, theta, 1, eta, hyper.p_mask, ETransformer=formal_counterpart(hyper))
        assert sum(int((row == hyper.mask_token).sum()) for row in masked) > 50
    tensors, metadata = checkpoints.load(tmp_path / "run" / "best.safetensors")
    assert metadata.step == 50
    model = build(hyper, dtype=torch.float64)
    model.load_state_dict(tensors)
    assert_same_theta(model.theta(), expected, atol=LITERAL["steps"] * PROMISED)
    moved = max(float((one - other).abs().max()) for one, other in zip(theta.named().values(), expected.named().values(), strict=True))
    assert moved > 0.01, "training went somewhere"
