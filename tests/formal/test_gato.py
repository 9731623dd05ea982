"""Gato is Algorithm 10 with another line 2: its laws."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import fill, rng
from transalg.formal import DTheta, DTransformer
from transalg.formal import gato as gato_file
from transalg.formal.gato import Gato, GatoEmbedding, GatoTheta, Index, RandomIndex, at_random, gato_embed
from transalg.formal.modality import KINDS, Patch, Token, loss_weight
from transalg.formal.resnet import ResNet
from transalg.formal.systems import GPT
from transalg.hyper import modalities

SIZES = {"N_V": 23, "ell_max": 13, "L": 2, "H": 2, "d_e": 6, "d_mlp": 11, "d_attn": 5, "d_mid": 3}
SIZES |= {"N_loc": 17, "N_grid": 19, "C": 2, "C_r": 4, "k_0": 10, "k": 3, "d_Z": 16}
gato = partial(Gato, G=2)


def theta_g(seed: int = 0) -> GatoTheta:
    return fill(GatoTheta.init(**SIZES), seed)


def patch(seed: int = 0, rows: tuple[float, float] = (0.0, 0.25), columns: tuple[float, float] = (0.5, 1.0)) -> Patch:
    return Patch(2 * torch.rand(2, 16, 16, generator=rng(seed), dtype=torch.float64) - 1, rows, columns)


def sequence() -> list[Token]:
    """Every kind: text, patches, values, a separator, an action."""
    return [
        *(Token("text", 3, 0), Token("img", p=1, patch=patch(1)), Token("img", p=2, patch=patch(2, (0.25, 0.5), (0.0, 0.5)))),
        *(Token("obs", 11, 3), Token("obs", 7, 4), Token("sep", 22), Token("act", 5), Token("act", 6)),
    ]


def test_the_kinds_are_those_of_tokenization() -> None:
    assert KINDS == modalities.KINDS
    assert [modalities.KINDS[i] for i in (modalities.TEXT, modalities.OBS, modalities.IMG, modalities.SEP, modalities.ACT)] == list(KINDS)


def test_with_text_alone_it_is_algorithm_10() -> None:
    """κ ≡ text, p = t, W_loc the W_p of Algorithm 10, and no W_p beside it."""
    theta = theta_g()
    paper = DTheta.from_named({name: part for name, part in theta.named().items() if name in DTheta.init(**_paper()).named()})
    paper = replace(paper, W_p=theta.W_loc[:, :13])
    x = [4, 1, 22, 0, 7]
    s = [Token("text", v, t) for t, v in enumerate(x)]
    assert_close(gato(s, replace(theta, W_p=torch.zeros_like(theta.W_p))), DTransformer(x, paper), rtol=0, atol=1e-14)


def _paper() -> dict[str, int]:
    return {name: size for name, size in SIZES.items() if name in DTheta.symbols()}


def test_as_a_component_it_is_the_same() -> None:
    theta, s = theta_g(), sequence()
    assert_close(gato(s, theta), GPT(s, theta, embed=partial(gato_embed, G=2)), rtol=0, atol=1e-14)
    assert not torch.allclose(gato(s, theta), gato(s, replace(theta, W_p=0 * theta.W_p)))


@pytest.mark.parametrize("t", range(8))
def test_a_token_changes_no_earlier_column_of_P_and_its_own(t: int) -> None:
    theta, s = theta_g(), sequence()
    other = [*s]
    other[t] = replace(s[t], patch=patch(9)) if s[t].patch else replace(s[t], x=s[t].x - 1)
    P, Q = gato(s, theta), gato(other, theta)
    assert P[:, :t].equal(Q[:, :t]) and not torch.allclose(P[:, t], Q[:, t])


def test_every_kind_has_its_vectors() -> None:
    """Lines 1–5, kind by kind."""
    theta = theta_g()
    theta_e = theta.theta_e
    vector = partial(GatoEmbedding, theta_e=theta_e, G=2)
    W_e, W_loc = theta.W_e, theta.W_loc
    assert_close(vector(Token("text", 3, 4)), W_e[:, 3] + W_loc[:, 4])
    assert_close(vector(Token("obs", 3, 4)), W_e[:, 3] + W_loc[:, 4])
    assert_close(vector(Token("sep", 22, 4)), W_e[:, 22])
    assert_close(vector(Token("act", 5, 4)), W_e[:, 5] + theta.w_a)
    seen = patch(1, (0.0, 0.25), (0.5, 1.0))
    pixels = ResNet(seen.A / 4, theta.W_res, 2)  # √16
    assert_close(vector(Token("img", p=2, patch=seen)), pixels + theta.W_row[:, 2] + theta.W_col[:, 14] + W_loc[:, 2])


def test_pixels_of_any_precision_are_taken() -> None:
    theta, s = theta_g(), sequence()
    low = [each if each.patch is None else replace(each, patch=replace(each.patch, A=each.patch.A.float())) for each in s]
    assert_close(gato(low, theta), gato(s, theta), rtol=0, atol=1e-6)


# Where a patch stands --------------------------------------------------------------------------------------------------

ends = st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda two: two[0] != two[1]).map(sorted)


@given(ends=ends, N=st.integers(1, 200), seed=st.integers(0, 9))
@example(ends=[0.0, 1.0], N=128, seed=0)
@example(ends=[0.999999, 1.0], N=128, seed=0)
def test_an_index_is_in_its_interval(ends: list[float], N: int, seed: int) -> None:
    """In [N], and no farther from the interval than the part that its ends are in; in use always the same, the middle one."""
    a, b = ends
    for i in (Index(a, b, N), RandomIndex(a, b, N, rng(seed))):
        assert 0 <= i < N and i + 1 >= N * a and (i <= N * b)
    assert Index(a, b, N) == Index(a, b, N)


def test_published_places() -> None:
    """An image of 80×64 pixels has 5×4 patches: the index is the rounded mean of the parts that a patch covers."""
    assert [Index(i / 4, (i + 1) / 4, 128) for i in range(4)] == [16, 48, 80, 112]
    assert [Index(i / 5, (i + 1) / 5, 128) for i in range(5)] == [13, 38, 64, 89, 115]
    assert Index(0.5, 0.5 + 1e-9, 128) == 64 and Index(0, 1, 1) == 0


def test_in_training_every_part_of_the_interval_comes_up() -> None:
    generator = rng(0)
    assert {RandomIndex(0.25, 0.5, 16, generator) for _ in range(99)} == {4, 5, 6, 7}


@given(seed=st.integers(0, 99))
def test_a_drawn_place_is_the_index_of_use(seed: int) -> None:
    (one,) = at_random([Token("img", patch=patch())], 19, rng(seed))
    assert one.patch is not None
    generator = rng(seed)
    drawn = [RandomIndex(*each, 19, generator) for each in (patch().rows, patch().columns)]
    assert [Index(*one.patch.rows, 19), Index(*one.patch.columns, 19)] == drawn


# What is refused -------------------------------------------------------------------------------------------------------


def token(kind: str = "text", **parts: Any) -> Token:
    return Token(kind, **parts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (token("video"), r"s\[1\]: expected a Token of one of the kinds text, obs, img, sep, act, got κ = 'video'"),
        (token(x=23), r"s\[1\]: expected a token ID in V = .* N_V = 23, got 23"),
        (token(x=-1), "expected a token ID"),
        (token(p=17), r"an index p in \{0, …, N_loc−1\} with N_loc = 17, got 17"),
        (token("img"), "a patch where κ = img and nowhere else, got κ = img"),
        (token(patch=patch()), "a patch where κ = img and nowhere else, got κ = text"),
        (token("img", patch=patch(), m=2.5), "m = 0 for a patch, which has no token ID to predict, got m = 2.5"),
        (token(m=-1.0), r"a weight m in \[0, ∞\), got -1"),
        (token(m=float("inf")), r"a weight m in \[0, ∞\), got inf"),
        (token("img", patch=patch(rows=(0.5, 0.5))), r"rows: expected an interval \[a, b\] with 0 ≤ a < b ≤ 1, got \[0.5, 0.5\]"),
        (token("img", patch=patch(columns=(0.5, 1.5))), r"columns: expected an interval"),
        (token("img", patch=replace(patch(), A=patch().A[:, :15, :15])), r"a patch A ∈ \[−1,1\]\^\{2×16×16\}, got 2×15×15"),
        (token("img", patch=replace(patch(), A=patch().A * float("nan"))), r"pixels in \[−1, 1\], got NaN"),
        (token("img", patch=replace(patch(), A=patch().A * 255)), r"pixels in \[−1, 1\], got 2"),
        (5, "expected a Token of one of the kinds .* got int"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_token_that_cannot_be_embedded_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gato([token(), wrong], theta_g())


def test_sequences_that_are_refused() -> None:
    with pytest.raises(ValueError, match="s: expected at most ℓ_max = 13 tokens, got ℓ = 14"):
        gato([token()] * 14, theta_g())
    with pytest.raises(ValueError, match="s: expected at least 1 token, got an empty sequence"):
        gato([], theta_g())
    with pytest.raises(ValueError, match="G: expected a divisor of C_r = 4, got 3"):
        Gato([token()], theta_g(), G=3)
    with pytest.raises(ValueError, match="b: expected a number in"):
        Index(0.5, 0.25, 128)
    with pytest.raises(ValueError, match=r"a: expected a number in \[0, 1\)"):
        Index(1.0, 1.0, 128)
    with pytest.raises(ValueError, match="theta: expected a DTheta, got GatoTheta"):
        DTransformer([1, 2], theta_g())


def test_what_the_loss_looks_at() -> None:
    assert [loss_weight(each) for each in sequence()] == [1, 0, 0, 0, 0, 0, 1, 1]
    assert loss_weight(token(m=0.0)) == 0 and loss_weight(token("obs", m=2.5)) == 2.5
    assert gato_file.LOCAL == ("text", "obs", "img")
