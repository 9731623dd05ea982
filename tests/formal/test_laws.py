"""Laws that hold for every θ and every sequence."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.strategies import fill, normal, random_attention, rng, sequences, sizes, thetas
from tests.tolerance import tolerance
from transalg.formal import (
    Attention,
    DInference,
    DTheta,
    DTransformer,
    EDInference,
    EDTheta,
    EDTransformer,
    ETheta,
    ETransformer,
    MHAttention,
    bidirectional,
    layer_norm,
)
from transalg.formal.notation import GELU, ReLU, sample, softmax, tempered

exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=23, depth=4, size=10)}  # norms of few numbers enlarge errors
seeds = st.integers(0, 2**16)


def assert_distributions(P: Tensor) -> None:
    assert (P >= 0).all() and (P <= 1).all()
    assert_close(P.sum(dim=0), torch.ones(P.shape[1], dtype=P.dtype), **exactly)


# Columns are distributions ---------------------------------------------------------------------------------------------


@given(st.data())
def test_columns_of_P_are_distributions_over_V(data: st.DataObject) -> None:
    for kind, transformer in ((DTheta, DTransformer), (ETheta, ETransformer), (EDTheta, EDTransformer)):
        theta = data.draw(thetas(kind))
        inputs = [data.draw(sequences(theta)) for _ in range(2 if kind is EDTheta else 1)]
        P = transformer(*inputs, theta)
        assert P.shape == (theta.N_V, len(inputs[-1]))
        assert_distributions(P)


# Causality -------------------------------------------------------------------------------------------------------------


@given(thetas(DTheta), st.data())
def test_changing_x_after_t_leaves_P_up_to_t_unchanged(theta: DTheta, data: st.DataObject) -> None:
    x = data.draw(sequences(theta, least=2))
    t = data.draw(st.integers(1, len(x)))
    other = [*x[:t], *((v + 1) % theta.N_V for v in x[t:])]
    assert_close(DTransformer(x, theta)[:, :t], DTransformer(other, theta)[:, :t], **exactly)
    assert_close(DTransformer(x[:t], theta), DTransformer(x, theta)[:, :t], **exactly)


@given(thetas(EDTheta), st.data())
def test_the_decoder_is_causal_in_x_and_sees_all_of_z(theta: EDTheta, data: st.DataObject) -> None:
    assume(len(theta.W_e) > 2)  # a layer norm of two numbers keeps little but their order
    z, x = data.draw(sequences(theta, least=2)), data.draw(sequences(theta, least=2))
    t = data.draw(st.integers(1, len(x)))
    assert_close(EDTransformer(z, x[:t], theta), EDTransformer(z, x, theta)[:, :t], **exactly)
    for i in range(len(z)):
        changed = [*z[:i], (z[i] + 1) % theta.N_V, *z[i + 1 :]]
        assert not torch.allclose(EDTransformer(changed, x, theta)[:, 0], EDTransformer(z, x, theta)[:, 0], **exactly)


def dependence(transformer: object, theta: object, tokens: Tensor) -> Tensor:
    """dependence[s, t]: does column t of log P move with the embedding of the s-th token? Its gradient says so, exactly."""

    def moved(W_e: Tensor) -> Tensor:
        return transformer(theta=replace(theta, W_e=W_e)).log()  # type: ignore[operator]

    J = torch.func.jacrev(moved)(theta.W_e)  # N_V × ℓ × d_e × N_V
    return (J[:, :, :, tokens] != 0).any(dim=2).any(dim=0).T


@given(seeds)
def test_causality_by_gradient(seed: int) -> None:
    """∂P[:,t]/∂(embedding of token s) is exactly 0 for s > t, and not for s ≤ t; without a mask it never is."""
    ell = 5
    x, z = torch.randperm(13, generator=rng(seed))[:9].split([ell, 4])  # every token once
    common = {"N_V": 13, "ell_max": 7, "H": 2, "d_e": 3, "d_mlp": 11, "d_attn": 19, "d_mid": 17}
    theta = fill(DTheta.init(**common, L=2), seed)
    causal = torch.ones(ell, ell, dtype=torch.bool).triu()
    assert dependence(partial(DTransformer, x), theta, x).equal(causal)
    theta = fill(ETheta.init(**common, L=2, d_f=23), seed)
    assert dependence(partial(ETransformer, x), theta, x).all()
    theta = fill(EDTheta.init(**common, L_enc=1, L_dec=2), seed)
    assert dependence(partial(EDTransformer, z, x), theta, x).equal(causal)
    assert dependence(partial(EDTransformer, z, x), theta, z).all()


@given(sizes("d_x", "d_attn", "d_out"), seeds)
def test_a_masked_key_has_no_influence(d: dict[str, int], seed: int) -> None:
    """∂Ṽ[:,t_x]/∂Z[:,t_z] is exactly 0 wherever Mask[t_z,t_x] is."""
    Mask = torch.rand(5, 3, generator=rng(seed)) < 0.6
    W_qkv = random_attention(seed, d_z=7, **d)
    X, Z = normal(seed, d["d_x"], 3), normal(seed + 1, 7, 5)
    J = torch.func.jacrev(lambda Z: Attention(X, Z, W_qkv, Mask))(Z)  # d_out × ℓ_x × d_z × ℓ_z
    assert (J != 0).any(dim=2).any(dim=0).T.equal(Mask)


# Symmetry --------------------------------------------------------------------------------------------------------------


@given(thetas(ETheta), st.data())
def test_without_positions_an_encoder_is_permutation_equivariant(theta: ETheta, data: st.DataObject) -> None:
    theta = replace(theta, W_p=torch.zeros_like(theta.W_p))
    x = data.draw(sequences(theta, least=2))
    order = data.draw(st.permutations(range(len(x))))
    assert_close(ETransformer([x[i] for i in order], theta), ETransformer(x, theta)[:, list(order)], **exactly)


@given(thetas(EDTheta), st.data())
def test_without_positions_a_decoder_does_not_see_the_order_of_its_context(theta: EDTheta, data: st.DataObject) -> None:
    theta = replace(theta, W_p=torch.zeros_like(theta.W_p))
    z, x = data.draw(sequences(theta, least=2)), data.draw(sequences(theta))
    assert_close(EDTransformer(data.draw(st.permutations(z)), x, theta), EDTransformer(z, x, theta), **exactly)


@given(seeds)
def test_positions_break_the_symmetry(seed: int) -> None:
    theta = fill(ETheta.init(N_V=11, ell_max=7, L=2, H=2, d_e=5, d_mlp=13, d_f=17, d_attn=3, d_mid=19), seed)
    assert not torch.allclose(ETransformer([0, 1], theta)[:, [1, 0]], ETransformer([1, 0], theta), **exactly)


@given(seeds, st.floats(-50, 50))
def test_softmax_is_invariant_to_a_shift_of_a_column(seed: int, shift: float) -> None:
    A = normal(seed, 5, 3)
    shifted = A + torch.tensor([shift, 0, -shift], dtype=torch.float64)
    assert_close(softmax(shifted), softmax(A), **exactly)
    assert_distributions(softmax(A))


@given(seeds)
def test_a_bias_of_the_keys_moves_nothing(seed: int) -> None:
    """b_k shifts every score of a query alike, so softmax takes it away."""
    W_qkv = random_attention(seed, d_attn=5, d_x=3, d_z=7, d_out=2)
    X, Z, Mask = normal(seed, 3, 11), normal(seed + 1, 7, 13), bidirectional(13, 11)
    assert_close(Attention(X, Z, replace(W_qkv, b_k=0.0 * W_qkv.b_k), Mask), Attention(X, Z, W_qkv, Mask), **exactly)


def test_batching_from_outside() -> None:
    """The algorithms treat one sequence; torch.func.vmap makes many of it."""
    theta = fill(DTheta.init(N_V=11, ell_max=7, L=2, H=2, d_e=3, d_mlp=13, d_attn=5, d_mid=2), 0)
    x = torch.randint(0, 11, (5, 7), generator=rng(0))
    assert_close(
        torch.func.vmap(DTransformer, in_dims=(0, None))(x, theta),
        torch.stack([DTransformer(row, theta) for row in x]),
        **exactly,
    )


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-2), (torch.float16, 1e-2)])
def test_any_dtype_goes_in_and_comes_out(dtype: torch.dtype, bound: float) -> None:
    theta = DTheta.init(N_V=11, ell_max=7, L=2, H=2, d_e=6, d_mlp=13, generator=rng(0))
    P = DTransformer([9, 1, 2, 3], theta.to(dtype))
    assert P.dtype == dtype
    assert_close(P.double(), DTransformer([9, 1, 2, 3], theta.to(dtype).to(torch.float64)), rtol=0, atol=bound)
    assert DInference([9, 1], theta.to(dtype), 3, 1.0, rng(0)).shape == (3,)


def test_any_device_goes_in_and_comes_out() -> None:
    """Shown on the meta device, which has shapes and no values: nothing an architecture does depends on a value, and tokens may be anywhere."""
    common = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}
    for P in (
        DTransformer([1, 2, 3], DTheta.init(**common, L=2).to("meta")),
        ETransformer(torch.tensor([1, 2, 3]), ETheta.init(**common, L=2, d_f=5).to("meta")),
        EDTransformer([1, 2], [1, 2, 3], EDTheta.init(**common, L_enc=1, L_dec=2, device="meta")),
    ):
        assert P.device.type == "meta" and P.shape == (11, 3)


# Components by keyword -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transformer", "kind", "inputs", "norms", "attentions", "mlp"),
    [(EDTransformer, EDTheta, ([1, 2, 3], [4, 5]), 2 * 2 * 3 + 2 * 3 * 2, 2 + 2 * 2, ("ReLU", 4)), (ETransformer, ETheta, ([1, 2, 3],), 2 * 2 * 3 + 3, 2, ("GELU", 3)), (DTransformer, DTheta, ([1, 2, 3],), 2 * 2 * 3 + 3, 2, ("GELU", 2))],
    ids=["EDTransformer", "ETransformer", "DTransformer"],
)  # fmt: skip
def test_every_component_is_the_one_given(
    transformer: Callable[..., Tensor], kind: type, inputs: tuple, norms: int, attentions: int, mlp: tuple[str, int]
) -> None:
    """As many calls as the paper's lines make: a norm for each column, an attention for each layer, or two in a decoder's, …"""
    activation, activations = mlp
    calls = Counter()

    def counting(name: str) -> Callable[..., Tensor]:
        def counted(*args: object) -> Tensor:
            calls[name] += 1
            return {"layer_norm": layer_norm, "MHAttention": MHAttention, "ReLU": ReLU, "GELU": GELU}[name](*args)

        return counted

    depth = {"L_enc": 2, "L_dec": 2} if kind is EDTheta else {"L": 2}
    theta = kind.init(N_V=11, ell_max=7, H=2, d_e=6, d_mlp=13, **depth, **({"d_f": 5} if kind is ETheta else {}))
    P = transformer(*inputs, theta, **{name: counting(name) for name in ("layer_norm", "MHAttention", activation)})
    assert calls == {"layer_norm": norms, "MHAttention": attentions, activation: activations}
    assert P.equal(transformer(*inputs, theta))


# Temperature and sampling ----------------------------------------------------------------------------------------------


@given(seeds)
def test_low_temperature_tends_to_the_most_likely_token(seed: int) -> None:
    p = softmax(normal(seed, 7))
    assert_close(tempered(p, 1e-9), tempered(p, 0.0), **exactly)
    assert tempered(p, 0.0).argmax() == p.argmax() and tempered(p, 0.0).sum() == 1
    assert_close(tempered(p, 5e-324), tempered(p, 0.0), **exactly)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_lowest_temperature_is_one_token_in_every_dtype(dtype: torch.dtype) -> None:
    p = torch.tensor([0.2, 0.5, 0.3], dtype=dtype)
    for tau in (1e-50, 1e-46, 1e-30):
        assert tempered(p, tau).tolist() == [0, 1, 0] and tempered(p, tau).dtype == dtype


@given(seeds)
def test_high_temperature_tends_to_the_uniform_distribution(seed: int) -> None:
    p = softmax(normal(seed, 7))
    assert_close(tempered(p, 1e15), tempered(p, inf), **exactly)
    assert_close(tempered(p, inf), torch.full((7,), 1 / 7, dtype=torch.float64), **exactly)


@given(seeds, st.floats(0.1, 10))
def test_q_is_proportional_to_the_power_of_p(seed: int, tau: float) -> None:
    p = softmax(normal(seed, 7))
    q = p ** (1 / tau)
    assert_close(tempered(p, tau), q / q.sum(), **exactly)


# The 99.9 % quantile of χ² with 6 degrees of freedom.
CHI2_6 = 22.458


def chi_squared(counts: Tensor, q: Tensor) -> float:
    expected = q * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_sampling_frequencies_match_q(tau: float) -> None:
    p = torch.tensor([0.05, 0.1, 0.15, 0.2, 0.1, 0.25, 0.15], dtype=torch.float64)
    q, generator = tempered(p, tau), rng(1)
    counts = torch.bincount(torch.tensor([sample(q, generator) for _ in range(4000)]), minlength=7)
    assert chi_squared(counts, q) < CHI2_6
    assert chi_squared(counts, tempered(p, tau * 1.5)) > CHI2_6  # the test can tell temperatures apart


@pytest.mark.slow
def test_inference_draws_from_the_last_column() -> None:
    """The first token of Algorithm 14 is distributed as q ∝ P[:,ℓ]^{1/τ}, that of Algorithm 15 as its own."""
    common = {"N_V": 7, "ell_max": 5, "H": 1, "d_e": 3, "d_mlp": 11, "d_attn": 5, "d_mid": 2}
    theta, generator = fill(DTheta.init(**common, L=1), 3), rng(2)
    drawn = torch.bincount(torch.stack([DInference([5, 1, 2], theta, 1, 1.5, generator)[0] for _ in range(300)]), minlength=7)
    assert chi_squared(drawn, tempered(DTransformer([5, 1, 2], theta)[:, 2], 1.5)) < CHI2_6
    theta = fill(EDTheta.init(**common, L_enc=1, L_dec=1), 4)
    drawn = torch.bincount(
        torch.stack([EDInference([5, 1, 2], theta, 0.7, generator, ell_gen=1)[1] for _ in range(300)]),
        minlength=7,
    )
    assert chi_squared(drawn, tempered(EDTransformer([5, 1, 2], [5], theta)[:, 0], 0.7)) < CHI2_6
