"""Classification with an encoder (§3): Algorithms 9, 12 and 15 with classes in the place of tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import grad

from .components import MHAttention, MultiHead, Norm, layer_norm
from .domains import (
    block,
    checked,
    classes,
    epsilon,
    learning_rate,
    natural,
    parameters,
    sequences,
    starting_with_bos,
)
from .mask import bidirectional
from .notation import GELU, Activation, columns, length, softmax
from .pooling import Pooling, bos_pooling
from .theta import EncoderTheta, ETheta
from .tree import normal


@dataclass(frozen=True, eq=False, repr=False)
class ECTheta(EncoderTheta):
    """θ of the classifier: Algorithm 9's, with a matrix of classes W_c, b_c in the place of W_u."""

    W_c: Float[Tensor, "N_C d_f"]
    b_c: Float[Tensor, "N_C"]

    @classmethod
    def from_encoder(cls, theta: ETheta, N_C: int, generator: torch.Generator | None = None) -> "ECTheta":
        """A classifier on a trained encoder: all of its θ but W_u, and a random W_c."""
        d_f = len(theta.b_f)
        W_c = normal((N_C, d_f), d_f, generator, theta.W_f.dtype, theta.W_f.device)
        named = {name: part for name, part in theta.named().items() if name != "W_u"}
        return cls.from_named(named | {"W_c": W_c, "b_c": W_c.new_zeros(N_C)}, theta.special)


@checked(x=starting_with_bos, eps=epsilon)
def EClassifier(
    x: Int[Tensor, "ell"],
    theta: ECTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
    pooling: Pooling = bos_pooling,
) -> Float[Tensor, "N_C"]:
    """Variant of Algorithm 9: p ← EClassifier(x | θ)

    Classification with an encoder-only transformer: Algorithm 9, reading the classes off one vector of the
    text, by default that of its first token, bos_token.
    Input: x ∈ V*, a sequence of token IDs.
    Output: p ∈ Δ([N_C]), the distribution P̂_θ(c | x) over the classes.
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_f, d_attn, d_mid, N_C ∈ ℕ, read off θ; ε.
    Parameters: θ, see ECTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: X ← X + MHAttention(X | 𝒲_l, Mask≡1)
        X = X + MHAttention(X, X, layer.W, bidirectional(ell, ell))
        # 6: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)
        X = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))
        # 7: X ← X + W_mlp2^l GELU(W_mlp1^l X + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]
        # 8: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))
    # 9: end
    # 10: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = GELU(theta.W_f @ X + theta.b_f[:, None])
    # 11: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))
    # 12: return p = softmax(W_c pooling(X) + b_c)  ⟦p ∈ ℝ^{N_C}⟧
    return softmax(theta.W_c @ pooling(X) + theta.b_c)


@checked(theta=parameters(ECTheta, wider=True), x=starting_with_bos, C=block)
def MultiTaskClassifier(
    x: Int[Tensor, "ell"],
    C: list[int],
    theta: ECTheta,
    *,
    EClassifier: Callable[..., Tensor] = EClassifier,
) -> Float[Tensor, "N_h"]:
    """Variant of Algorithm 9: p ← MultiTaskClassifier(x, C | θ)

    Multi-task classification (§8): one encoder for several data sets, and a head for each. The heads are
    blocks of rows of W_c and b_c. In the loss of ECTraining, p takes the place of EClassifier's.
    Input: x ∈ V*, a sequence of token IDs; C ⊆ [N_C], the classes of its data set, N_h of them.
    Output: p ∈ Δ(C), the distribution P̂_θ(c | x) over the classes of the data set.
    """
    # 1: θ_C ← θ with W_c[C,:], b_c[C]
    theta_C = replace(theta, W_c=theta.W_c[C], b_c=theta.b_c[C])
    # 2: return p = EClassifier(x | θ_C)  ⟦p ∈ ℝ^{N_h}⟧
    return EClassifier(x, theta_C)


@checked(
    theta=parameters(ECTheta, wider=True),
    xs=sequences(starting_with_bos),
    cs=classes,
    N_epochs=natural,
    eta=learning_rate,
)
def ECTraining(
    xs: list[Int[Tensor, "_"]],
    cs: list[int],
    theta: ECTheta,
    N_epochs: int,
    eta: float,
    *,
    EClassifier: Callable[..., Tensor] = EClassifier,
) -> ECTheta:
    """Variant of Algorithm 12: θ̂ ← ECTraining(x_{1:N_data}, c_{1:N_data}, θ)

    Training a classifier.
    Input: {(x_n, c_n)}_{n=1}^{N_data}, a dataset of sequences and their classes.
    Input: θ, initial classifier parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    # 1: for i = 1, 2, …, N_epochs do
    for i in range(N_epochs):
        # 2: for n = 1, 2, …, N_data do
        for x_n, c_n in zip(xs, cs, strict=True):
            # 3: p(θ) ← EClassifier(x_n | θ)  ⟦p(θ) ∈ ℝ^{N_C}⟧
            p = partial(EClassifier, x_n)
            # 4: loss(θ) = −log p(θ)[c_n]  ⟦loss(θ) ∈ ℝ⟧
            loss = lambda theta: -p(theta)[c_n].log()
            # 5: θ ← θ − η·∇loss(θ)
            theta = theta - eta * grad(loss)(theta)
        # 6: end
    # 7: end
    # 8: return θ̂ = θ
    return theta


@checked(theta_hat=parameters(ECTheta, wider=True), x=starting_with_bos)
def ECInference(
    x: Int[Tensor, "ell"],
    theta_hat: ECTheta,
    *,
    EClassifier: Callable[..., Tensor] = EClassifier,
) -> int:
    """Variant of Algorithm 15: ĉ ← ECInference(x, θ̂)

    Using a trained classifier: the most probable class.
    Input: x ∈ V*, a sequence of token IDs.
    Input: θ̂, trained classifier parameters.
    Output: ĉ ∈ [N_C], its class.
    """
    # 1: p ← EClassifier(x | θ̂)  ⟦p ∈ ℝ^{N_C}⟧
    p = EClassifier(x, theta_hat)
    # 2: return ĉ = argmax_c p[c]
    return int(p.argmax())
