"""The chunked log loss is the plain one: values, gradients, at any size of the chunks."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.strategies import normal
from tests.tolerance import tolerance
from transalg.model import log_loss, loss

T, N_V, D = 37, 23, 5
TARGETS = torch.randint(N_V, (T,), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("held", [2**25, 100, 1], ids=["one chunk", "chunks of 4 tokens", "chunks of 1"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_cross_entropy(monkeypatch: pytest.MonkeyPatch, held: int, smoothing: float, bias: bool, weighted: bool) -> None:
    monkeypatch.setattr(loss, "LOGITS", held)
    X, W_u, b_u = (normal(i, *shape).requires_grad_() for i, shape in enumerate(((T, D), (N_V, D), (N_V,))))
    by = [X, W_u, b_u] if bias else [X, W_u]
    m = normal(3, T).square() if weighted else None
    ours = 2 * log_loss(X, W_u, TARGETS, b_u if bias else None, label_smoothing=smoothing, weight=0.3, m=m)
    each = F.cross_entropy(F.linear(X, W_u, b_u if bias else None), TARGETS, label_smoothing=smoothing, reduction="none")
    theirs = 0.6 * (each if m is None else m * each).sum()
    same = {"rtol": 0, "atol": tolerance(torch.float64, terms=T, size=float(theirs.detach()))}
    assert_close(ours, theirs, **same)
    for one, other in zip(torch.autograd.grad(ours, by), torch.autograd.grad(theirs, by), strict=True):
        assert_close(one, other, **same)
    with torch.no_grad():
        assert_close(2 * log_loss(X, W_u, TARGETS, b_u if bias else None, label_smoothing=smoothing, weight=0.3, m=m), theirs, **same)


def test_a_target_of_probability_0_has_a_finite_loss() -> None:
    """Where the softmax underflows, its logarithm does not."""
    X, W_u = torch.tensor([[1.0]]), torch.tensor([[0.0], [300.0]], requires_grad=True)
    value = log_loss(X, W_u, torch.tensor([0]))
    assert value == 300
    assert torch.autograd.grad(value, W_u)[0].flatten().tolist() == [-1.0, 1.0]


def test_no_more_logits_are_held_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "LOGITS", 4 * N_V)
    largest = 0
    plain = torch.mm

    def watched(a: torch.Tensor, b: torch.Tensor, **options: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        result = plain(a, b, **options)
        if result.shape[1] == N_V:
            largest = max(largest, result.numel())
        return result

    monkeypatch.setattr(torch, "mm", watched)
    log_loss(normal(0, T, D).requires_grad_(), normal(1, N_V, D), TARGETS)
    assert 0 < largest <= 4 * N_V


def test_what_is_frozen_gets_no_gradient() -> None:
    X, W_u = normal(0, T, D).requires_grad_(), normal(1, N_V, D).requires_grad_()
    at_once = torch.autograd.grad(log_loss(X, W_u, TARGETS), [X, W_u])
    assert_close(torch.autograd.grad(log_loss(X, W_u.detach(), TARGETS), X)[0], at_once[0])
    assert_close(torch.autograd.grad(log_loss(X.detach(), W_u, TARGETS), W_u)[0], at_once[1])


def test_no_tokens_are_a_loss_of_0() -> None:
    X, W_u = torch.zeros(0, D, requires_grad=True), torch.ones(N_V, D, requires_grad=True)
    value = log_loss(X, W_u, TARGETS[:0])
    value.backward()
    assert value == 0 and (W_u.grad == 0).all()


def test_bfloat16_adds_up_in_float32() -> None:
    """5000 losses of 1 or so: bfloat16 would stop counting at 256."""
    X, W_u = torch.zeros(5000, D, dtype=torch.bfloat16, requires_grad=True), torch.zeros(N_V, D, dtype=torch.bfloat16)
    value = log_loss(X, W_u, torch.zeros(5000, dtype=torch.long))
    value.backward()
    assert value.dtype == torch.float32 and X.grad.dtype == torch.bfloat16
    assert_close(value.detach(), 5000 * torch.tensor(float(N_V)).log(), rtol=0.01, atol=0)


def test_targets_that_are_not() -> None:
    X, W_u = normal(0, T, D), normal(1, N_V, D)
    with pytest.raises(ValueError, match=r"targets: expected IDs from 0 to N_V−1 with N_V = 23, got 23"):
        log_loss(X, W_u, TARGETS + (23 - TARGETS.max()))
    with pytest.raises(ValueError, match=r"targets: expected a token for each row of X, \(37, 5\), got the shape \(36,\)"):
        log_loss(X, W_u, TARGETS[1:])
    with pytest.raises(ValueError, match=r"m: expected a weight for each row of X, \(37, 5\), got the shape \(36,\)"):
        log_loss(X, W_u, TARGETS, m=torch.ones(36))


def test_a_second_backward_is_refused() -> None:
    X = normal(0, T, D).requires_grad_()
    value = log_loss(X, normal(1, N_V, D), TARGETS)
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
