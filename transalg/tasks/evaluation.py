"""The rows that a model is validated or evaluated on, batch by batch: figures do not depend on the batches."""

from collections.abc import Iterator
from typing import Any

from transalg.data.batches import Plan
from transalg.data.rows import AnyRows, Batch
from transalg.data.shuffle import Index
from transalg.hyper import Hyper
from transalg.tasks.examples import Example
from transalg.tasks.task import Task

BATCH_TOKENS = 8192  # a matter of speed and memory alone
SEED = 0  # the masks are the same every time


def evaluation_batches(rows: AnyRows, which: Index | None = None) -> Iterator[tuple[Index, Batch]]:
    """All rows, or those that are named, in order: the indices of a batch, and the batch."""
    plan = Plan(1, tokens=BATCH_TOKENS, shuffle=False)
    for index in plan.batches(rows) if which is None else plan.divide(which, rows.lengths(which)):
        yield index, rows.batch(index)


def evaluation_examples(task: Task[Any], rows: AnyRows, hyper: Hyper, which: Index | None = None) -> Iterator[tuple[Batch, Example]]:
    """The same as the task's loss takes it. What is random about a row depends on its index alone, not on the batch that it is in."""
    for index, batch in evaluation_batches(rows, which):
        yield batch, task.example(batch, hyper, SEED, index)
