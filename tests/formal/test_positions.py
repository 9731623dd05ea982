"""Positions, each scheme against its definition."""

from dataclasses import replace
from functools import partial
from math import cos, inf, pi, sin, sqrt

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import D, fill, normal, random_attention, rng, theta_d
from tests.tolerance import tolerance
from transalg.formal import (
    Attention,
    DTheta,
    DTraining,
    DTransformer,
    EDTheta,
    EDTransformer,
    MHAttention,
    bidirectional,
)
from transalg.formal.mask import banded
from transalg.formal.norm import RMSnorm
from transalg.formal.positions import (
    RelativeAttention,
    RotaryAttention,
    linear_scaling,
    llama3_scaling,
    paper_sinusoids,
    relative,
    relative_sinusoids,
    rotary_frequencies,
    rotate,
    sinusoids,
    split_sinusoids,
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


def test_marians_sinusoids_have_all_sines_before_all_cosines() -> None:
    W_p = split_sinusoids(6, 5)
    for pos in range(5):
        for i in range(3):
            assert W_p[i, pos] == pytest.approx(sin(pos / 10000 ** (2 * i / 6)), abs=SINE)
            assert W_p[3 + i, pos] == pytest.approx(cos(pos / 10000 ** (2 * i / 6)), abs=SINE)


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


# Rotary ----------------------------------------------------------------------------------------------------------------

steps = st.integers(0, 11)
OMEGA = rotary_frequencies(4, 100.0)  # two pairs of a vector of 5


def test_rotary_frequencies_by_hand() -> None:
    assert rotary_frequencies(6, 8.0).tolist() == pytest.approx([1, 1 / 2, 1 / 4])
    assert rotary_frequencies(4).tolist() == pytest.approx([1, 1 / 100])


def test_a_rotation_by_hand() -> None:
    """(1, 3) turns by 90°, (2, 4) by 60°, and 5 stands still."""
    turned = rotate(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).double(), 1, torch.tensor([pi / 2, pi / 3], dtype=torch.float64))
    assert turned.tolist() == pytest.approx([-3, 1 - 2 * sqrt(3), 1, sqrt(3) + 2, 5], abs=SINE)
    twice = rotate(torch.tensor([1.0, 0.0]).double(), 2, torch.tensor([pi / 2], dtype=torch.float64))
    assert twice.tolist() == pytest.approx([-1, 0], abs=SINE)


@given(seeds, steps)
def test_a_rotation_keeps_lengths_and_starts_with_none(seed: int, t: int) -> None:
    e = normal(seed, 5)
    assert rotate(e, 0, OMEGA).equal(e), "the first token does not turn"
    assert_close(rotate(e, t, OMEGA).norm(), e.norm(), **exactly)
    assert rotate(e, t, OMEGA)[4] == e[4]


@given(seeds, steps, steps)
def test_rotations_add_up(seed: int, t: int, u: int) -> None:
    e = normal(seed, 5)
    assert_close(rotate(rotate(e, t, OMEGA), u, OMEGA), rotate(e, t + u, OMEGA), **exactly)


@given(seeds, steps, steps, steps)
def test_a_score_depends_on_the_distance_alone(seed: int, t: int, u: int, s: int) -> None:
    q, k = normal(seed, 5), normal(seed + 1, 5)
    shifted = rotate(q, t + s, OMEGA) @ rotate(k, u + s, OMEGA)
    assert_close(shifted, rotate(q, t, OMEGA) @ rotate(k, u, OMEGA), **exactly)


def test_neighbours_as_pairs_are_the_same_rows_in_another_order() -> None:
    """Meta's implementation turns e[2i−1] with e[2i], as complex numbers: ours, its rows permuted."""
    e, t, omega = normal(0, 6), 3, rotary_frequencies(6, 100.0)
    order = torch.tensor([0, 3, 1, 4, 2, 5])
    neighbours = torch.view_as_complex(e[order].view(3, 2)) * torch.polar(torch.ones(3).double(), t * omega)
    assert_close(torch.view_as_real(neighbours).flatten(), rotate(e, t, omega)[order], **exactly)


@given(seeds)
def test_rotary_attention_is_attention_of_turned_queries_and_keys(seed: int) -> None:
    """With X and Z of different lengths; both are counted from their first tokens."""
    W = random_attention(seed, d_attn=5, d_x=2, d_z=3, d_out=7)
    X, Z, Mask = normal(seed, 2, 4), normal(seed + 1, 3, 6), torch.rand(6, 4, generator=rng(seed)) < 0.7
    Q, K = W.W_q @ X + W.b_q[:, None], W.W_k @ Z + W.b_k[:, None]
    V = W.W_v @ Z + W.b_v[:, None]
    for t in range(4):
        scores = [float(rotate(K[:, u], u, OMEGA) @ rotate(Q[:, t], t, OMEGA)) / sqrt(5) if Mask[u, t] else -inf for u in range(6)]
        if max(scores) == -inf:
            continue
        expected = V @ torch.softmax(torch.tensor(scores, dtype=torch.float64), dim=0)
        assert_close(RotaryAttention(X, Z, W, Mask, omega=OMEGA)[:, t], expected, **exactly)


@given(seeds)
def test_without_turning_it_is_attention(seed: int) -> None:
    W = random_attention(seed, d_attn=5, d_x=2, d_z=3, d_out=7)
    X, Z, Mask = normal(seed, 2, 4), normal(seed + 1, 3, 6), bidirectional(6, 4)
    assert_close(RotaryAttention(X, Z, W, Mask, omega=0 * OMEGA), Attention(X, Z, W, Mask), **exactly)
    assert not torch.allclose(RotaryAttention(X, Z, W, Mask, omega=OMEGA), Attention(X, Z, W, Mask))


@given(seeds, st.integers(1, 3))
def test_rotary_attention_sees_distances_only(seed: int, shift: int) -> None:
    """Dropping the first tokens of a band-masked sequence changes nothing for those whose band does not reach them."""
    theta = without_positions(theta_d(seed, L=1))
    turning = partial(MHAttention, Attention=partial(RotaryAttention, omega=OMEGA))
    llama = partial(DTransformer, MHAttention=turning, Mask=lambda ell, l: banded(ell, 2))
    x = torch.randint(0, 11, (7,), generator=rng(seed))
    assert_close(llama(x[shift:], theta)[:, 1:], llama(x, theta)[:, shift + 1 :], **exactly)


@given(seeds, st.integers(1, 5), steps)
def test_scaled_linearly_a_later_position_is_an_earlier_one(seed: int, s: int, t: int) -> None:
    e = normal(seed, 5)
    assert_close(rotate(e, s * t, linear_scaling(OMEGA, float(s))), rotate(e, t, OMEGA), **exactly)


def test_llama_3_scales_slow_pairs_by_hand() -> None:
    """In ℓ = 16π tokens a pair turns n = 8ω times: 8, 4, 2, 1 and ½. Fast from 4 on, slow up to 1; at n = 2, s = ⅓."""
    omega = torch.tensor([1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]).double()
    scaled = llama3_scaling(omega, 8.0, 1.0, 4.0, 16 * pi)
    assert scaled.tolist() == pytest.approx([1, 1 / 2, 2 / 3 * 1 / 32 + 1 / 3 * 1 / 4, 1 / 64, 1 / 128])


def published(omega: float, factor: float, low: float, high: float, ell: float) -> float:
    """As Meta states it, by wavelengths."""
    wavelength = 2 * pi / omega
    if wavelength < ell / high:
        return omega
    if wavelength > ell / low:
        return omega / factor
    smooth = (ell / wavelength - low) / (high - low)
    return (1 - smooth) * omega / factor + smooth * omega


@pytest.mark.parametrize("numbers", [(8.0, 1.0, 4.0, 8192.0), (32.0, 1.0, 4.0, 8192.0), (3.0, 0.5, 2.0, 7.0)])
def test_llama_3_scales_as_published(numbers: tuple[float, float, float, float]) -> None:
    omega = rotary_frequencies(64, 500_000.0)
    scaled = llama3_scaling(omega, *numbers)
    assert scaled.tolist() == pytest.approx([published(float(one), *numbers) for one in omega], rel=1e-12)
    assert (scaled[0] == omega[0]) == (numbers[3] > 2 * pi * numbers[2]) and scaled[-1] == pytest.approx(float(omega[-1]) / numbers[0])


def test_llama_3_scaling_has_no_jumps() -> None:
    """Over a fine grid of frequencies, slow to fast, neighbours get neighbours, and none more than it had."""
    omega = torch.linspace(0.001, 1, 20_011, dtype=torch.float64)
    scaled = llama3_scaling(omega, 8.0, 1.0, 4.0, 16 * pi)
    assert scaled.diff().min() > 0 and scaled.diff().max() < 4 * omega.diff().max()
    assert (scaled <= omega).all()
