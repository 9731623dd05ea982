"""The engine is the formal algorithms: values and gradients of every parameter, for every architecture and variant."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.drawn import KINDS, models
from tests.tolerance import PROMISED
from transalg.model import MODELS, layout
from transalg.verify.cases import DEPARTURES
from transalg.verify.laws import errors, formal_log_probabilities, invariances

# Gato is another line 2, with tests of its own; `transalg verify` has all of its departures
SINGLE = [(kind, fixed) for kind, variants in DEPARTURES.items() if kind in KINDS for fixed in variants.values()]


def named(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else ",".join(f"{name}={one}" for name, one in value.items()) or "paper"


@pytest.fixture(params=[0, 8192], ids=["exact", "padded"], autouse=True)
def buckets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attention on a ragged batch goes one of two ways."""
    before, layout.KERNEL_CALL_COST = layout.KERNEL_CALL_COST, request.param
    yield
    layout.KERNEL_CALL_COST = before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=30)
@given(data=st.data())
def test_any_combination_of_departures(kind: type, data: st.DataObject) -> None:
    model, batch, generator = data.draw(models(kind))
    of_P, of_log_P, of_gradients = errors(model, batch, generator)
    assert max(of_P, of_log_P, of_gradients) <= PROMISED


@pytest.mark.parametrize(("kind", "fixed"), SINGLE, ids=named)
@settings(max_examples=4)
@given(data=st.data())
def test_every_departure_alone(kind: type, fixed: dict[str, Any], data: st.DataObject) -> None:
    model, batch, generator = data.draw(models(kind, fixed))
    of_P, of_log_P, of_gradients = errors(model, batch, generator)
    assert max(of_P, of_log_P, of_gradients) <= PROMISED


@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=30)
@given(data=st.data())
def test_invariances(kind: type, data: st.DataObject) -> None:
    """Padding, batch, order; where it decodes, cache, prefill, reordered cache: at every position."""
    model, batch, generator = data.draw(models(kind))
    assert all(error <= PROMISED for error in invariances(model, batch, generator).values())


@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=10)
@given(data=st.data())
def test_float32_is_close(kind: type, data: st.DataObject) -> None:
    """In float32 log-probabilities are within 1e-4 of the formal ones in float64, with weights of the size models start with."""
    drawn, batch, generator = data.draw(models(kind))
    if drawn.hyper.d_e == 2 and drawn.hyper.norm == "layer_norm":  # then every norm is a sign, and rounding may turn it
        return
    if drawn.hyper.norm == "batch_norm":  # in evaluation it does not bound X, nor its errors
        return
    model = MODELS[kind](drawn.hyper, dtype=torch.float32, generator=generator).eval()
    formal = formal_log_probabilities(model.hyper, batch, model.theta())
    with torch.no_grad():
        ours = batch.log_probabilities(model)
    assert ours[0].dtype == torch.float32
    assert max(float((one - other).abs().max()) for one, other in zip(ours, formal, strict=True)) <= 1e-4
