"""Between the last layer of an encoder and what is read off it: lines 10 and 11 of Algorithm 9."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from .components import Norm, layer_norm
from .norm import normalized
from .notation import GELU, Activation
from .theta import EncoderTheta

Head = Callable[..., Tensor]  # X ← head(X | θ)


def head(
    X: Float[Tensor, "d_e ell"],
    theta: EncoderTheta,
    eps: float = 1e-5,
    *,
    layer_norm: Norm = layer_norm,
    GELU: Activation = GELU,
) -> Float[Tensor, "d_f ell"]:
    """Variant of Algorithm 9: X ← head(X | θ)

    Lines 10 and 11 of Algorithm 9.
    Input: X ∈ ℝ^{d_e×ℓ}, a vector for every token.
    Output: X ∈ ℝ^{d_f×ℓ}, the same, for what is read off them.
    """
    # 1: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = GELU(theta.W_f @ X + theta.b_f[:, None])
    # 2: return for t∈[ℓ]: layer_norm(X[:,t] | γ, β)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    return normalized(X, theta.gamma, theta.beta, eps, layer_norm)


def tanh_head(
    X: Float[Tensor, "d_e ell"],
    theta: EncoderTheta,
    eps: float = 1e-5,
    *,
    layer_norm: Norm = layer_norm,
    GELU: Activation = GELU,
) -> Float[Tensor, "d_f ell"]:
    """Variant of Algorithm 9: X ← tanh_head(X | θ)

    BERT's pooler, in the place of lines 10 and 11 of Algorithm 9: tanh, and no norm.
    Input: X ∈ ℝ^{d_e×ℓ}, a vector for every token.
    Output: X ∈ ℝ^{d_f×ℓ}, the same, for what is read off them.
    """
    # 1: return X = tanh(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    return torch.tanh(theta.W_f @ X + theta.b_f[:, None])


def headless(
    X: Float[Tensor, "d_e ell"],
    theta: EncoderTheta,
    eps: float = 1e-5,
    *,
    layer_norm: Norm = layer_norm,
    GELU: Activation = GELU,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 9: X ← headless(X | θ)

    An encoder without lines 10 and 11 of Algorithm 9: the vectors are those of the last layer.
    Input: X ∈ ℝ^{d_e×ℓ}, a vector for every token.
    Output: X ∈ ℝ^{d_e×ℓ}, the same.
    """
    # 1: return X  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return X
