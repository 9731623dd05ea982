"""The multi-layer perceptron of a layer, and its activations."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from math import pi, sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from .domains import checked
from .notation import GELU, Activation, ReLU
from .theta import DecoderLayer, DTheta, Layer, MLPTheta
from .tree import normal

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


def SiLU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """SiLU(x) = x / (1 + exp(−x)), element by element; also called swish."""
    return A * torch.sigmoid(A)


def tanh_GELU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU(x) ≈ x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), GPT-2's (Hendrycks & Gimpel 2016)."""
    return A / 2 * (1 + torch.tanh(sqrt(2 / pi) * (A + 0.044715 * A**3)))


# With a gate --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GatedMLPTheta(MLPTheta):
    """𝒲_mlp of a multi-layer perceptron with a gate."""

    W_gate: Float[Tensor, "d_mlp d_e"]
    b_gate: Float[Tensor, "d_mlp"]


@dataclass(frozen=True, eq=False, repr=False)
class GatedLayer(Layer):
    """A layer whose MLP has a gate."""

    W_gate: Float[Tensor, "d_mlp d_e"]
    b_gate: Float[Tensor, "d_mlp"]

    @property
    def mlp(self) -> GatedMLPTheta:
        return GatedMLPTheta(**_parts(super().mlp), W_gate=self.W_gate, b_gate=self.b_gate)


@dataclass(frozen=True, eq=False, repr=False)
class GatedDecoderLayer(DecoderLayer):
    """A layer of the decoder of Algorithm 8 whose MLP has a gate."""

    W_gate: Float[Tensor, "d_mlp d_e"]
    b_gate: Float[Tensor, "d_mlp"]

    @property
    def mlp(self) -> GatedMLPTheta:
        return GatedMLPTheta(**_parts(super().mlp), W_gate=self.W_gate, b_gate=self.b_gate)


def _parts(W: MLPTheta) -> dict[str, Tensor]:
    return {part.name: getattr(W, part.name) for part in fields(W)}


def gated(theta: DTheta, generator: torch.Generator | None = None) -> DTheta:
    """θ with a random W_gate and b_gate = 0 in every layer, for `GatedMLP`."""

    def extend(layer: Layer) -> GatedLayer:
        W = layer.W_mlp1
        W_gate = normal(tuple(W.shape), W.shape[1], generator, W.dtype, W.device)
        parts = {part.name: getattr(layer, part.name) for part in fields(layer)}
        return GatedLayer(**parts, W_gate=W_gate, b_gate=torch.zeros_like(layer.b_mlp1))

    return replace(theta, layers=tuple(map(extend, theta.layers)))


@checked()
def GatedMLP(
    X: Float[Tensor, "d_e ell"],
    W: GatedMLPTheta,
    *,
    SiLU: Activation = SiLU,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: Y ← GatedMLP(X | 𝒲_mlp)

    A multi-layer perceptron with a gate (Shazeer 2020): SwiGLU, or GEGLU with GELU in the place of SiLU.
    Input: X ∈ ℝ^{d_e×ℓ}, vector representations of a sequence.
    Output: Y ∈ ℝ^{d_e×ℓ}, each of them transformed on its own.
    Parameters: 𝒲_mlp consisting of W_gate, W_mlp1 ∈ ℝ^{d_mlp×d_e}, b_gate, b_mlp1 ∈ ℝ^{d_mlp},
    W_mlp2 ∈ ℝ^{d_e×d_mlp}, b_mlp2 ∈ ℝ^{d_e}.
    """
    # 1: G ← SiLU(W_gate X + b_gate 1ᵀ)  ⟦G ∈ ℝ^{d_mlp×ℓ}⟧
    G = SiLU(W.W_gate @ X + W.b_gate[:, None])
    # 2: A ← G ⊙ (W_mlp1 X + b_mlp1 1ᵀ)  ⟦A ∈ ℝ^{d_mlp×ℓ}⟧
    A = G * (W.W_mlp1 @ X + W.b_mlp1[:, None])
    # 3: return Y = W_mlp2 A + b_mlp2 1ᵀ  ⟦Y ∈ ℝ^{d_e×ℓ}⟧
    return W.W_mlp2 @ A + W.b_mlp2[:, None]
