"""Norms in the place of layer_norm, each against its definition."""

from functools import partial

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import normal, theta_d
from transalg.formal import DTheta, DTransformer, layer_norm
from transalg.formal.norm import RMSnorm

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
