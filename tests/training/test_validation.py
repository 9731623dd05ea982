"""Validation figures do not depend on how rows are batched."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from tests.strategies import rng
from tests.training.runs import TASKS, config, files
from transalg.data.rows import Rows
from transalg.hyper import Hyper
from transalg.model import build
from transalg.tasks import evaluation, find
from transalg.tasks.losses import Objective
from transalg.training.prepare import prepare
from transalg.training.processes import World
from transalg.training.report import Report
from transalg.training.validation import validate


def inputs(task: str, rows: Rows, hyper: Hyper) -> list[list[list[int]]]:
    """What the model reads of each row, and which tokens of it are predicted, without padding."""
    rows_read = []
    for _, example in evaluation.evaluation_examples(find(task), rows, hyper):
        for i, length in enumerate(example.lengths[0].tolist()):
            rows_read.append([tensor[i, :length].tolist() for tensor in example.tensors if tensor.ndim == 2])
    return rows_read


@pytest.mark.parametrize("task", TASKS)
def test_figures_do_not_depend_on_the_batches(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(config(task, files(tmp_path), {"p_mask": 0.5} if task == "mlm" else {}), tmp_path / "run", Report())
    rows, hyper = prepared.train.rows(), prepared.hyper
    objective = Objective(find(task), build(hyper, dtype=torch.float64, generator=rng(0)))
    seen, figures, batches = [], [], []
    for tokens in (1, 40, 10**6):
        monkeypatch.setattr(evaluation, "BATCH_TOKENS", tokens)
        batches.append(len(list(evaluation.evaluation_examples(find(task), rows, hyper))))
        seen.append(inputs(task, rows, hyper))
        figures.append(validate(objective, find(task), rows, hyper, World(0, 1, torch.device("cpu")), nullcontext()))
    assert len(rows) == batches[0] > batches[1] > batches[2] == 1
    assert seen[0] == seen[1] == seen[2]
    for other in figures[1:]:
        assert other == pytest.approx(figures[0], rel=1e-12) and set(other) == set(find(task).figures)
