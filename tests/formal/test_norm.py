"""Norms in the place of layer_norm, each against its definition."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import normal, theta_d
from tests.trace.shapes import check_shapes
from transalg.formal import DTheta, DTransformer, layer_norm
from transalg.formal.norm import RMSnorm, RMSnorm_1p, affine, batch_norm, batch_statistics, running
from transalg.formal.systems import GPT
from transalg.formal.theta import Statistics
from transalg.trace.record import run

exactly = {"rtol": 0, "atol": 1e-12}
seeds = st.integers(0, 2**16)


@given(seeds)
def test_rmsnorm_is_torchs(seed: int) -> None:
    e, gamma = normal(seed, 7), normal(seed + 1, 7)
    assert_close(RMSnorm(e, gamma, eps=1e-3), torch.nn.functional.rms_norm(e, (7,), gamma, eps=1e-3), **exactly)


@given(seeds)
def test_rmsnorm_is_layer_norm_where_m_and_beta_are_0(seed: int) -> None:
    e, gamma = normal(seed, 7), normal(seed + 1, 7)
    e = e - e.mean()
    assert_close(RMSnorm(e, gamma), layer_norm(e, gamma, torch.zeros_like(gamma)), **exactly)


def test_rmsnorm_ignores_beta_so_it_stands_in_lines_5_7_and_10() -> None:
    theta = theta_d()
    other = DTheta.from_named({name: part + 1 if "beta" in name else part for name, part in theta.named().items()})
    gopher = partial(DTransformer, layer_norm=RMSnorm)
    assert_close(gopher([1, 2, 3], theta), gopher([1, 2, 3], other), **exactly)
    assert not torch.allclose(gopher([1, 2, 3], theta), DTransformer([1, 2, 3], theta))


@given(seeds)
def test_rmsnorm_1p_is_rmsnorm_with_one_more(seed: int) -> None:
    e, gamma = normal(seed, 7), normal(seed + 1, 7)
    assert_close(RMSnorm_1p(e, gamma, eps=1e-3), RMSnorm(e, 1 + gamma, eps=1e-3), **exactly)


def test_rmsnorm_1p_by_hand() -> None:
    """The mean square of (1, 7) is 25; γ = 0 leaves the length √2, γ = (1, −1) doubles one and takes the other away."""
    e = torch.tensor([1.0, 7.0]).double()
    assert_close(RMSnorm_1p(e, torch.zeros(2).double(), eps=0), e / 5, **exactly)
    assert_close(RMSnorm_1p(e, torch.tensor([1.0, -1.0]).double(), eps=0), torch.tensor([0.4, 0.0], dtype=torch.float64), **exactly)


@given(seeds)
def test_batch_norm_is_torchs(seed: int) -> None:
    X, gamma, beta = normal(seed, 7, 5), normal(seed + 1, 7), normal(seed + 2, 7)
    expected = torch.nn.functional.batch_norm(X.T, None, None, gamma, beta, training=True, eps=1e-3).T
    assert_close(batch_norm(X, gamma, beta, 1e-3), expected, **exactly)
    check_shapes(run(batch_norm, X, gamma, beta, 1e-3))


@given(seeds)
def test_running_statistics_move_by_mu(seed: int) -> None:
    """As torch's, but for the variance: torch divides by ℓ − 1 there."""
    X, m_bar, v_bar = normal(seed, 7, 5), normal(seed + 1, 7), normal(seed + 2, 7).square()
    m, v = m_bar.clone(), v_bar.clone()
    torch.nn.functional.batch_norm(X.T, m, v, training=True, momentum=0.3)
    ours = batch_statistics(X, m_bar, v_bar, 0.3)
    assert_close(ours[0], m, **exactly)
    assert_close(ours[1], v_bar + (v - v_bar - 0.3 * X.var(dim=1)) + 0.3 * X.var(dim=1, correction=0), **exactly)


def statistics(theta: DTheta) -> Statistics:
    gammas = [name for name in theta.named() if name.rpartition(".")[2].startswith("gamma")]
    m, v = ({name: normal(seed + i, len(theta.named()[name])) for i, name in enumerate(gammas)} for seed in (1, 101))
    return Statistics(m, {name: part.square() + 0.1 for name, part in v.items()})


def test_with_running_statistics_it_is_torchs_in_inference() -> None:
    theta = theta_d()
    theta = replace(theta, statistics=statistics(theta))
    e, name = normal(0, len(theta.W_e)), "layers.0.gamma2"
    layer, folded = theta.layers[0], running(theta, 1e-3)
    m, v = theta.statistics.m[name], theta.statistics.v[name]
    expected = torch.nn.functional.batch_norm(e[None], m, v, layer.gamma2, layer.beta2, training=False, eps=1e-3)[0]
    assert_close(affine(e, folded.layers[0].gamma2, folded.layers[0].beta2), expected, **exactly)
    assert folded.W_e is theta.W_e and folded.statistics is None


def test_in_training_a_token_sees_later_ones_and_afterwards_it_does_not() -> None:
    theta = theta_d()
    one, other = (GPT(x, theta, layer_norm=batch_norm) for x in ([1, 2, 3], [1, 2, 4]))
    assert not torch.allclose(one[:, :2], other[:, :2])
    folded = running(replace(theta, statistics=statistics(theta)))
    one, other = (DTransformer(x, folded, layer_norm=affine) for x in ([1, 2, 3], [1, 2, 4]))
    assert_close(one[:, :2], other[:, :2], **exactly)
    assert not torch.allclose(one[:, 2], other[:, 2])


def test_an_algorithm_refuses_statistics_that_it_would_leave_out() -> None:
    theta = theta_d()
    with pytest.raises(ValueError, match="theta: expected no running statistics, which `running` puts into γ and β, got some"):
        DTransformer([1, 2, 3], replace(theta, statistics=statistics(theta)))
    with pytest.raises(ValueError, match="theta: expected running statistics, got none"):
        running(theta)
