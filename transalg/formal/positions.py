"""Positions: a map on θ that sets W_p, a rotation of queries and keys, or scores that depend on distance."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from math import inf, pi, sqrt
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .domains import checked, frequencies, natural, refuse
from .notation import columns, softmax
from .theta import AttentionTheta, DTheta, MHAttentionTheta, SomeTheta
from .tree import normal

# Absolute: another W_p ----------------------------------------------------------------------------


def with_positions(theta: SomeTheta, W_p: Float[Tensor, "d_e ell_max"]) -> SomeTheta:
    """θ with a hard-coded W_p, `sinusoids(d_e, ell_max)` say."""
    return replace(theta, W_p=W_p.to(theta.W_e))


def without_positions(theta: SomeTheta) -> SomeTheta:
    """θ with W_p = 0: no absolute positions."""
    return replace(theta, W_p=torch.zeros_like(theta.W_p))


def sinusoids(d_e: int, ell_max: int) -> Float[Tensor, "d_e ell_max"]:
    """W_p[2i−1,t] = sin((t−1) / 10000^{2(i−1)/d_e}), W_p[2i,t] = cos(…), 0 < i ≤ d_e/2, t ∈ [ℓ_max].

    The formula of Vaswani et al.
    """
    return relative_sinusoids(torch.arange(ell_max), d_e)


def paper_sinusoids(d_e: int, ell_max: int) -> Float[Tensor, "d_e ell_max"]:
    """W_p[2i−1,t] = sin(t / ℓ_max^{2i/d_e}), W_p[2i,t] = cos(t / ℓ_max^{2i/d_e}), 0 < i ≤ d_e/2, t ∈ [ℓ_max].

    The formula of the paper (erratum 4).
    """
    return _waves(torch.arange(1, ell_max + 1, dtype=torch.float64), ell_max ** (2 * _pairs(d_e) / d_e))


def split_sinusoids(d_e: int, ell_max: int) -> Float[Tensor, "d_e ell_max"]:
    """W_p[i,t] = sin((t−1) / 10000^{2(i−1)/d_e}), W_p[d_e/2 + i,t] = cos(…), 0 < i ≤ d_e/2, t ∈ [ℓ_max].

    Marian's: the rows of `sinusoids` in another order, all sines before all cosines.
    """
    W_p = sinusoids(d_e, ell_max)
    return torch.cat([W_p[0::2], W_p[1::2]])


def relative_sinusoids(delta: Int[Tensor, "*n"], d_r: int) -> Float[Tensor, "d_r *n"]:
    """The sinusoids of Vaswani et al. at any positions δ, also negative ones."""
    return _waves(delta.double(), 10000 ** (2 * (_pairs(d_r) - 1) / d_r))


def _waves(positions: Float[Tensor, "*n"], wavelengths: Float[Tensor, "half"]) -> Float[Tensor, "2*half *n"]:
    """Row 2i−1 is sin(t / wavelength_i), row 2i is cos(t / wavelength_i)."""
    angles = positions / wavelengths.reshape(-1, *[1] * positions.ndim)
    return torch.stack([angles.sin(), angles.cos()], dim=1).flatten(0, 1)


def _pairs(d_e: int, symbol: str = "d_e") -> Float[Tensor, "half"]:
    """i = 1, 2, …, d_e/2."""
    if d_e % 2 or d_e < 1:
        expected = "an even number, for sinusoids come as pairs of sine and cosine"
        raise ValueError(f"{symbol}: expected {expected}, got {d_e}")
    return torch.arange(1, d_e // 2 + 1, dtype=torch.float64)


# Relative: another Attention ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class RelativeAttentionTheta(AttentionTheta):
    """𝒲_qkv of a head that attends by relative position."""

    W_r: Float[Tensor, "d_attn d_r"]
    u: Float[Tensor, "d_attn"]
    w: Float[Tensor, "d_attn"]


@dataclass(frozen=True, eq=False, repr=False)
class RelativeMHAttentionTheta(MHAttentionTheta):
    """𝒲 with, for every head, a projection W_r of distances and two biases: u of content, w of distance."""

    W_r: Float[Tensor, "H d_attn d_r"]
    u: Float[Tensor, "H d_attn"]
    w: Float[Tensor, "H d_attn"]

    head: ClassVar[type[AttentionTheta]] = RelativeAttentionTheta


def relative(theta: DTheta, d_r: int, generator: torch.Generator | None = None) -> DTheta:
    """θ with random W_r, u and w in every layer. W_p stays, and `Gopher` does not use it."""
    _pairs(d_r, "d_r")

    def extend(W: MHAttentionTheta) -> RelativeMHAttentionTheta:
        H, d_attn, _ = W.W_q.shape
        shapes: Iterable[tuple[tuple[int, ...], int]]
        shapes = ((H, d_attn, d_r), d_r), ((H, d_attn), d_attn), ((H, d_attn), d_attn)
        W_r, u, w = (normal(shape, d, generator, W.W_q.dtype, W.W_q.device) for shape, d in shapes)
        parts = {part.name: getattr(W, part.name) for part in fields(W)}
        return RelativeMHAttentionTheta(**parts, W_r=W_r, u=u, w=w)

    return replace(theta, layers=tuple(replace(layer, W=extend(layer.W)) for layer in theta.layers))


@checked()
def RelativeAttention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W_qkv: RelativeAttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 4: Ṽ ← RelativeAttention(X, Z | 𝒲_qkv, Mask)

    A head that sees how far apart two tokens are (Transformer-XL, Dai et al. 2019; Gopher).
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Parameters: 𝒲_qkv as in Algorithm 4 and W_r ∈ ℝ^{d_attn×d_r}, u, w ∈ ℝ^{d_attn}.
    Hyperparameters: Mask ∈ {0,1}^{ℓ_z×ℓ_x}; r(δ) ∈ ℝ^{d_r}, the sinusoids of Vaswani et al. at position δ.
    """
    # 1: Q ← W_q X + b_q 1ᵀ  ⟦Query ∈ ℝ^{d_attn×ℓ_x}⟧
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]
    # 2: K ← W_k Z + b_k 1ᵀ  ⟦Key ∈ ℝ^{d_attn×ℓ_z}⟧
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]
    # 3: V ← W_v Z + b_v 1ᵀ  ⟦Value ∈ ℝ^{d_out×ℓ_z}⟧
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]
    # 4: ∀t_z, t_x: r[:,t_z,t_x] ← r(t_x − t_z)  ⟦r ∈ ℝ^{d_r×ℓ_z×ℓ_x}⟧
    delta = torch.arange(X.shape[1]) - torch.arange(Z.shape[1])[:, None]
    r = relative_sinusoids(delta, W_qkv.W_r.shape[1]).to(X)
    # 5: ∀t_z, t_x: R[:,t_z,t_x] ← W_r r[:,t_z,t_x]  ⟦R ∈ ℝ^{d_attn×ℓ_z×ℓ_x}⟧
    R = torch.tensordot(W_qkv.W_r, r, dims=1)
    # 6: ∀t_z, t_x: S[t_z,t_x] ← K[:,t_z]ᵀ(Q[:,t_x] + u) + R[:,t_z,t_x]ᵀ(Q[:,t_x] + w)  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = K.T @ (Q + W_qkv.u[:, None]) + (R * (Q + W_qkv.w[:, None])[:, None, :]).sum(dim=0)
    # 7: ∀t_z, t_x, if ¬Mask[t_z,t_x] then S[t_z,t_x] ← −∞
    S = torch.where(Mask, S, -inf)
    # 8: return Ṽ = V · softmax(S / √d_attn)  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return V @ softmax(S / sqrt(W_qkv.d_attn))


# Rotary: queries and keys that turn ---------------------------------------------------------------


def rotary_frequencies(d_rot: int, base: float = 10000.0) -> Float[Tensor, "half"]:
    """ω[i] = base^{−2(i−1)/d_rot}, 0 < i ≤ d_rot/2: how far the i-th pair turns from one token to the next.

    RoFormer (Su et al. 2021).
    """
    return _number("base", base) ** (-2 * (_pairs(d_rot, "d_rot") - 1) / d_rot)


def linear_scaling(omega: Float[Tensor, "half"], factor: float) -> Float[Tensor, "half"]:
    """ω/factor: all positions are pushed together, as if the text were shorter by this factor."""
    return omega / _number("factor", factor)


def llama3_scaling(
    omega: Float[Tensor, "half"], factor: float, low: float, high: float, ell: float
) -> Float[Tensor, "half"]:
    """ω[i]/factor for slow pairs, ω[i] for fast ones, and (1−s)·ω[i]/factor + s·ω[i] between (Llama 3.1).

    A pair is slow that turns fewer than `low` times in the ℓ tokens of the first training, n = ℓω[i]/2π,
    and fast that turns more than `high` times; s = (n − low)/(high − low).
    """
    for symbol, value in (("factor", factor), ("low", low), ("high", high), ("ell", ell)):
        _number(symbol, value)
    if high <= low:
        raise refuse("high", f"more than low = {low}", high)
    s = ((ell * omega / (2 * pi) - low) / (high - low)).clamp(0, 1)
    return (1 - s) * omega / factor + s * omega


def _number(symbol: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise refuse(symbol, "a number in (0, ∞)", value)
    return value


@checked(t=natural, omega=frequencies)
def rotate(e: Float[Tensor, "d_attn"], t: int, omega: Float[Tensor, "n"]) -> Float[Tensor, "d_attn"]:
    """Variant of Algorithm 2: ê ← rotate(e, t | ω)

    Rotary positions: the pairs (e[i], e[i + n]) turn by an angle that grows with t, for i ∈ [n].
    The scores of two vectors turned so depend on their distance alone. Some implementations pair neighbours,
    e[2i−1] with e[2i]: the same for W_q and W_k with their rows in another order.
    Input: e ∈ ℝ^{d_attn}, a query or a key; t, its position.
    Output: ê ∈ ℝ^{d_attn}, the same, turned; what stands after the first 2n components is not.
    Parameters: none.
    Hyperparameters: ω ∈ ℝ^{n}, see rotary_frequencies; 2n ≤ d_attn.
    """
    # 1: φ ← (t − 1) ω  ⟦φ ∈ ℝ^{n}⟧
    phi = t * omega.to(e)
    # 2: [a; b; c] ← e with a, b as long as φ  ⟦a ∈ ℝ^{n}⟧
    n = len(omega)
    a, b, c = e[:n], e[n : 2 * n], e[2 * n :]
    # 3: return ê = [a ⊙ cos φ − b ⊙ sin φ; a ⊙ sin φ + b ⊙ cos φ; c]  ⟦ê ∈ ℝ^{d_attn}⟧
    return torch.cat([a * phi.cos() - b * phi.sin(), a * phi.sin() + b * phi.cos(), c])


@checked(omega=frequencies)
def RotaryAttention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W_qkv: AttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
    *,
    omega: Float[Tensor, "n"],
) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 4: Ṽ ← RotaryAttention(X, Z | 𝒲_qkv, Mask, ω)

    A head whose queries and keys turn with their position (RoFormer, Su et al. 2021; Llama).
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Parameters: 𝒲_qkv as in Algorithm 4.
    Hyperparameters: Mask ∈ {0,1}^{ℓ_z×ℓ_x}; ω ∈ ℝ^{n}, 2n ≤ d_attn, see rotate.
    """
    # 1: Q ← W_q X + b_q 1ᵀ  ⟦Query ∈ ℝ^{d_attn×ℓ_x}⟧
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]
    # 2: K ← W_k Z + b_k 1ᵀ  ⟦Key ∈ ℝ^{d_attn×ℓ_z}⟧
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]
    # 3: V ← W_v Z + b_v 1ᵀ  ⟦Value ∈ ℝ^{d_out×ℓ_z}⟧
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]
    # 4: for t∈[ℓ_x]: Q[:,t] ← rotate(Q[:,t], t | ω)
    Q = columns(rotate(Q[:, t], t, omega) for t in range(Q.shape[1]))
    # 5: for t∈[ℓ_z]: K[:,t] ← rotate(K[:,t], t | ω)
    K = columns(rotate(K[:, t], t, omega) for t in range(K.shape[1]))
    # 6: S ← KᵀQ  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = K.T @ Q
    # 7: ∀t_z, t_x, if ¬Mask[t_z,t_x] then S[t_z,t_x] ← −∞
    S = torch.where(Mask, S, -inf)
    # 8: return Ṽ = V · softmax(S / √d_attn)  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return V @ softmax(S / sqrt(W_qkv.d_attn))
