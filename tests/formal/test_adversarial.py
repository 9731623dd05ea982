"""Adversarial training, against autograd by hand."""

import pytest
import torch
from torch.func import grad
from torch.testing import assert_close

from tests.strategies import fill
from tests.trace.shapes import check_shapes
from transalg.formal.adversarial import adversarial_loss, moved
from transalg.formal.classification import EClassifier, ECTheta
from transalg.trace.record import run

exactly = {"rtol": 0, "atol": 1e-12}
THETA = fill(ECTheta.init(L=2, d_f=5, N_C=3, N_V=13, ell_max=7, H=3, d_e=6, d_mlp=11), 0)
X = torch.tensor([11, 3, 5, 3])


def by_hand(theta: ECTheta, epsilon: float) -> torch.Tensor:
    """With W_p of the four positions as the leaf: the loss, and the loss where all four columns together have moved by ε."""
    W_p = theta.W_p.clone().requires_grad_(True)
    named = {name: part for name, part in theta.named().items() if name != "W_p"}

    def loss(W_p: torch.Tensor) -> torch.Tensor:
        return -EClassifier(X, ECTheta.from_named(named | {"W_p": W_p}))[2].log()

    (g,) = torch.autograd.grad(loss(W_p), W_p)
    assert not g[:, 4:].any()
    return loss(theta.W_p) + loss(theta.W_p + epsilon * g / g.square().sum().sqrt())


def test_it_is_the_loss_and_the_loss_at_moved_embeddings() -> None:
    assert_close(adversarial_loss(X, 2, THETA, 0.7), by_hand(THETA, 0.7), **exactly)
    plain = -EClassifier(X, THETA)[2].log()
    assert adversarial_loss(X, 2, THETA, 0.1) > 2 * plain, "they are moved to where the loss is larger"


def test_its_gradient_takes_r_for_a_constant() -> None:
    g = grad(lambda r: -EClassifier(X, moved(THETA, r))[2].log())(torch.zeros(6, 4, dtype=torch.float64))
    r = 0.7 * g / g.norm()
    expected = grad(lambda theta: -EClassifier(X, theta)[2].log() - EClassifier(X, moved(theta, r))[2].log())(THETA)
    ours = grad(lambda theta: adversarial_loss(X, 2, theta, 0.7))(THETA)
    assert_close(ours.named(), expected.named(), **exactly)


def test_where_nothing_matters_nothing_moves() -> None:
    """With W_c = 0 the loss is the same everywhere."""
    flat = ECTheta.from_named(THETA.named() | {"W_c": torch.zeros_like(THETA.W_c)})
    assert_close(adversarial_loss(X, 2, flat, 0.7), -2 * EClassifier(X, flat)[2].log(), **exactly)


def test_it_is_traced_with_its_shapes() -> None:
    trace = run(adversarial_loss, X, 2, THETA, 0.7)
    check_shapes(trace)
    assert [step.line.number for step in trace.steps] == [1, 2, 3, 4]
    assert trace.steps[2].value.norm() == pytest.approx(0.7)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epsilon: expected a number in \(0, ∞\), got 0"):
        adversarial_loss(X, 2, THETA, 0)
    with pytest.raises(ValueError, match="c: expected one of 0, …, N_C−1 with N_C = 3, got 3"):
        adversarial_loss(X, 3, THETA, 0.1)
