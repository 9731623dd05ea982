"""Pooling: one vector of a text from the vectors of its tokens."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from .notation import length

Pooling = Callable[[Float[Tensor, "d ell"]], Float[Tensor, "d"]]


def bos_pooling(X: Float[Tensor, "d ell"]) -> Float[Tensor, "d"]:
    """Variant of Algorithm 9: x ← bos_pooling(X)

    The vector of the first token, bos_token (BERT).
    Input: X ∈ ℝ^{d×ℓ}, a vector for every token.
    Output: x ∈ ℝ^d
    """
    # 1: return x = X[:,1]  ⟦x ∈ ℝ^{d}⟧
    return X[:, 0]


def mean_pooling(X: Float[Tensor, "d ell"]) -> Float[Tensor, "d"]:
    """Variant of Algorithm 9: x ← mean_pooling(X)

    The mean of the vectors of all tokens.
    Input: X ∈ ℝ^{d×ℓ}, a vector for every token.
    Output: x ∈ ℝ^d
    """
    # 1: return x = Σ_{t=1}^{ℓ} X[:,t] / ℓ  ⟦x ∈ ℝ^{d}⟧
    return X.sum(dim=1) / length(X.T)


def max_pooling(X: Float[Tensor, "d ell"]) -> Float[Tensor, "d"]:
    """Variant of Algorithm 9: x ← max_pooling(X)

    The largest value of every feature, over all tokens (Kim 2014).
    Input: X ∈ ℝ^{d×ℓ}, a vector for every token.
    Output: x ∈ ℝ^d
    """
    # 1: return x with x[i] = max{X[i,1], …, X[i,ℓ]}  ⟦x ∈ ℝ^{d}⟧
    return X.amax(dim=1)
