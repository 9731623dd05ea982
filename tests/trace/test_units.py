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
from transalg.trace.gato_example import GATO, gato_example
from transalg.trace.record import Trace, run
from transalg.trace.setting import Settings
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
    row = batch.formal_rows(hyper)[batch.x_lengths.index(5)]
    inputs = [row[name] for name in ("z", "x") if name in row]
    return run(formal_counterpart(hyper), *inputs, model.theta(), *([row["s"]] if "s" in row else []), depth=4)


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
def test_a_model_s_algorithm_is_traced_with_its_shapes(hyper: Hyper) -> None:
    check_shapes(trace(hyper))


@pytest.mark.slow
def test_every_algorithm_is_run_by_an_example_or_a_unit() -> None:
    """No tag is left that nothing compares with the code."""
    names = {step.algorithm.name for hyper in UNITS.values() for step in trace(hyper).steps}
    numbered = [find(str(number)) for number in range(1, 16)]
    systems = [algorithm for algorithm in algorithms() if algorithm.system and algorithm.name not in GATO]
    names |= {step.algorithm.name for algorithm in numbered + systems for step in example(algorithm, "abc").trace(depth=3).steps}
    names |= set(GATO)  # below
    assert {algorithm.name for algorithm in algorithms()} - names == ELSEWHERE


@pytest.mark.parametrize("name", GATO)
def test_gato_s_algorithms_are_traced_with_their_shapes(name: str) -> None:
    traced = gato_example(find(name), "ab", settings=Settings(N_epochs=1)).trace(depth=2)
    assert traced.steps[0].algorithm.name == name
    if any(step.dims for step in traced.steps):
        check_shapes(traced)
