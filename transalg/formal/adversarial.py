"""Adversarial training of a classifier (Miyato et al. 2017): the loss at moved embeddings."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import grad

from .classification import EClassifier, ECTheta
from .domains import checked, index, parameters, positive, starting_with_bos
from .theta import SomeTheta


def moved(theta: SomeTheta, r: Float[Tensor, "d_e ell"]) -> SomeTheta:
    """θ whose e_t are e_t + r[:,t] for t ∈ [ℓ]. W_p adds to e_t, so this is W_p + [r, 0]."""
    padded = torch.nn.functional.pad(r, (0, theta.ell_max - r.shape[1]))
    return replace(theta, W_p=theta.W_p + padded)


@checked(theta=parameters(ECTheta, wider=True), x=starting_with_bos, c=index("N_C"), epsilon=positive)
def adversarial_loss(
    x: Int[Tensor, "ell"],
    c: int,
    theta: ECTheta,
    epsilon: float,
    *,
    EClassifier: Callable[..., Tensor] = EClassifier,
    moved: Callable[..., ECTheta] = moved,
) -> Float[Tensor, ""]:
    """Variant of Algorithm 12: loss ← adversarial_loss(x, c, ε | θ)

    In the place of the loss that ECTraining has: that loss, and the same at embeddings that are moved by ε.
    Input: x ∈ V*, a sequence of token IDs; c ∈ [N_C], its class.
    Output: loss ∈ ℝ. Its gradient by θ takes r for a constant.
    Hyperparameters: ε ∈ (0,∞), how far the embeddings of x are moved, ‖r‖ = ε.
    """
    # 1: loss(θ) = −log EClassifier(x | θ)[c]  ⟦loss(θ) ∈ ℝ⟧
    loss = lambda theta: -EClassifier(x, theta)[c].log()
    # 2: g ← ∂loss(θ with e_t + r[:,t])/∂r at r = 0  ⟦g ∈ ℝ^{d_e×ℓ}⟧
    g = grad(lambda r: loss(moved(theta, r)))(0 * theta.W_e[:, x]).detach()  # type: ignore[no-untyped-call]
    # 3: r ← ε g/‖g‖, or 0 if g = 0  ⟦r ∈ ℝ^{d_e×ℓ}⟧
    r = epsilon * g / torch.where(g.any(), g.norm(), 1)
    # 4: return loss(θ) + loss(θ with e_t + r[:,t])  ⟦loss ∈ ℝ⟧
    return loss(theta) + loss(moved(theta, r))  # type: ignore[no-untyped-call]
