"""Each algorithm is the next one in a special case: 3 ⊂ 4 ⊂ 5, and 1, 2, 7 stand in the architectures' lines."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import normal, random_attention, random_heads, rng, sizes, thetas
from tests.tolerance import tolerance
from transalg.formal import (
    Attention,
    DTheta,
    DTransformer,
    MHAttention,
    MHAttentionTheta,
    bidirectional,
    layer_norm,
    positional_embedding,
    single_query_attention,
    token_embedding,
    unembedding,
    unidirectional,
)

exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=4 * 19, size=100)}  # H · d_mid; weights of size 1 make large values


@given(sizes("d_x", "d_z", "d_attn", "d_out", "ell_z"), st.integers(0, 999))
def test_attention_of_one_query_is_algorithm_3(d: dict[str, int], seed: int) -> None:
    ell_z = d.pop("ell_z")
    W_qkv, e, Z = random_attention(seed, **d), normal(seed + 10, d["d_x"]), normal(seed + 11, d["d_z"], ell_z)
    assert_close(
        Attention(e[:, None], Z, W_qkv, bidirectional(ell_z, 1))[:, 0],
        single_query_attention(e, Z, W_qkv),
        **exactly,
    )


@given(sizes("d_x", "d_z", "d_attn", "d_out", "ell_z", "ell_x"), st.integers(0, 999))
def test_attention_treats_each_query_on_its_own(d: dict[str, int], seed: int) -> None:
    """Column t_x of Ṽ is Algorithm 3 over the keys its Mask column allows."""
    ell_z, ell_x = d.pop("ell_z"), d.pop("ell_x")
    W_qkv, X, Z = (
        random_attention(seed, **d),
        normal(seed + 10, d["d_x"], ell_x),
        normal(seed + 11, d["d_z"], ell_z),
    )
    Mask = torch.rand(ell_z, ell_x, generator=rng(seed)) < 0.5
    Mask[0] = True
    expected = torch.stack([single_query_attention(X[:, t], Z[:, Mask[:, t]], W_qkv) for t in range(ell_x)], dim=1)
    assert_close(Attention(X, Z, W_qkv, Mask), expected, **exactly)


@given(sizes("d_x", "d_z", "d_attn", "d_mid", "ell_z", "ell_x"), st.integers(0, 999))
def test_one_head_with_identity_output_is_algorithm_4(d: dict[str, int], seed: int) -> None:
    ell_z, ell_x = d.pop("ell_z"), d.pop("ell_x")
    head = random_attention(seed, d_out=d["d_mid"], d_attn=d["d_attn"], d_x=d["d_x"], d_z=d["d_z"])
    parts = [part[None] for part in (head.W_q, head.b_q, head.W_k, head.b_k, head.W_v, head.b_v)]
    W = MHAttentionTheta(*parts, torch.eye(d["d_mid"], dtype=torch.float64), torch.zeros(d["d_mid"], dtype=torch.float64))
    X, Z, Mask = (
        normal(seed + 10, d["d_x"], ell_x),
        normal(seed + 11, d["d_z"], ell_z),
        bidirectional(ell_z, ell_x),
    )
    assert_close(MHAttention(X, Z, W, Mask), Attention(X, Z, head, Mask), **exactly)


@given(
    sizes("d_x", "d_z", "d_attn", "d_mid", "d_out", "ell_z", "ell_x", H=st.integers(2, 4)),
    st.integers(0, 999),
)
def test_heads_add_up(d: dict[str, int], seed: int) -> None:
    """Ṽ = Σ_h W_o[:, h-th block] Y^h + b_o: each head has its own block of W_o, in order."""
    ell_z, ell_x = d.pop("ell_z"), d.pop("ell_x")
    W = random_heads(seed, **d)
    X, Z, Mask = (
        normal(seed + 20, d["d_x"], ell_x),
        normal(seed + 21, d["d_z"], ell_z),
        bidirectional(ell_z, ell_x),
    )
    blocks = W.W_o.split(d["d_mid"], dim=1)
    expected = sum(block @ Attention(X, Z, head, Mask) for block, head in zip(blocks, W.W_qkv, strict=True)) + W.b_o[:, None]
    assert_close(MHAttention(X, Z, W, Mask), expected, **exactly)


@given(thetas(DTheta), st.data())
def test_a_transformer_without_layers_is_algorithms_1_2_6_and_7(theta: DTheta, data: st.DataObject) -> None:
    from dataclasses import replace

    theta = replace(theta, layers=())
    x = data.draw(st.lists(st.integers(0, theta.N_V - 1), min_size=1, max_size=theta.ell_max))
    for t, v in enumerate(x):
        e = token_embedding(v, theta.W_e) + positional_embedding(t, theta.W_p)
        assert_close(
            DTransformer(x, theta)[:, t],
            unembedding(layer_norm(e, theta.gamma, theta.beta), theta.W_u),
            **exactly,
        )


def test_unidirectional_has_a_row_for_every_key() -> None:
    assert unidirectional(3).tolist() == [[True, True, True], [False, True, True], [False, False, True]]
