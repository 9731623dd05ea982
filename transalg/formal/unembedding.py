"""What turns a vector into a distribution over V: the paper's unembedding, tied or with a bias."""

from dataclasses import dataclass, replace
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor

from .notation import softmax
from .theta import DTheta, EDTheta, ETheta

T = TypeVar("T", DTheta, ETheta, EDTheta)


def unembed(X: Float[Tensor, "d ell"], theta: DTheta | ETheta | EDTheta) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 7: P ← unembed(X | θ)

    Algorithm 7 for every column of X: the last line of Algorithms 8–10.
    """
    # 1: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


def tied(theta: T) -> T:
    """θ with W_u = W_eᵀ (GPT-2, BERT, the original Transformer); Algorithm 9 needs d_f = d_e for it.

    Training unties what is tied before it, so tie inside the transformer that is trained, and θ̂ once more
    after.
    """
    return replace(theta, W_u=theta.W_e.T)


@dataclass(frozen=True, eq=False, repr=False)
class BiasedETheta(ETheta):
    """θ of Algorithm 9 with an output bias b_u."""

    b_u: Float[Tensor, "N_V"]


@dataclass(frozen=True, eq=False, repr=False)
class BiasedEDTheta(EDTheta):
    """θ of Algorithm 8 with an output bias b_u (Marian)."""

    b_u: Float[Tensor, "N_V"]


def biased_unembed(
    X: Float[Tensor, "d_f ell"], theta: BiasedETheta | BiasedEDTheta
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 7: P ← biased_unembed(X | θ)

    Algorithm 7 with an output bias, for every column of X.
    """
    # 1: return P = softmax(W_u X + b_u 1ᵀ)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X + theta.b_u[:, None])
