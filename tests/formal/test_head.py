"""The heads of an encoder: lines 10 and 11 of Algorithm 9, and what stands in their place."""

from dataclasses import replace

import torch
from torch.testing import assert_close

from tests.strategies import normal, rng
from transalg.formal import ETheta
from transalg.formal.components import layer_norm
from transalg.formal.head import head, headless, tanh_head
from transalg.formal.notation import GELU

D_E, D_F, ELL = 6, 11, 5
THETA = replace(
    ETheta.init(N_V=13, ell_max=7, L=1, H=2, d_e=D_E, d_mlp=17, d_f=D_F, generator=rng(0)),
    **{name: normal(i, D_F) for i, name in enumerate(("b_f", "gamma", "beta"), 1)},
)


def test_the_papers_head_is_lines_10_and_11() -> None:
    X = normal(0, D_E, ELL)
    for t in range(ELL):
        y = GELU(THETA.W_f @ X[:, t] + THETA.b_f)
        assert_close(head(X, THETA)[:, t], layer_norm(y, THETA.gamma, THETA.beta, 1e-5))


def test_berts_pooler_has_tanh_and_no_norm() -> None:
    X = normal(0, D_E, ELL)
    Y = tanh_head(X, THETA)
    assert Y.shape == (D_F, ELL) and (Y.abs() < 1).all()
    assert_close(torch.atanh(Y), THETA.W_f @ X + THETA.b_f[:, None])


def test_headless_is_none() -> None:
    X = normal(0, D_E, ELL)
    assert headless(X, THETA) is X
