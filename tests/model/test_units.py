"""Every unit is in every table, and every departure departs: a name that nothing implements cannot pass."""

from dataclasses import fields
from itertools import combinations

import pytest
import torch

from tests.model.models import UNITS
from tests.strategies import rng
from transalg.formal.mask import sparse
from transalg.hyper import DHyper, Hyper
from transalg.hyper import mask as hyper_masks
from transalg.hyper import mlp as hyper_mlps
from transalg.hyper import norm as hyper_norms
from transalg.hyper import pooling as hyper_poolings
from transalg.hyper import positions as hyper_positions
from transalg.hyper.hyper import TRAINING
from transalg.model import MODELS, build, mask, mlp, norm, pooling, positions
from transalg.model.counterpart import formal_counterpart
from transalg.verify.batches import Batch, draw
from transalg.verify.cases import DEPARTURES, REFUSED, randomised, small
from transalg.verify.laws import formal_log_probabilities


def test_every_name_has_its_parameters_and_its_computation() -> None:
    assert hyper_positions.POSITIONS.keys() == positions.POSITIONS.keys()
    assert hyper_norms.NORMS.keys() == norm.NORMS.keys()
    assert hyper_mlps.MLPS.keys() == mlp.MLPS.keys()
    assert hyper_poolings.POOLINGS.keys() == pooling.POOLINGS.keys()
    masks = {each for each in vars(hyper_masks).values() if isinstance(each, type) and issubclass(each, hyper_masks.Mask)}
    assert masks == mask.MASKS.keys()


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_every_field_that_P_depends_on_is_a_case(kind: type[Hyper]) -> None:
    names = {name for fixed in DEPARTURES[kind].values() for name in fixed}
    free = {each.name for each in fields(kind) if not each.metadata.get("size")} - {*TRAINING, "special", *REFUSED.get(kind, ())}
    assert free <= names
    assert {fixed["positions"] for fixed in DEPARTURES[kind].values() if "positions" in fixed} == {*kind.position_schemes()} - {"learned"}


def test_an_unknown_name_is_refused_wherever_it_comes_in() -> None:
    hyper = small(next(iter(MODELS)))
    for name in ("positions", "norm", "activation"):
        with pytest.raises(ValueError, match=rf"{name}: expected .*, got 'rotatory'"):
            hyper.replace(**{name: "rotatory"})
        object.__setattr__(unchecked := small(type(hyper)), name, "rotatory")  # past the check: still nothing falls through to the paper's
        for use in (build, formal_counterpart):
            with pytest.raises(KeyError, match="rotatory"):
                use(unchecked)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_every_departure_departs(kind: type[Hyper]) -> None:
    """At the same θ its P differs from the paper's and from every other departure's, in the engine and in the formal algorithm."""
    shared = {"ell_max": 37, "d_f": 10} if "d_f" in {each.name for each in fields(kind)} else {"ell_max": 37}
    variants = {name: small(kind, **shared | fixed | shared) for name, fixed in DEPARTURES[kind].items()}
    batch = draw(next(iter(variants.values())), rng(0), rows=2, longest=11)
    batch = batch.select([batch.x_lengths.index(11)])
    engine = {name: probabilities(hyper, batch) for name, hyper in variants.items()}
    formal = {name: formal_probabilities(hyper, batch) for name, hyper in variants.items()}
    for one, other in combinations(variants, 2):
        assert not torch.allclose(engine[one], engine[other], rtol=0, atol=1e-6), f"the engine computes {one} like {other}"
        assert not torch.allclose(formal[one], formal[other], rtol=0, atol=1e-6), f"the formal algorithm computes {one} like {other}"


def model_of(hyper: Hyper):
    """A model whose parameters are the same wherever their names are."""
    model = build(hyper, dtype=torch.float64).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=rng(sum(name.encode())), dtype=torch.float64))
    return model


@torch.no_grad()
def probabilities(hyper: Hyper, batch: Batch) -> torch.Tensor:
    return batch.log_probabilities(model_of(hyper))[0].exp()


@torch.no_grad()
def formal_probabilities(hyper: Hyper, batch: Batch) -> torch.Tensor:
    return formal_log_probabilities(hyper, batch, model_of(hyper).theta())[0].exp()


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
def test_the_formal_theta_goes_there_and_back(hyper: Hyper) -> None:
    model = randomised(build(hyper, dtype=torch.float64), rng(3))
    again = type(model).from_theta(model.theta(), hyper)
    assert all(ours.equal(theirs) for ours, theirs in zip(model.parameters(), again.parameters(), strict=True))


def test_the_band_is_the_formal_one() -> None:
    """Layers 2, 4, 6, … counted from 1, in the hyperparameters as in the paper's notation."""
    hyper = small(DHyper, L=5, band=3)
    Mask = mask.formal_mask(hyper)
    for l in range(5):
        assert hyper.mask("layers", l) == (hyper_masks.Band(3) if l in (1, 3) else hyper_masks.Causal())
        assert Mask(7, l).equal(sparse(3)(7, l))
