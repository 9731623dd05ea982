"""The attention kernels against attention written out, values and gradients."""

from itertools import pairwise

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from tests.strategies import normal
from tests.tolerance import tolerance
from transalg.model import kernels


def written_out(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """softmax((QKᵀ + bias)/√d) V, −∞ where the mask is False; a row for every query."""
    scores = (q @ k.mT + bias) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ v


def compare(ours: Tensor, theirs: Tensor, by: list[Tensor]) -> None:
    assert_close(ours, theirs, rtol=0, atol=tolerance(torch.float64, terms=83, size=10))
    weight = normal(99, *ours.shape)
    for one, other in zip(torch.autograd.grad((ours * weight).sum(), by), torch.autograd.grad((theirs * weight).sum(), by), strict=True):
        assert_close(one, other, rtol=0, atol=tolerance(torch.float64, terms=83, depth=2, size=100))


@given(ell=st.integers(1, 83), w=st.integers(1, 41), seed=st.integers(0, 99))
@example(ell=12, w=11, seed=0)
def test_a_band_is_dense_attention_under_a_mask(ell: int, w: int, seed: int) -> None:
    B, H, d_attn, d_mid = 2, 3, 5, 7
    q, k, v = (normal(seed + i, B, H, ell, d).requires_grad_() for i, d in enumerate((d_attn, d_attn, d_mid)))
    t = torch.arange(ell)
    mask = (t <= t[:, None]) & (t > t[:, None] - w)
    compare(kernels.banded(q, k, v, w), written_out(q, k, v, mask), [q, k, v])


def test_the_work_of_a_band_grows_as_its_length() -> None:
    """Twice the tokens, twice the work, at any length; dense attention takes four times as much."""

    def work(ell: int, w: int | None) -> int:
        q, k, v = (torch.randn(1, 2, ell, 8, requires_grad=True) for _ in range(3))
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            out = kernels.dense(q, k, v, causal=True) if w is None else kernels.banded(q, k, v, w)
            out.sum().backward()
        return counter.get_total_flops()

    lengths = (256, 512, 1024)
    assert [work(b, None) / work(a, None) for a, b in pairwise(lengths)] == [4, 4]
    assert [work(b, 32) / work(a, 32) for a, b in pairwise(lengths)] == [2, 2]
    assert work(1024, 32) < 0.06 * work(1024, None)


def test_the_memory_of_a_band_grows_as_its_length() -> None:
    def kept(ell: int) -> int:
        q, k, v = (torch.randn(1, 2, ell, 8, requires_grad=True) for _ in range(3))
        seen: dict[int, int] = {}
        tensors = []

        def pack(tensor: Tensor) -> Tensor:
            tensors.append(tensor)
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            kernels.banded(q, k, v, 32)
        return sum(seen.values())

    assert kept(4096) == pytest.approx(2 * kept(2048), rel=0.02)


@given(ell=st.integers(1, 13), seed=st.integers(0, 99))
def test_relative_positions(ell: int, seed: int) -> None:
    B, H, d = 2, 3, 5
    q, k, v = (normal(seed + i, B, H, ell, d).requires_grad_() for i in range(3))
    R, u, w = (normal(seed + 7 + i, *shape).requires_grad_() for i, shape in enumerate(((H, ell, d), (H, d), (H, d))))
    bias = torch.stack(
        [torch.stack([(R[:, abs(x - z)] * (q[:, :, x] + w)).sum(-1) for z in range(ell)], dim=-1) for x in range(ell)], dim=-2
    ) + (u[:, None] @ k.mT)
    mask = torch.ones(ell, ell, dtype=torch.bool).tril()
    compare(kernels.relative(q, k, v, R, u, w), written_out(q, k, v, mask, bias), [q, k, v, R, u, w])


def test_shifting_turns_distances_into_positions() -> None:
    """Row i of n queries has the distances m−1, …, 0; after it, column j has the distance of key j from query m − n + i."""
    n, m = 3, 5
    by_distance = torch.arange(m - 1, -1, -1).expand(n, m).double()
    shifted = kernels.shift(by_distance)
    for i in range(n):
        for j in range(m - n + i + 1):
            assert shifted[i, j] == m - n + i - j


def test_dropped_attention_weights_are_0_and_the_others_larger() -> None:
    """With V = 1 the output is the weights themselves."""
    torch.manual_seed(0)
    ell, p = 64, 0.25
    q, k = (normal(i, 1, 1, ell, 5) for i in range(2))
    v = torch.eye(ell, dtype=torch.float64)[None, None]
    full = kernels.dense(q, k, v, causal=False)
    dropped = kernels.dense(q, k, v, causal=False, dropout=p)
    gone = dropped == 0
    assert_close(dropped[~gone], full[~gone] / (1 - p))
    assert abs(gone.double().mean() - p) < 0.03
