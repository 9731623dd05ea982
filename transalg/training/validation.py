"""Validation: the figures of a model on data that it is not trained on."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from transalg.data.rows import Rows
from transalg.hyper import Hyper
from transalg.tasks import Task
from transalg.tasks.evaluation import evaluation_examples
from transalg.training.processes import World


@torch.no_grad()
def validate(
    objective: nn.Module, task: Task[Any], rows: Rows, hyper: Hyper, world: World, autocast: AbstractContextManager[object]
) -> dict[str, float]:
    """The task's figures, each as the mean over all predictions in all rows."""
    training = objective.training
    objective.eval()
    sums = torch.zeros(len(task.figures), dtype=torch.float64)
    count = 0
    for _, example in evaluation_examples(task, rows, hyper):
        count += example.count
        inputs, has_rows = example.part(world.rank, world.size, world.device)
        with autocast:
            sums += objective(*inputs, figures=True).cpu().double() * has_rows
    objective.train(training)
    world.total(sums)
    return {name: float(value) / max(1, count) for name, value in zip(task.figures, sums, strict=True)}
