"""Heads that share keys and values, and heads whose queries and keys are normalized before they meet."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import inf, sqrt
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .components import Attention, Head, Norm
from .domains import checked, epsilon, parameters, refuse
from .norm import RMSnorm
from .notation import columns, softmax
from .theta import AttentionTheta, DTheta, Layer, MHAttentionTheta

Rotation = Callable[[Tensor, int], Tensor]  # ê ← rotate(e, t)

# Shared keys and values ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GroupedMHAttentionTheta(MHAttentionTheta):
    """𝒲 with H heads of queries and H_kv of keys and values; H is a multiple of H_kv."""

    W_k: Float[Tensor, "H_kv d_attn d_z"]
    b_k: Float[Tensor, "H_kv d_attn"]
    W_v: Float[Tensor, "H_kv d_mid d_z"]
    b_v: Float[Tensor, "H_kv d_mid"]

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.sizes()
        if sizes["H"] % sizes["H_kv"]:
            raise refuse("theta", f"H_kv to divide H = {sizes['H']}", sizes["H_kv"])

    def group(self, h: int) -> int:
        """g = ⌈h·H_kv/H⌉, which keys and values head h has; both counted from 0 here."""
        return h * len(self.W_k) // len(self.W_q)

    @property
    def W_qkv(self) -> list[AttentionTheta]:
        """W_q^h and b_q^h with W_k^g, b_k^g, W_v^g and b_v^g, for h ∈ [H]."""
        return [
            AttentionTheta(self.W_q[h], self.b_q[h], self.W_k[g], self.b_k[g], self.W_v[g], self.b_v[g])
            for h, g in ((h, self.group(h)) for h in range(len(self.W_q)))
        ]


@checked(W=parameters(GroupedMHAttentionTheta, wider=True))
def GroupedMHAttention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W: GroupedMHAttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
    *,
    Attention: Head = Attention,
) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 5: Ṽ ← GroupedMHAttention(X, Z | 𝒲, Mask)

    Groups of H/H_kv heads share one key and one value (Ainslie et al. 2023); for H_kv = H it is Algorithm 5.
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Hyperparameters: H, H_kv, numbers of heads of queries and of keys and values; Mask ∈ {0,1}^{ℓ_z×ℓ_x}.
    Parameters: 𝒲 consisting of, for h ∈ [H], W_q^h ∈ ℝ^{d_attn×d_x}, b_q^h ∈ ℝ^{d_attn}; for g ∈ [H_kv],
    W_k^g ∈ ℝ^{d_attn×d_z}, b_k^g ∈ ℝ^{d_attn}, W_v^g ∈ ℝ^{d_mid×d_z}, b_v^g ∈ ℝ^{d_mid}; these six are
    𝒲_qkv^{h,g}; W_o ∈ ℝ^{d_out×H·d_mid}, b_o ∈ ℝ^{d_out}.
    """
    # 1: For h∈[H], g = ⌈h·H_kv/H⌉: Y^h ← Attention(X, Z | 𝒲_qkv^{h,g}, Mask)  ⟦Y^h ∈ ℝ^{d_mid×ℓ_x}⟧
    Y_h = [Attention(X, Z, W_qkv, Mask) for W_qkv in W.W_qkv]
    # 2: Y ← [Y^1; Y^2; …; Y^H]  ⟦Y ∈ ℝ^{H·d_mid×ℓ_x}⟧
    Y = torch.cat(Y_h)
    # 3: return Ṽ = W_o Y + b_o 1ᵀ  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return W.W_o @ Y + W.b_o[:, None]


def grouped(theta: DTheta, H_kv: int) -> DTheta:
    """θ with H_kv heads of keys and values in every layer, the first of each group."""
    return replace(theta, layers=tuple(replace(layer, W=_grouped(layer.W, H_kv)) for layer in theta.layers))


def _grouped(W: MHAttentionTheta, H_kv: int) -> GroupedMHAttentionTheta:
    H = len(W.W_q)
    if not isinstance(H_kv, int) or isinstance(H_kv, bool) or H_kv < 1 or H % H_kv:
        raise refuse("H_kv", f"a divisor of H = {H}", H_kv)
    parts = {part.name: getattr(W, part.name) for part in fields(W)}
    shared = {name: parts[name][:: H // H_kv] for name in ("W_k", "b_k", "W_v", "b_v")}
    return GroupedMHAttentionTheta(**parts | shared)


# Norms of queries and keys ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class NormedAttentionTheta(AttentionTheta):
    """𝒲_qkv of a head whose queries and keys are normalized."""

    gamma_q: Float[Tensor, "d_attn"]
    beta_q: Float[Tensor, "d_attn"]
    gamma_k: Float[Tensor, "d_attn"]
    beta_k: Float[Tensor, "d_attn"]


@dataclass(frozen=True, eq=False, repr=False)
class NormedMHAttentionTheta(GroupedMHAttentionTheta):
    """𝒲 whose heads have one norm for their queries and one for their keys."""

    gamma_q: Float[Tensor, "d_attn"]
    beta_q: Float[Tensor, "d_attn"]
    gamma_k: Float[Tensor, "d_attn"]
    beta_k: Float[Tensor, "d_attn"]

    head: ClassVar[type[AttentionTheta]] = NormedAttentionTheta

    @property
    def W_qkv(self) -> list[AttentionTheta]:
        norms = {name: getattr(self, name) for name in ("gamma_q", "beta_q", "gamma_k", "beta_k")}
        parts = [{part.name: getattr(head, part.name) for part in fields(head)} for head in super().W_qkv]
        return [NormedAttentionTheta(**each, **norms) for each in parts]


def normed(theta: DTheta) -> DTheta:
    """θ with γ_q = γ_k = 1 and β_q = β_k = 0 in every layer, for `NormedAttention`."""

    def extend(layer: Layer) -> Layer:
        W = layer.W if isinstance(layer.W, GroupedMHAttentionTheta) else _grouped(layer.W, len(layer.W.W_q))
        parts = {part.name: getattr(W, part.name) for part in fields(W)}
        one, zero = torch.ones_like(W.b_q[0]), torch.zeros_like(W.b_q[0])
        norms = {"gamma_q": one, "beta_q": zero, "gamma_k": one, "beta_k": zero}
        return replace(layer, W=NormedMHAttentionTheta(**parts, **norms))

    return replace(theta, layers=tuple(map(extend, theta.layers)))


def no_rotation(e: Float[Tensor, "d_attn"], t: int) -> Float[Tensor, "d_attn"]:
    """The paper's: queries and keys stay as they are wherever they stand."""
    return e


@checked(eps=epsilon)
def NormedAttention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W_qkv: NormedAttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
    *,
    eps: float = 1e-5,
    norm: Norm = RMSnorm,
    rotate: Rotation = no_rotation,
) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 4: Ṽ ← NormedAttention(X, Z | 𝒲_qkv, Mask)

    A head whose queries and keys are normalized before they meet, so that no score grows too large (Qwen 3).
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Parameters: 𝒲_qkv as in Algorithm 4 and γ_q, β_q, γ_k, β_k ∈ ℝ^{d_attn}.
    Hyperparameters: Mask ∈ {0,1}^{ℓ_z×ℓ_x}; norm; rotate, of rotary positions; ε ∈ [0, ∞).
    """
    # 1: Q ← W_q X + b_q 1ᵀ  ⟦Query ∈ ℝ^{d_attn×ℓ_x}⟧
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]
    # 2: K ← W_k Z + b_k 1ᵀ  ⟦Key ∈ ℝ^{d_attn×ℓ_z}⟧
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]
    # 3: V ← W_v Z + b_v 1ᵀ  ⟦Value ∈ ℝ^{d_out×ℓ_z}⟧
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]
    # 4: for t∈[ℓ_x]: Q[:,t] ← rotate(norm(Q[:,t] | γ_q, β_q), t)
    Q = columns(rotate(norm(q, W_qkv.gamma_q, W_qkv.beta_q, eps), t) for t, q in enumerate(Q.T))
    # 5: for t∈[ℓ_z]: K[:,t] ← rotate(norm(K[:,t] | γ_k, β_k), t)
    K = columns(rotate(norm(k, W_qkv.gamma_k, W_qkv.beta_k, eps), t) for t, k in enumerate(K.T))
    # 6: S ← KᵀQ  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = K.T @ Q
    # 7: ∀t_z, t_x, if ¬Mask[t_z,t_x] then S[t_z,t_x] ← −∞
    S = torch.where(Mask, S, -inf)
    # 8: return Ṽ = V · softmax(S / √d_attn)  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return V @ softmax(S / sqrt(W_qkv.d_attn))
