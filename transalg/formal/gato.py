"""Gato (Reed et al. 2022): Algorithm 10 whose line 2 has an embedding for every modality."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from .components import MHAttention, MultiHead, Norm, layer_norm
from .domains import (
    Scope,
    as_real,
    checked,
    epsilon,
    groups,
    masks,
    natural,
    number,
    parameters,
    random,
    refuse,
)
from .mask import Masks, unidirectional
from .modality import LOCAL, Patch, Token, token, token_sequence
from .notation import GELU, Activation, columns, length, sample, softmax
from .resnet import ResNet, ResNetTheta
from .theta import DTheta
from .tree import Theta

Indexing = Callable[[float, float, int], int]  # i ← Index(a, b)


@dataclass(frozen=True, eq=False, repr=False)
class GatoEmbeddingTheta(Theta):
    """θ_e: the parameters of Gato's embedding."""

    W_e: Float[Tensor, "d_e N_V"]
    W_loc: Float[Tensor, "d_e N_loc"]
    w_a: Float[Tensor, "d_e"]
    W_row: Float[Tensor, "d_e N_grid"]
    W_col: Float[Tensor, "d_e N_grid"]
    W_res: ResNetTheta


@dataclass(frozen=True, eq=False, repr=False)
class GatoTheta(DTheta):
    """θ of Algorithm 10 with the parameters of Gato's embedding."""

    W_loc: Float[Tensor, "d_e N_loc"]
    w_a: Float[Tensor, "d_e"]
    W_row: Float[Tensor, "d_e N_grid"]
    W_col: Float[Tensor, "d_e N_grid"]
    W_res: ResNetTheta

    @property
    def theta_e(self) -> GatoEmbeddingTheta:
        """θ_e, a part of θ."""
        return GatoEmbeddingTheta(self.W_e, self.W_loc, self.w_a, self.W_row, self.W_col, self.W_res)


# Where a patch stands -----------------------------------------------------------------------------


def _right_end(symbol: str, b: object, scope: Scope) -> float:
    a, end = scope.arguments["a"], as_real(b)
    assert isinstance(a, float)
    if end is None or not a < end <= 1:
        raise refuse(symbol, f"a number in (a, 1] with a = {a:g}", b)
    return end


_left_end = number(lambda a: 0 <= a < 1, "a number in [0, 1)")


@checked(a=_left_end, b=_right_end, N=natural)
def Index(a: float, b: float, N: int) -> int:
    """Variant of Algorithm 2: i ← Index(a, b)

    Which of N equal parts of [0, 1] an interval stands at: the middle one of those it meets.
    Input: 0 ≤ a < b ≤ 1, the ends of the interval.
    Output: i ∈ [N].
    Hyperparameters: N, 128 of rows and of columns.
    """
    # 1: T ← {⌊Na⌋+1, …, max(⌊Na⌋+1, ⌈Nb⌉)}
    T = torch.arange(floor(N * a), max(floor(N * a) + 1, ceil(N * b)))
    # 2: return i = ⌊mean(T) + ½⌋
    return int(T[0] + T[-1] + 1) // 2


@checked(a=_left_end, b=_right_end, N=natural, generator=random)
def RandomIndex(a: float, b: float, N: int, generator: torch.Generator | None = None) -> int:
    """Variant of Algorithm 2: i ← RandomIndex(a, b)

    The same in training: any of the parts that the interval meets, so that a model learns all of them.
    Input: 0 ≤ a < b ≤ 1, the ends of the interval.
    Output: i ∈ [N].
    Hyperparameters: N, 128 of rows and of columns.
    """
    # 1: T ← {⌊Na⌋+1, …, max(⌊Na⌋+1, ⌈Nb⌉)}
    T = torch.arange(floor(N * a), max(floor(N * a) + 1, ceil(N * b)))
    # 2: return i, sampled uniformly from T
    return int(T[sample(torch.full((len(T),), 1 / len(T)), generator)])


def at_random(s: Sequence[Token], N: int, generator: torch.Generator | None = None) -> list[Token]:
    """s with the rows of every patch in part i of N alone, i ← RandomIndex(r, r′), and so its columns.

    Index(r, r′) then is i: training draws once, and P remains a function of θ.
    """

    def part(ends: tuple[float, float]) -> tuple[float, float]:
        i = RandomIndex(*ends, N, generator)
        return (i + 1 / 4) / N, (i + 3 / 4) / N

    def moved(patch: Patch) -> Patch:
        return replace(patch, rows=part(patch.rows), columns=part(patch.columns))

    return [each if each.patch is None else replace(each, patch=moved(each.patch)) for each in s]


# Line 2 -------------------------------------------------------------------------------------------


@checked(s=token, G=groups, eps=epsilon)
def GatoEmbedding(
    s: Token,
    theta_e: GatoEmbeddingTheta,
    *,
    G: int,
    eps: float = 1e-5,
    Index: Indexing = Index,
) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 1: e ← GatoEmbedding(s | θ_e)

    The vector of a token of any modality.
    Input: s = (κ, x, p), see Token: a token ID x, or for κ = img a patch (A, [r, r′], [c, c′]).
    Output: e ∈ ℝ^{d_e}, the vector representation of the token.
    Parameters: θ_e consisting of W_e ∈ ℝ^{d_e×N_V}; W_loc ∈ ℝ^{d_e×N_loc}, of the index within the timestep;
    w_a ∈ ℝ^{d_e}, of all actions; W_row, W_col ∈ ℝ^{d_e×N_grid}, of places in an image; 𝒲_res, see ResNet.
    Hyperparameters: G, ε of ResNet.
    """
    # 1: e ← ResNet(A/√n | 𝒲_res) if κ = img, else W_e[:,x]  ⟦e ∈ ℝ^{d_e}⟧
    e = ResNet(s.patch.A / sqrt(s.patch.n), theta_e.W_res, G, eps) if s.patch else theta_e.W_e[:, s.x]
    # 2: e ← e + W_row[:,Index(r, r′)] if κ = img
    e = e + theta_e.W_row[:, Index(*s.patch.rows, theta_e.W_row.shape[1])] if s.patch else e
    # 3: e ← e + W_col[:,Index(c, c′)] if κ = img
    e = e + theta_e.W_col[:, Index(*s.patch.columns, theta_e.W_col.shape[1])] if s.patch else e
    # 4: e ← e + W_loc[:,p] if κ ∈ {text, obs, img}
    e = e + theta_e.W_loc[:, s.p] if s.kappa in LOCAL else e
    # 5: return e + w_a if κ = act, else e  ⟦e ∈ ℝ^{d_e}⟧
    return e + theta_e.w_a if s.kappa == "act" else e


@checked(theta=parameters(GatoTheta, wider=True), s=token_sequence, G=groups, eps=epsilon)
def gato_embed(
    s: Sequence[Token],
    theta: GatoTheta,
    *,
    G: int,
    eps: float = 1e-5,
    Index: Indexing = Index,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: X ← gato_embed(s | θ)

    Tokens of all modalities, and positions where θ has them: lines 2 and 3 of Gato.
    """
    # 1: for t∈[ℓ]: e_t ← GatoEmbedding(s[t] | θ_e) + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    embedding = partial(GatoEmbedding, theta_e=theta.theta_e, G=G, eps=eps, Index=Index)
    e = [embedding(s[t]) + theta.W_p[:, t] for t in range(length(s))]
    # 2: return X = [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return columns(e)


@checked(s=token_sequence, G=groups, eps=epsilon, Mask=masks)
def Gato(
    s: Sequence[Token],
    theta: GatoTheta,
    *,
    G: int,
    eps: float = 1e-5,
    Index: Indexing = Index,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
    Mask: Masks = unidirectional,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Gato(s | θ)

    Gato (Reed et al. 2022): text, images, values and actions in one decoder. W_p = 0 as it was published.
    Input: s, a sequence of tokens of any modalities, see Token.
    Output: P ∈ (0,1)^{N_V×length(s)}, where the t-th column of P represents P̂_θ(x[t+1] | s[1:t]).
    Hyperparameters: as in Algorithm 10; G, see ResNet.
    Parameters: θ, see GatoTheta.
    """
    # 1: ℓ ← length(s)
    ell = length(s)
    # 2: for t∈[ℓ]: e_t ← GatoEmbedding(s[t] | θ_e) + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    embedding = partial(GatoEmbedding, theta_e=theta.theta_e, G=G, eps=eps, Index=Index)
    e = [embedding(s[t]) + theta.W_p[:, t] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))
        # 6: X ← X + MHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧)
        X = X + MHAttention(X_tilde, X_tilde, layer.W, Mask(ell, l))
        # 7: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X_tilde = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X_tilde + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)
