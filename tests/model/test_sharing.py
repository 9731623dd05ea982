"""Layers that share one set of parameters: one module that runs several times."""

from pathlib import Path

import pytest
import torch

from tests.model.models import KINDS
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.cpu import pack, quantize
from transalg.hyper import DHyper, EDHyper, Hyper, cost
from transalg.model import DTransformer, build
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, small
from transalg.verify.laws import errors, invariances

DEPTHS = {"L_enc": 5, "L_dec": 3}


def deep(kind: type[Hyper], **departures: object) -> Hyper:
    return small(kind, **(DEPTHS if kind is EDHyper else {"L": 5}), **departures)


@pytest.mark.parametrize("shared", [2, 3, 7])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_is_the_formal_algorithm(kind: type[Hyper], shared: int) -> None:
    """A stack of five layers in sets of 2, 2, 1; of 3, 2; and in one."""
    hyper = deep(kind, shared=shared)
    model = randomised(build(hyper, dtype=torch.float64), rng(shared)).eval()
    batch = draw(hyper, rng(1))
    assert max(*errors(model, batch, rng(2)), *invariances(model, batch, rng(3)).values()) <= PROMISED


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_model_is_the_one_whose_layers_are_equal(kind: type[Hyper]) -> None:
    """The same θ without sharing, whose layers are as many modules, says the same."""
    hyper = deep(kind, shared=2)
    model = randomised(build(hyper, dtype=torch.float64), rng(0)).eval()
    apart = type(model).from_theta(model.theta(), hyper.replace(shared=1)).eval()
    batch = draw(hyper, rng(1))
    with torch.no_grad():
        for ours, theirs in zip(batch.log_probabilities(model), batch.log_probabilities(apart), strict=True):
            assert ours.equal(theirs)
    counts = {stack: len(apart.get_submodule(stack)) for stack in hyper.stacks}
    assert counts == hyper.stacks
    assert {stack: len(model.get_submodule(stack)) for stack in hyper.stacks} == {stack: -(-n // 2) for stack, n in counts.items()}


def test_theta_goes_there_and_back() -> None:
    model = randomised(build(deep(DHyper, shared=2), dtype=torch.float64), rng(0))
    again = DTransformer.from_theta(model.theta(), shared=2)
    assert model.state_dict().keys() == again.state_dict().keys()
    assert all(ours.equal(theirs) for ours, theirs in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"theta: expected layers.2 as layers.0, for shared=3, got another layers.2.W.W_q"):
        DTransformer.from_theta(model.theta(), shared=3)


def test_theta_has_the_gradient_in_the_first_of_the_layers() -> None:
    model = randomised(build(deep(DHyper, shared=2), dtype=torch.float64), rng(0))
    model(torch.tensor([[21, 3, 5]])).square().sum().backward()
    gradient = model.theta_gradient()
    assert [bool(layer.W_mlp1.any()) for layer in gradient.layers] == [True, False, True, False, True]
    assert gradient.layers[2].W_mlp1.equal(model.layers[1].W_mlp1.grad)


def test_parameters_count_once_and_arithmetic_every_time() -> None:
    """ALBERT's all-layers sharing: a model of any depth has the parameters of one layer."""
    one, deep_one = small(DHyper, L=1), small(DHyper, L=7, shared=7)
    assert cost.parameters(deep_one) == cost.parameters(one) == sum(part.numel() for part in build(deep_one).parameters())
    assert cost.flops_per_token(deep_one, 7) == cost.flops_per_token(deep_one.replace(shared=1), 7)
    assert cost.cache_bytes(deep_one, 5, 3) == build(deep_one).cache(3, ell=5).bytes == 7 * cost.cache_bytes(one, 5, 3)


def test_a_checkpoint_has_each_set_once(tmp_path: Path) -> None:
    model = build(deep(DHyper, shared=3), generator=rng(0))
    tensors = checkpoints.state(model, [])
    assert {name.split(".")[2] for name in tensors if ".layers." in name} == {"0", "1"}
    checkpoints.save(tmp_path / "last.safetensors", tensors, Metadata(task="lm", hyper=model.hyper))
    other = build(model.hyper, generator=rng(1))
    loaded, metadata = checkpoints.load(tmp_path / "last.safetensors")
    checkpoints.restore(other, [], loaded, tmp_path)
    assert metadata.hyper == model.hyper
    assert all(ours.equal(theirs) for ours, theirs in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("wrap", [lambda model: pack(model, 1, least=0), lambda model: pack(model, 3, least=0), quantize])
def test_the_fast_path_runs_every_layer(wrap) -> None:
    """It decodes what one pass of the same wrapped model says."""
    model = wrap(build(deep(DHyper, shared=2), generator=rng(0)).eval())
    ids, cache = torch.tensor([[21, 3, 5, 7]]), model.cache(1)
    with torch.no_grad():
        logits = torch.cat([model.decode(ids[:, t : t + 1], cache) for t in range(4)], dim=1)
        assert torch.allclose(logits, model(ids), rtol=0, atol=1e-4)


def test_what_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="shared: expected 1 with a band that is not in every layer, got 2"):
        small(DHyper, band=3, shared=2)
    for number in (0, 1.5, True):
        with pytest.raises(ValueError, match="shared: expected a whole number from 1 to 1,000, got "):
            small(DHyper, shared=number)
