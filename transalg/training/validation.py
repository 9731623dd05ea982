"""The loss on data that is not trained on."""

from typing import Any

import numpy as np
import torch
from torch import nn

from transalg.data.batches import Plan
from transalg.data.rows import Rows
from transalg.data.shuffle import derive_seed
from transalg.hyper import Hyper
from transalg.model.layout import KERNEL_CALL_COST
from transalg.runs.config import Task
from transalg.tasks.examples import example
from transalg.training.processes import World


@torch.no_grad()
def validate(objective: nn.Module, task: Task, rows: Rows, hyper: Hyper, world: World, autocast: Any) -> dict[str, float]:
    """The mean of −log P̂ over all that is predicted in all rows; and a classifier's accuracy. The masks are the same every time."""
    training = objective.training
    objective.eval()
    sums = torch.zeros(2, dtype=torch.float64)
    count = 0
    for i, index in enumerate(Plan(1, tokens=KERNEL_CALL_COST, shuffle=False).batches(rows)):
        found = example(task, rows.batch(np.asarray(index)), hyper, derive_seed(2**31, 0, i))
        count += found.count
        arguments, there = found.part(world.rank, world.size, world.device)
        with autocast:
            sums += objective(*arguments, weight=float(there), label_smoothing=0.0, hits=True).cpu().double() * there
    objective.train(training)
    world.total(sums)
    loss = {"val_loss": float(sums[0]) / max(1, count)}
    return loss | ({"val_accuracy": float(sums[1]) / max(1, count)} if task == "classify" else {})
