"""Norms in the place of layer_norm: of one token, as it is, or of all tokens at once (batch_norm)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree as pytree

from .components import Norm
from .domains import checked, epsilon, probability
from .notation import columns
from .theta import SomeTheta


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


@checked(eps=epsilon)
def RMSnorm_1p(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 6: ê ← RMSnorm_1p(e | γ)

    RMSnorm with the scale 1 + γ (Gemma): weight decay then pulls the scale to 1, not to 0.
    Input: e ∈ ℝ^{d_e}, neural network activations.
    Output: ê ∈ ℝ^{d_e}, normalized activations.
    Parameters: γ ∈ ℝ^{d_e}, what the element-wise scale is more than 1.
    Hyperparameters: ε ∈ [0, ∞)
    """
    # 1: v ← Σ_{i=1}^{d_e} e[i]² / d_e  ⟦v ∈ ℝ⟧
    v = (e**2).sum() / len(e)
    # 2: return ê = e/√(v + ε) ⊙ (1 + γ)  ⟦ê ∈ ℝ^{d_e}⟧
    return e / torch.sqrt(v + eps) * (1 + gamma)


def no_norm(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"],
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """For a place where a system has a norm and the paper has none: ê = e."""
    return e


# Batch normalization ------------------------------------------------------------------------------


@checked(eps=epsilon)
def batch_norm(
    X: Float[Tensor, "d_e ell"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"],
    eps: float = 1e-5,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 6: X̂ ← batch_norm(X | γ, β)

    Batch normalization (Ioffe & Szegedy 2015), in training: mean and variance of a feature over all tokens.
    A token then depends on those after it, so in training P̂ of a decoder is not causal. Afterwards it is:
    m and v are then constants, see `running`.
    Input: X ∈ ℝ^{d_e×ℓ}, activations of all tokens: of a sequence, or of all sequences of a batch.
    Output: X̂ ∈ ℝ^{d_e×ℓ}, normalized activations.
    Parameters: γ, β ∈ ℝ^{d_e}, element-wise scale and offset.
    Hyperparameters: ε ∈ [0, ∞)
    """
    # 1: m ← Σ_{t=1}^ℓ X[:,t] / ℓ  ⟦m ∈ ℝ^{d_e}⟧
    m = X.sum(dim=1) / X.shape[1]
    # 2: v ← Σ_{t=1}^ℓ (X[:,t] − m)² / ℓ  ⟦v ∈ ℝ^{d_e}⟧
    v = ((X - m[:, None]) ** 2).sum(dim=1) / X.shape[1]
    # 3: return for t∈[ℓ]: X̂[:,t] = (X[:,t] − m)/√(v + ε) ⊙ γ + β  ⟦X̂ ∈ ℝ^{d_e×ℓ}⟧
    return columns((e - m) / torch.sqrt(v + eps) * gamma + beta for e in X.T)


@checked(mu=probability)
def batch_statistics(
    X: Float[Tensor, "d_e ell"],
    m_bar: Float[Tensor, "d_e"],
    v_bar: Float[Tensor, "d_e"],
    mu: float,
) -> tuple[Float[Tensor, "d_e"], Float[Tensor, "d_e"]]:
    """What a training step makes of the running statistics m̄ and v̄ of a batch_norm whose input is X.

    m̄ ← (1 − μ)m̄ + μm and v̄ ← (1 − μ)v̄ + μv with m and v of lines 1 and 2.
    """
    m, v = X.mean(dim=1), X.var(dim=1, correction=0)
    return (1 - mu) * m_bar + mu * m, (1 - mu) * v_bar + mu * v


def affine(
    e: Float[Tensor, "d_e"],
    gamma: Float[Tensor, "d_e"],
    beta: Float[Tensor, "d_e"],
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 6: ê ← affine(e | γ, β)

    batch_norm in inference, for a θ made by `running`.
    Input: e ∈ ℝ^{d_e}, neural network activations.
    Output: ê ∈ ℝ^{d_e}, scaled and moved.
    Parameters: γ, β ∈ ℝ^{d_e}, element-wise scale and offset.
    """
    # 1: return ê = e ⊙ γ + β  ⟦ê ∈ ℝ^{d_e}⟧
    return e * gamma + beta


def running(theta: SomeTheta, eps: float = 1e-5) -> SomeTheta:
    """θ for inference: with the running statistics, batch_norm is a scale and an offset.

    (e − m̄)/√(v̄ + ε) ⊙ γ + β = e ⊙ γ′ + β′ with γ′ = γ/√(v̄ + ε) and β′ = β − m̄ ⊙ γ′.
    """
    if theta.statistics is None:
        raise ValueError("theta: expected running statistics, got none")
    m_bar, v_bar, named = theta.statistics.m, theta.statistics.v, theta.named()

    def folded(path: tuple[object, ...], part: Tensor) -> Tensor:
        name = ".".join(str(getattr(key, "name", getattr(key, "idx", ""))) for key in path)
        gamma = name.replace("beta", "gamma")
        if gamma not in m_bar:
            return part
        scale = named[gamma] / torch.sqrt(v_bar[gamma].to(part) + eps)
        return scale if name == gamma else part - m_bar[gamma].to(part) * scale

    result: SomeTheta = pytree.tree_map_with_path(folded, replace(theta, statistics=None))
    return result


def normalized(
    X: Float[Tensor, "d ell"],
    gamma: Float[Tensor, "d"],
    beta: Float[Tensor, "d"],
    eps: float,
    layer_norm: Norm,
) -> Float[Tensor, "d ell"]:
    """For t∈[ℓ]: layer_norm(X[:,t] | γ, β); all of X at once if the norm in its place is batch_norm."""
    if layer_norm is batch_norm:
        return batch_norm(X, gamma, beta, eps)
    return columns(layer_norm(e, gamma, beta, eps) for e in X.T)
