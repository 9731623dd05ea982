"""What turns a token x[t] into a vector e_t: the paper's embedding, and BERT's."""

from dataclasses import dataclass, replace
from math import sqrt

from jaxtyping import Float, Int
from torch import Tensor

from .components import Norm, layer_norm
from .norm import normalized
from .notation import columns, length
from .theta import SomeTheta, TransformerTheta


def embed(x: Int[Tensor, "ell"], theta: TransformerTheta) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: X ← embed(x | θ)

    Tokens and positions: lines 2 and 3 of Algorithm 10.
    """
    # 1: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(length(x))]
    # 2: return X = [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return columns(e)


def scaled(theta: SomeTheta) -> SomeTheta:
    """θ with √d_e W_e for W_e, the original Transformer's; tie before, not after: `scaled(tied(theta))`."""
    return replace(theta, W_e=sqrt(len(theta.W_e)) * theta.W_e)


@dataclass(frozen=True, eq=False, repr=False)
class BERTEmbeddingTheta(TransformerTheta):
    """The parameters of BERT's embedding: the paper's, segments W_s, and a norm γ_e, β_e."""

    W_s: Float[Tensor, "d_e N_S"]
    gamma_e: Float[Tensor, "d_e"]
    beta_e: Float[Tensor, "d_e"]


def BERT_embed(
    x: Int[Tensor, "ell"],
    theta: BERTEmbeddingTheta,
    s: Int[Tensor, "ell"],
    eps: float = 1e-5,
    *,
    layer_norm: Norm = layer_norm,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 9: X ← BERT_embed(x, s | θ)

    Tokens, positions and segments, normalized: lines 2 and 3 of Algorithm 9 as BERT was published.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to.
    Output: X ∈ ℝ^{d_e×ℓ}, a vector for every token.
    """
    # 1: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t] + W_s[:,s[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] + theta.W_s[:, s[t]] for t in range(length(x))]
    # 2: return X = [layer_norm(e_1 | γ_e, β_e), …, layer_norm(e_ℓ | γ_e, β_e)]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return normalized(columns(e), theta.gamma_e, theta.beta_e, eps, layer_norm)
