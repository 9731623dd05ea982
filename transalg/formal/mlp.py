"""The multi-layer perceptron of a layer, and its activations."""

from collections.abc import Callable
from functools import partial
from math import pi, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .domains import checked
from .notation import GELU, Activation, ReLU
from .theta import MLPTheta

# Y ← MLP(X | 𝒲_mlp). Any, for each has parameters of its own kind and refuses others.
Perceptron = Callable[[Tensor, Any], Tensor]


@checked()
def MLP(
    X: Float[Tensor, "d_e ell"],
    W: MLPTheta,
    *,
    GELU: Activation = GELU,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: Y ← MLP(X | 𝒲_mlp)

    The multi-layer perceptron: what line 8 of Algorithm 10 adds to X.
    Input: X ∈ ℝ^{d_e×ℓ}, vector representations of a sequence.
    Output: Y ∈ ℝ^{d_e×ℓ}, each of them transformed on its own.
    Parameters: 𝒲_mlp consisting of W_mlp1 ∈ ℝ^{d_mlp×d_e}, b_mlp1 ∈ ℝ^{d_mlp}, W_mlp2 ∈ ℝ^{d_e×d_mlp},
    b_mlp2 ∈ ℝ^{d_e}.
    """
    # 1: A ← GELU(W_mlp1 X + b_mlp1 1ᵀ)  ⟦A ∈ ℝ^{d_mlp×ℓ}⟧
    A = GELU(W.W_mlp1 @ X + W.b_mlp1[:, None])
    # 2: return Y = W_mlp2 A + b_mlp2 1ᵀ  ⟦Y ∈ ℝ^{d_e×ℓ}⟧
    return W.W_mlp2 @ A + W.b_mlp2[:, None]


ReLU_MLP = partial(MLP, GELU=ReLU)  # as Algorithm 8 has it


def tanh_GELU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU(x) ≈ x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), GPT-2's (Hendrycks & Gimpel 2016)."""
    return A / 2 * (1 + torch.tanh(sqrt(2 / pi) * (A + 0.044715 * A**3)))
