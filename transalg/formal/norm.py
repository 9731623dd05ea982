"""Norms in the place of layer_norm."""

import torch
from jaxtyping import Float
from torch import Tensor

from .domains import checked, epsilon


@checked(eps=epsilon)
def RMSnorm(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 6: ê ← RMSnorm(e | γ)

    Root mean square layer normalisation (Gopher): layer_norm with m = β = 0, whatever β is.
    Input: e ∈ ℝ^{d_e}, neural network activations.
    Output: ê ∈ ℝ^{d_e}, normalized activations.
    Parameters: γ ∈ ℝ^{d_e}, element-wise scale.
    Hyperparameters: ε ∈ [0, ∞)
    """
    # 1: v ← Σ_{i=1}^{d_e} e[i]² / d_e  ⟦v ∈ ℝ⟧
    v = (e**2).sum() / len(e)
    # 2: return ê = e/√(v + ε) ⊙ γ  ⟦ê ∈ ℝ^{d_e}⟧
    return e / torch.sqrt(v + eps) * gamma


def no_norm(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"],
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """For a place where a system has a norm and the paper has none: ê = e."""
    return e
