"""Positions, each scheme against its definition."""

from dataclasses import replace
from functools import partial
from math import cos, sin

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import D, fill, rng, theta_d
from tests.tolerance import tolerance
from transalg.formal import (
    DTheta,
    DTraining,
    DTransformer,
    EDTheta,
    EDTransformer,
    MHAttention,
)
from transalg.formal.mask import banded
from transalg.formal.norm import RMSnorm
from transalg.formal.positions import (
    RelativeAttention,
    paper_sinusoids,
    relative,
    relative_sinusoids,
    sinusoids,
    with_positions,
    without_positions,
)
from transalg.formal.systems import Gopher

exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=13, depth=2, size=10)}  # norms of few numbers enlarge errors
seeds = st.integers(0, 2**16)
by_distance = partial(MHAttention, Attention=RelativeAttention)


SINE = tolerance(torch.float64, terms=1, size=5)  # of an argument up to 5


def test_the_papers_sinusoids() -> None:
    W_p = paper_sinusoids(4, 5)
    for t in range(1, 6):
        for i in (1, 2):
            assert W_p[2 * i - 2, t - 1] == pytest.approx(sin(t / 5 ** (2 * i / 4)), abs=SINE)
            assert W_p[2 * i - 1, t - 1] == pytest.approx(cos(t / 5 ** (2 * i / 4)), abs=SINE)


def test_vaswanis_sinusoids() -> None:
    W_p = sinusoids(6, 5)
    for pos in range(5):
        for i in range(3):
            assert W_p[2 * i, pos] == pytest.approx(sin(pos / 10000 ** (2 * i / 6)), abs=SINE)
            assert W_p[2 * i + 1, pos] == pytest.approx(cos(pos / 10000 ** (2 * i / 6)), abs=SINE)


def test_a_shift_of_position_is_a_rotation() -> None:
    """Why sinusoids: r(δ + k) is a fixed linear map of r(δ), the same for every δ."""
    r = relative_sinusoids(torch.arange(-4, 9), 6)
    shift = torch.linalg.lstsq(r[:, :-3].T, r[:, 3:].T).solution.T
    assert_close(shift @ r[:, :-3], r[:, 3:], **exactly)


@pytest.mark.parametrize("positions", [paper_sinusoids, sinusoids])
def test_sinusoids_stand_in_every_architecture_and_are_not_trained(positions: object) -> None:
    theta = theta_d()
    W_p = positions(6, 7)  # type: ignore[operator]
    assert_close(
        DTransformer([1, 2], with_positions(theta, W_p)),
        DTransformer([1, 2], replace(theta, W_p=W_p)),
        **exactly,
    )
    trained = DTraining([[9, 1, 2]], theta, 2, 0.1, DTransformer=lambda x, theta: DTransformer(x, with_positions(theta, W_p)))
    assert trained.W_p.equal(theta.W_p) and not trained.W_e.equal(theta.W_e)
    ed = fill(EDTheta.init(**D, L_enc=1, L_dec=1), 0)
    assert EDTransformer([1], [2], with_positions(ed, W_p)).shape == (11, 1)


@given(seeds, st.integers(1, 3))
def test_relative_attention_sees_distances_only(seed: int, shift: int) -> None:
    """Dropping the first tokens of a band-masked sequence changes nothing for those whose band does not reach them."""
    theta = without_positions(relative(theta_d(seed, L=1), 4, rng(seed)))
    gopher = partial(DTransformer, MHAttention=by_distance, Mask=lambda ell, l: banded(ell, 2))
    x = torch.randint(0, 11, (7,), generator=rng(seed))
    assert_close(gopher(x[shift:], theta)[:, 1:], gopher(x, theta)[:, shift + 1 :], **exactly)
    absolute = partial(DTransformer, Mask=lambda ell, l: banded(ell, 2))
    assert not torch.allclose(absolute(x[shift:], theta_d(seed, L=1))[:, 1:], absolute(x, theta_d(seed, L=1))[:, shift + 1 :])


def test_relative_attention_sees_the_order() -> None:
    """In one layer without positions, the last token sees a set; with relative positions, a sequence."""
    plain = without_positions(theta_d(L=1))
    assert_close(DTransformer([1, 2, 3], plain)[:, 2], DTransformer([2, 1, 3], plain)[:, 2], **exactly)
    theta = relative(theta_d(L=1), 4, rng(0))
    assert theta.sizes()["d_r"] == 4
    assert not torch.allclose(Gopher([1, 2, 3], theta)[:, 2], Gopher([2, 1, 3], theta)[:, 2])


def test_relative_attention_without_distances_is_attention() -> None:
    theta = relative(theta_d(), 4, rng(0))
    off = DTheta.from_named  # W_r = 0 and u = w = 0 leave Algorithm 4
    layers = tuple(replace(layer, W=replace(layer.W, W_r=0 * layer.W.W_r, u=0 * layer.W.u, w=0 * layer.W.w)) for layer in theta.layers)
    plain = off({name: part for name, part in theta.named().items() if not name.endswith((".W_r", ".u", ".w"))})
    assert_close(
        DTransformer([1, 2, 3], replace(theta, layers=layers), MHAttention=by_distance),
        DTransformer([1, 2, 3], plain),
        **exactly,
    )


@pytest.mark.slow
def test_gopher_trains_by_algorithm_13() -> None:
    theta = relative(DTheta.init(**D, L=2, generator=rng(0)), 4, rng(0))
    x = [9, 3, 1, 4, 1, 5, 10]
    trained = DTraining([x], theta, 40, 0.05, DTransformer=Gopher)
    assert Gopher(x, trained).argmax(dim=0)[:-1].tolist() == x[1:]
    assert not trained.layers[0].W.W_r.equal(theta.layers[0].W.W_r) and not trained.layers[0].W.u.equal(theta.layers[0].W.u)
    assert trained.W_p.equal(theta.W_p) and trained.beta.equal(theta.beta)  # neither is Gopher's
    explicit = partial(DTransformer, MHAttention=by_distance, layer_norm=RMSnorm)
    assert_close(Gopher(x, theta), explicit(x, replace(theta, W_p=0 * theta.W_p)), **exactly)
