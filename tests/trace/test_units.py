"""Every unit can be traced, and its tags declare the shapes that it has."""

import pytest
import torch

from tests.model.models import UNITS
from tests.strategies import rng
from tests.trace.shapes import check_shapes
from transalg.hyper import Hyper
from transalg.model import build
from transalg.model.counterpart import formal_counterpart
from transalg.trace.example import example
from transalg.trace.record import Trace, run
from transalg.trace.source import algorithms, find
from transalg.verify.batches import draw
from transalg.verify.cases import randomised

ELSEWHERE = {  # run by tests of their own
    "ECTraining",
    "MultiTaskClassifier",
    "adversarial_loss",
    "ECInference",
    "batch_norm",  # in training; tests/formal/test_norm.py
}


def trace(hyper: Hyper) -> Trace:
    model = randomised(build(hyper, dtype=torch.float64), rng(0))
    batch = draw(hyper, rng(1), rows=2, longest=5)
    row = batch.row(batch.x_lengths.index(5))
    inputs = [row[name] for name in ("z", "x") if name in row]
    return run(formal_counterpart(hyper), *inputs, model.theta(), *([row["s"]] if "s" in row else []), depth=4)


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
def test_a_model_s_algorithm_is_traced_with_its_shapes(hyper: Hyper) -> None:
    check_shapes(trace(hyper))


@pytest.mark.slow
def test_every_algorithm_is_run_by_an_example_or_a_unit() -> None:
    """No tag is left that nothing compares with the code."""
    names = {step.algorithm.name for hyper in UNITS.values() for step in trace(hyper).steps}
    names |= {step.algorithm.name for number in range(1, 16) for step in example(find(str(number)), "abc").trace(depth=3).steps}
    assert {algorithm.name for algorithm in algorithms()} - names == ELSEWHERE
