"""Heads that share keys and values, and heads whose queries and keys are normalized, each against its definition."""

from dataclasses import fields, replace
from functools import partial
from math import sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import fill, normal, random_attention, random_heads, theta_d
from tests.tolerance import tolerance
from transalg.formal import Attention, DTheta, DTraining, DTransformer, MHAttention, MHAttentionTheta, bidirectional, unidirectional
from transalg.formal.components import layer_norm
from transalg.formal.heads import (
    GroupedMHAttention,
    GroupedMHAttentionTheta,
    NormedAttention,
    NormedAttentionTheta,
    NormedMHAttentionTheta,
    grouped,
    normed,
)
from transalg.formal.norm import RMSnorm, RMSnorm_1p
from transalg.formal.positions import RotaryAttention, rotary_frequencies, rotate

exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=18, depth=2, size=10)}
seeds = st.integers(0, 2**16)
SHAPES = {"d_attn": 2, "d_mid": 5, "d_x": 7, "d_z": 11, "d_out": 13}
OMEGA = rotary_frequencies(4, 100.0)


def parts(W: object) -> dict[str, torch.Tensor]:
    return {part.name: getattr(W, part.name) for part in fields(W)}  # type: ignore[arg-type]


def random_groups(seed: int, H: int, H_kv: int) -> GroupedMHAttentionTheta:
    queries, shared = random_heads(seed, H=H, **SHAPES), random_heads(seed + 50, H=H_kv, **SHAPES)
    return GroupedMHAttentionTheta(**parts(queries) | {name: getattr(shared, name) for name in ("W_k", "b_k", "W_v", "b_v")})


def inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return normal(seed + 100, 7, 4), normal(seed + 101, 11, 3), bidirectional(3, 4)


# Shared keys and values ------------------------------------------------------------------------------------------------


@given(seeds)
def test_with_a_key_for_every_head_it_is_algorithm_5(seed: int) -> None:
    W = random_heads(seed, H=3, **SHAPES)
    assert_close(GroupedMHAttention(*_with(seed, GroupedMHAttentionTheta(**parts(W)))), MHAttention(*_with(seed, W)), **exactly)


def _with(seed: int, W: MHAttentionTheta) -> tuple[torch.Tensor, torch.Tensor, MHAttentionTheta, torch.Tensor]:
    X, Z, Mask = inputs(seed)
    return X, Z, W, Mask


@given(seeds, st.sampled_from([(6, 2), (6, 3), (6, 1), (3, 1)]))
def test_a_group_has_its_keys_and_values_repeated(seed: int, heads: tuple[int, int]) -> None:
    """Head h of H has keys and values ⌊h·H_kv/H⌋: the first H/H_kv heads the first, and so on."""
    H, H_kv = heads
    W = random_groups(seed, H, H_kv)
    shared = {name: getattr(W, name).repeat_interleave(H // H_kv, dim=0) for name in ("W_k", "b_k", "W_v", "b_v")}
    plain = MHAttentionTheta(**parts(W) | shared)
    assert_close(GroupedMHAttention(*_with(seed, W)), MHAttention(*_with(seed, plain)), **exactly)


def test_neighbouring_heads_are_a_group() -> None:
    W = random_groups(0, 6, 2)
    assert [W.group(h) for h in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [random_groups(0, 6, 3).group(h) for h in range(6)] == [0, 0, 1, 1, 2, 2]
    for h, head in enumerate(W.W_qkv):
        assert head.W_q.equal(W.W_q[h]) and head.b_q.equal(W.b_q[h])
        assert head.W_k.equal(W.W_k[h // 3]) and head.b_v.equal(W.b_v[h // 3])


def test_the_heads_stand_in_order() -> None:
    """W_o that reads head h alone gives what head h is."""
    W, (X, Z, Mask) = random_groups(0, 6, 2), inputs(0)
    for h in range(6):
        W_o = torch.zeros_like(W.W_o)
        W_o[:5, 5 * h : 5 * (h + 1)] = torch.eye(5)
        one = replace(W, W_o=W_o, b_o=0 * W.b_o)
        assert_close(GroupedMHAttention(X, Z, one, Mask)[:5], Attention(X, Z, W.W_qkv[h], Mask), **exactly)


def theta_h(seed: int = 0) -> DTheta:
    return fill(DTheta.init(N_V=11, ell_max=7, H=6, d_e=7, d_mlp=13, d_attn=5, d_mid=3, L=2), seed)


def test_grouping_keeps_the_first_of_each_group() -> None:
    theta = theta_h()
    for layer, before in zip(grouped(theta, 2).layers, theta.layers, strict=True):
        assert layer.W.W_k.equal(before.W.W_k[[0, 3]]) and layer.W.b_v.equal(before.W.b_v[[0, 3]])
        assert layer.W.W_q.equal(before.W.W_q) and layer.W.W_o.equal(before.W.W_o)
    assert grouped(theta, 2).sizes()["H_kv"] == 2
    x, by_groups = [1, 2, 3], partial(DTransformer, MHAttention=GroupedMHAttention)
    assert_close(by_groups(x, grouped(theta, 6)), DTransformer(x, theta), **exactly)
    assert not torch.allclose(by_groups(x, grouped(theta, 2)), DTransformer(x, theta))
    trained = DTraining([[9, 1, 2]], grouped(theta, 2), 1, 0.1, DTransformer=by_groups)
    assert not trained.layers[0].W.W_k.equal(grouped(theta, 2).layers[0].W.W_k)


def test_grouped_queries_turn_too() -> None:
    theta, x = theta_h(), [1, 2, 3, 4]
    turning = partial(RotaryAttention, omega=OMEGA)
    one = DTransformer(x, grouped(theta, 6), MHAttention=partial(GroupedMHAttention, Attention=turning))
    assert_close(one, DTransformer(x, theta, MHAttention=partial(MHAttention, Attention=turning)), **exactly)


# Norms of queries and keys ---------------------------------------------------------------------------------------------


def random_normed(seed: int) -> NormedAttentionTheta:
    W = random_attention(seed, d_attn=5, d_x=2, d_z=3, d_out=7)
    return NormedAttentionTheta(**parts(W), **{name: normal(seed + i, 5) for i, name in enumerate(NORMS, start=20)})


NORMS = ("gamma_q", "beta_q", "gamma_k", "beta_k")


@given(seeds, st.sampled_from([RMSnorm, RMSnorm_1p, layer_norm]))
def test_normalized_then_turned_then_compared(seed: int, norm: object) -> None:
    """γ_q is for queries and γ_k for keys; the rotation comes after the norm, which would undo it otherwise."""
    W, X, Z, Mask = random_normed(seed), normal(seed, 2, 4), normal(seed + 1, 3, 6), bidirectional(6, 4)
    Q, K, V = W.W_q @ X + W.b_q[:, None], W.W_k @ Z + W.b_k[:, None], W.W_v @ Z + W.b_v[:, None]
    for rotation in (lambda e, t: e, partial(rotate, omega=OMEGA)):
        q = [rotation(norm(Q[:, t], W.gamma_q, W.beta_q, 1e-3), t) for t in range(4)]
        k = [rotation(norm(K[:, t], W.gamma_k, W.beta_k, 1e-3), t) for t in range(6)]
        S = torch.stack(k) @ torch.stack(q, dim=1) / sqrt(5)
        ours = NormedAttention(X, Z, W, Mask, eps=1e-3, norm=norm, rotate=rotation)
        assert_close(ours, V @ torch.softmax(S, dim=0), **exactly)


@given(seeds)
def test_the_length_of_queries_and_keys_does_not_matter(seed: int) -> None:
    W, X = random_normed(seed), normal(seed, 2, 4)
    Z, Mask = normal(seed + 1, 3, 6), bidirectional(6, 4)
    longer = replace(W, W_q=3 * W.W_q, b_q=3 * W.b_q, W_k=7 * W.W_k, b_k=7 * W.b_k)
    assert_close(NormedAttention(X, Z, longer, Mask, eps=0), NormedAttention(X, Z, W, Mask, eps=0), **exactly)
    other = Attention(X, Z, random_attention(seed, d_attn=5, d_x=2, d_z=3, d_out=7), Mask)
    assert not torch.allclose(NormedAttention(X, Z, W, Mask, eps=0), other)


def test_by_hand() -> None:
    """q = (3, 4) and keys (0, 2), (5, 0) have the lengths √2 after the norm: their products, divided by √2, are the scores."""
    one, zero = torch.ones(2).double(), torch.zeros(2).double()
    W = NormedAttentionTheta(
        W_q=torch.tensor([[3.0], [4.0]]).double(), b_q=zero, W_k=torch.tensor([[0.0, 5.0], [2.0, 0.0]]).double(), b_k=zero,
        W_v=torch.eye(2).double(), b_v=zero, gamma_q=one, beta_q=zero, gamma_k=one, beta_k=zero,
    )  # fmt: skip
    weights = NormedAttention(torch.ones(1, 1).double(), torch.eye(2).double(), W, bidirectional(2, 1), eps=0)[:, 0]
    # the normalized q is √2 (0.6, 0.8), the keys √2 (0, 1) and √2 (1, 0): products 1.6 and 1.2, divided by √2
    expected = torch.softmax(torch.tensor([1.6, 1.2], dtype=torch.float64) / sqrt(2), dim=0)
    assert_close(weights, expected, **exactly)


def test_all_heads_of_a_layer_share_two_norms() -> None:
    theta = normed(grouped(theta_h(), 2))
    W = theta.layers[0].W
    assert isinstance(W, NormedMHAttentionTheta) and W.W_k.shape == (2, 5, 7)
    assert W.gamma_q.equal(torch.ones(5).double()) and not W.beta_k.any()
    W = fill(W, 3)
    for head in W.W_qkv:
        assert all(getattr(head, name) is getattr(W, name) for name in NORMS)
    assert normed(theta_h()).layers[0].W.W_k.shape == (6, 5, 7), "a θ without groups has a key for every head"


def test_a_decoder_trains_the_norms() -> None:
    theta = normed(grouped(theta_h(), 2))
    transformer = partial(DTransformer, MHAttention=partial(GroupedMHAttention, Attention=NormedAttention))
    trained = DTraining([[9, 1, 2, 3]], theta, 1, 0.1, DTransformer=transformer)
    for layer, before in zip(trained.layers, theta.layers, strict=True):
        assert not layer.W.gamma_q.equal(before.W.gamma_q) and not layer.W.gamma_k.equal(before.W.gamma_k)
        assert layer.W.beta_q.equal(before.W.beta_q), "RMSnorm has no β"


# What is refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("H_kv", [0, 4, -1, True, 12])
def test_groups_that_do_not_divide_the_heads(H_kv: object) -> None:
    with pytest.raises(ValueError, match=f"H_kv: expected a divisor of H = 6, got {H_kv}"):
        grouped(theta_h(), H_kv)  # type: ignore[arg-type]


def test_what_the_heads_cannot_take() -> None:
    X, Z, Mask = inputs(0)
    W = random_groups(0, 6, 2)
    with pytest.raises(ValueError, match="theta: expected H_kv to divide H = 6, got 4"):
        random_groups(0, 6, 4)
    with pytest.raises(ValueError, match="W: expected a GroupedMHAttentionTheta, got MHAttentionTheta"):
        GroupedMHAttention(X, Z, random_heads(0, H=6, **SHAPES), Mask)
    with pytest.raises(ValueError, match="W_qkv: expected a NormedAttentionTheta, got AttentionTheta"):
        GroupedMHAttention(X, Z, W, Mask, Attention=NormedAttention)
    with pytest.raises(ValueError, match="W_qkv: expected a AttentionTheta, got NormedAttentionTheta"):
        DTransformer([1, 2], normed(theta_d()), MHAttention=GroupedMHAttention)
    with pytest.raises(ValueError, match=r"W: expected finite numbers in W\.W_k, got NaN"):
        GroupedMHAttention(X, Z, replace(W, W_k=W.W_k * torch.nan), Mask)
    Y, square = normal(0, 2, 4), replace(random_normed(0), W_k=normal(0, 5, 2), W_v=normal(1, 7, 2))
    with pytest.raises(ValueError, match="Mask: expected a row for every key"):
        NormedAttention(Y, Y, square, unidirectional(4).T)
