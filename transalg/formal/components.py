"""Algorithms 1–7: the components transformers are made of (§5)."""

from collections.abc import Callable
from math import inf, sqrt
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .domains import checked, epsilon, index, parameters
from .notation import columns, softmax
from .theta import AttentionTheta, MHAttentionTheta

# What others take by keyword. Any, for each component has parameters of its own kind and refuses others.
Norm = Callable[[Tensor, Tensor, Tensor, float], Tensor]  # ê ← layer_norm(e | γ, β), ε last
Head = Callable[[Tensor, Tensor, Any, Tensor], Tensor]  # Ṽ ← Attention(X, Z | 𝒲_qkv, Mask)
MultiHead = Callable[[Tensor, Tensor, Any, Tensor], Tensor]  # Ṽ ← MHAttention(X, Z | 𝒲, Mask)


@checked(v=index("N_V"))
def token_embedding(v: int, W_e: Float[Tensor, "d_e N_V"]) -> Float[Tensor, "d_e"]:
    """Algorithm 1: Token embedding.

    Input: v ∈ V ≅ [N_V], a token ID.
    Output: e ∈ ℝ^{d_e}, the vector representation of the token.
    Parameters: W_e ∈ ℝ^{d_e×N_V}, the token embedding matrix.
    """
    # 1: return e = W_e[:,v]  ⟦e ∈ ℝ^{d_e}⟧
    return W_e[:, v]


@checked(ell=index("ell_max"))
def positional_embedding(ell: int, W_p: Float[Tensor, "d_e ell_max"]) -> Float[Tensor, "d_e"]:
    """Algorithm 2: Positional embedding.

    Input: ℓ ∈ [ℓ_max], position of a token in the sequence.
    Output: e_p ∈ ℝ^{d_e}, the vector representation of the position.
    Parameters: W_p ∈ ℝ^{d_e×ℓ_max}, the positional embedding matrix.
    """
    # 1: return e_p = W_p[:,ℓ]  ⟦e_p ∈ ℝ^{d_e}⟧
    return W_p[:, ell]


@checked()
def single_query_attention(
    e: Float[Tensor, "d_x"],
    E: Float[Tensor, "d_z T"],
    W_qkv: AttentionTheta,
) -> Float[Tensor, "d_out"]:
    """Algorithm 3: Basic single-query attention.

    Input: e ∈ ℝ^{d_in}, vector representation of the current token.
    Input: E = [e_1, …, e_T], vector representations e_t ∈ ℝ^{d_in} of the context tokens t ∈ [T].
    Output: ṽ ∈ ℝ^{d_out}, vector representation of the token and context combined.
    Parameters: W_q, W_k ∈ ℝ^{d_attn×d_in}, b_q, b_k ∈ ℝ^{d_attn}, the query and key linear projections.
    Parameters: W_v ∈ ℝ^{d_out×d_in}, b_v ∈ ℝ^{d_out}, the value linear projection.
    """
    # 1: q ← W_q e + b_q  ⟦q ∈ ℝ^{d_attn}⟧
    q = W_qkv.W_q @ e + W_qkv.b_q
    # 2: ∀t: k_t ← W_k e_t + b_k  ⟦k_t ∈ ℝ^{d_attn}⟧
    k = [W_qkv.W_k @ e_t + W_qkv.b_k for e_t in E.T]
    # 3: ∀t: v_t ← W_v e_t + b_v  ⟦v_t ∈ ℝ^{d_out}⟧
    v = [W_qkv.W_v @ e_t + W_qkv.b_v for e_t in E.T]
    # 4: ∀t: α_t = exp(qᵀk_t/√d_attn) / Σ_u exp(qᵀk_u/√d_attn)  ⟦α ∈ ℝ^{T}⟧
    alpha = softmax(torch.stack([q @ k_t / sqrt(W_qkv.d_attn) for k_t in k]))
    # 5: return ṽ = Σ_{t=1}^T α_t v_t  ⟦ṽ ∈ ℝ^{d_out}⟧
    return columns(v) @ alpha


@checked()
def Attention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W_qkv: AttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
) -> Float[Tensor, "d_out ell_x"]:
    """Algorithm 4: Ṽ ← Attention(X, Z | 𝒲_qkv, Mask)

    Computes a single (masked) self- or cross-attention head.
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Parameters: 𝒲_qkv consisting of W_q ∈ ℝ^{d_attn×d_x}, b_q ∈ ℝ^{d_attn}, W_k ∈ ℝ^{d_attn×d_z},
    b_k ∈ ℝ^{d_attn}, W_v ∈ ℝ^{d_out×d_z}, b_v ∈ ℝ^{d_out}.
    Hyperparameters: Mask ∈ {0,1}^{ℓ_z×ℓ_x}.
    """
    # 1: Q ← W_q X + b_q 1ᵀ  ⟦Query ∈ ℝ^{d_attn×ℓ_x}⟧
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]
    # 2: K ← W_k Z + b_k 1ᵀ  ⟦Key ∈ ℝ^{d_attn×ℓ_z}⟧
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]
    # 3: V ← W_v Z + b_v 1ᵀ  ⟦Value ∈ ℝ^{d_out×ℓ_z}⟧
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]
    # 4: S ← KᵀQ  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = K.T @ Q
    # 5: ∀t_z, t_x, if ¬Mask[t_z,t_x] then S[t_z,t_x] ← −∞  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = torch.where(Mask, S, -inf)
    # 6: return Ṽ = V · softmax(S / √d_attn)  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return V @ softmax(S / sqrt(W_qkv.d_attn))


@checked(W=parameters(MHAttentionTheta, wider=True))
def MHAttention(
    X: Float[Tensor, "d_x ell_x"],
    Z: Float[Tensor, "d_z ell_z"],
    W: MHAttentionTheta,
    Mask: Bool[Tensor, "ell_z ell_x"],
    *,
    Attention: Head = Attention,
) -> Float[Tensor, "d_out ell_x"]:
    """Algorithm 5: Ṽ ← MHAttention(X, Z | 𝒲, Mask)

    Computes a multi-head (masked) self- or cross-attention layer.
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in
    Z.
    Hyperparameters: H, number of attention heads; Mask ∈ {0,1}^{ℓ_z×ℓ_x}.
    Parameters: 𝒲 consisting of, for h ∈ [H], 𝒲_qkv^h: W_q^h ∈ ℝ^{d_attn×d_x}, b_q^h ∈ ℝ^{d_attn},
    W_k^h ∈ ℝ^{d_attn×d_z}, b_k^h ∈ ℝ^{d_attn}, W_v^h ∈ ℝ^{d_mid×d_z}, b_v^h ∈ ℝ^{d_mid};
    W_o ∈ ℝ^{d_out×H·d_mid}, b_o ∈ ℝ^{d_out}.
    """
    # 1: For h∈[H]: Y^h ← Attention(X, Z | 𝒲_qkv^h, Mask)  ⟦Y^h ∈ ℝ^{d_mid×ℓ_x}⟧
    Y_h = [Attention(X, Z, W_qkv, Mask) for W_qkv in W.W_qkv]
    # 2: Y ← [Y^1; Y^2; …; Y^H]  ⟦Y ∈ ℝ^{H·d_mid×ℓ_x}⟧
    Y = torch.cat(Y_h)
    # 3: return Ṽ = W_o Y + b_o 1ᵀ  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧
    return W.W_o @ Y + W.b_o[:, None]


@checked(eps=epsilon)
def layer_norm(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"],
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """Algorithm 6: ê ← layer_norm(e | γ, β)

    Normalizes layer activations e.
    Input: e ∈ ℝ^{d_e}, neural network activations.
    Output: ê ∈ ℝ^{d_e}, normalized activations.
    Parameters: γ, β ∈ ℝ^{d_e}, element-wise scale and offset.
    Hyperparameters: ε ∈ [0, ∞), under the root, so that equal activations give β, not 0/0; the paper's is 0.
    """
    # 1: m ← Σ_{i=1}^{d_e} e[i] / d_e  ⟦m ∈ ℝ⟧
    m = e.sum() / len(e)
    # 2: v ← Σ_{i=1}^{d_e} (e[i] − m)² / d_e  ⟦v ∈ ℝ⟧
    v = ((e - m) ** 2).sum() / len(e)
    # 3: return ê = (e − m)/√(v + ε) ⊙ γ + β  ⟦ê ∈ ℝ^{d_e}⟧  (erratum 3)
    return (e - m) / torch.sqrt(v + eps) * gamma + beta


@checked()
def unembedding(e: Float[Tensor, "d_e"], W_u: Float[Tensor, "N_V d_e"]) -> Float[Tensor, "N_V"]:
    """Algorithm 7: Unembedding.

    Input: e ∈ ℝ^{d_e}, a token encoding.
    Output: p ∈ Δ(V), a probability distribution over the vocabulary.
    Parameters: W_u ∈ ℝ^{N_V×d_e}, the unembedding matrix.
    """
    # 1: return p = softmax(W_u e)  ⟦p ∈ ℝ^{N_V}⟧
    return softmax(W_u @ e)
