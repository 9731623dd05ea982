"""The rows that a model is validated or evaluated on, batch by batch: figures do not depend on the batches."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from transalg.data.batches import Plan
from transalg.data.rows import Batch, Rows
from transalg.hyper import Hyper
from transalg.tasks.examples import Example
from transalg.tasks.task import Task

BATCH_TOKENS = 8192  # a matter of speed and memory alone
SEED = 0  # the masks are the same every time


def evaluation_examples(task: Task[Any], rows: Rows, hyper: Hyper) -> Iterator[tuple[Batch, Example]]:
    """All rows in order. What is random about a row depends on its index alone, not on the batch that it is in."""
    for index in Plan(1, tokens=BATCH_TOKENS, shuffle=False).batches(rows):
        batch = rows.batch(np.asarray(index))
        yield batch, task.example(batch, hyper, SEED, index)
