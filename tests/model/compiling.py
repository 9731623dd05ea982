"""What torch's compiler makes of the models, every unit alone. `test_modules.py` runs this in a process of its own."""

import pytest
import torch
from torch.testing import assert_close

from tests.model.models import KINDS, UNITS, inputs, inputs_of, make
from tests.strategies import rng
from transalg.hyper import DHyper, EDHyper, GatoHyper, Hyper
from transalg.model import build, positions

# Gato checks how many of its tokens are image patches, which depends on the data: it is not one graph.
ONE_GRAPH = {name: hyper for name, hyper in UNITS.items() if not isinstance(hyper, GatoHyper)}


@pytest.mark.parametrize("hyper", ONE_GRAPH.values(), ids=ONE_GRAPH)
def test_every_unit_is_one_graph(hyper: Hyper) -> None:
    torch._dynamo.reset()
    model = build(hyper, generator=rng(0), dtype=torch.float64).eval()
    ids = inputs_of(hyper)
    assert_close(torch.compile(model, fullgraph=True, backend="eager")(*ids), model(*ids))


@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_backward_compile(kind: type) -> None:
    """A kernel compiler is not needed to see that."""
    torch._dynamo.reset()
    model = make(kind, dtype=torch.float64)
    ids = inputs(kind)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    ours = compiled(*ids)
    assert_close(ours, model(*ids))
    ours.square().sum().backward()
    compiled_gradient = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model(*ids).square().sum().backward()
    assert_close(compiled_gradient, [parameter.grad for parameter in model.parameters() if parameter.grad is not None])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # dynamo looks, where the graph breaks at the lengths
def test_a_ragged_batch_compiles_too() -> None:
    torch._dynamo.reset()
    model = make(DHyper, dtype=torch.float64)
    ids = inputs(DHyper, full=False)
    assert_close(torch.compile(model, backend="aot_eager")(*ids), model(*ids))


def test_export_leaves_no_trace() -> None:
    """Sinusoids made while exporting have no values; a model that runs afterwards must not find them."""
    model = make(EDHyper)
    ids = inputs(EDHyper)
    expected = model(*ids)
    positions._waves.cache_clear()
    exported = torch.export.export(model, ids)
    assert_close(exported.module()(*ids), expected)
    assert model(*ids).equal(expected)
