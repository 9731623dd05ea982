"""Algorithms 11–13: training by stochastic gradient descent on the log loss (§7).

Each takes the transformer it trains by keyword, so that a variant trains like the paper's own.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor
from torch.func import grad

from .architectures import DTransformer, EDTransformer, ETransformer
from .domains import (
    checked,
    learning_rate,
    natural,
    parameters,
    probability,
    random,
    sequences,
    starting_with_bos,
    without_mask_tokens,
)
from .notation import choose, length
from .theta import DTheta, EDTheta, ETheta


@checked(
    theta=parameters(EDTheta, wider=True),
    zs=sequences(),
    xs=sequences(starting_with_bos),
    N_epochs=natural,
    eta=learning_rate,
)
def EDTraining(
    zs: list[Int[Tensor, "_"]],
    xs: list[Int[Tensor, "_"]],
    theta: EDTheta,
    N_epochs: int,
    eta: float,
    *,
    EDTransformer: Callable[..., Tensor] = EDTransformer,
) -> EDTheta:
    """Algorithm 11: θ̂ ← EDTraining(z_{1:N_data}, x_{1:N_data}, θ)

    Training a seq2seq model.
    Input: {(z_n, x_n)}_{n=1}^{N_data}, a dataset of sequence pairs.
    Input: θ, initial transformer parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    # 1: for i = 1, 2, …, N_epochs do
    for i in range(N_epochs):
        # 2: for n = 1, 2, …, N_data do
        for z_n, x_n in zip(zs, xs, strict=True):
            # 3: ℓ ← length(x_n)
            ell = length(x_n)
            # 4: P(θ) ← EDTransformer(z_n, x_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            P = partial(EDTransformer, z_n, x_n)
            # 5: loss(θ) = −Σ_{t=1}^{ℓ−1} log P(θ)[x_n[t+1],t]  ⟦loss(θ) ∈ ℝ⟧
            loss = lambda theta: -P(theta)[x_n[1:], torch.arange(ell - 1)].log().sum()
            # 6: θ ← θ − η·∇loss(θ)
            theta = theta - eta * grad(loss)(theta)
        # 7: end
    # 8: end
    # 9: return θ̂ = θ
    return theta


@checked(
    theta=parameters(ETheta, wider=True),
    xs=sequences(without_mask_tokens),
    N_epochs=natural,
    eta=learning_rate,
    p_mask=probability,
    generator=random,
)
def ETraining(
    xs: list[Int[Tensor, "_"]],
    theta: ETheta,
    N_epochs: int,
    eta: float,
    p_mask: float,
    generator: torch.Generator | None = None,
    *,
    ETransformer: Callable[..., Tensor] = ETransformer,
) -> ETheta:
    """Algorithm 12: θ̂ ← ETraining(x_{1:N_data}, θ)

    Training by masked language modelling.
    Input: {x_n}_{n=1}^{N_data}, a dataset of sequences.
    Input: θ, initial encoder-only transformer parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞), p_mask ∈ (0,1)
    """
    # 1: for i = 1, 2, …, N_epochs do
    for i in range(N_epochs):
        # 2: for n = 1, 2, …, N_data do
        for x_n in xs:
            # 3: ℓ ← length(x_n)
            ell = length(x_n)
            # 4: for t = 1, 2, …, ℓ do
            x_tilde = x_n.clone()
            for t in range(ell):
                # 5: x̃_n[t] ← mask_token or x_n[t] randomly with probability p_mask or 1−p_mask  (erratum 12)
                p = 0.0 if int(x_n[t]) in theta.special_tokens.values() else p_mask
                x_tilde[t] = choose(p, theta.mask_token, x_n[t], generator)
            # 6: end
            # 7: T̃ ← {t∈[ℓ]: x̃_n[t] = mask_token}
            T_tilde = (x_tilde == theta.mask_token).nonzero()[:, 0]
            # 8: P(θ) ← ETransformer(x̃_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            P = partial(ETransformer, x_tilde)
            # 9: loss(θ) = −Σ_{t∈T̃} log P(θ)[x_n[t],t]  ⟦loss(θ) ∈ ℝ⟧
            loss = lambda theta: -P(theta)[x_n[T_tilde], T_tilde].log().sum()
            # 10: θ ← θ − η·∇loss(θ)
            theta = theta - eta * grad(loss)(theta)
        # 11: end
    # 12: end
    # 13: return θ̂ = θ
    return theta


@checked(
    theta=parameters(DTheta, wider=True),
    xs=sequences(starting_with_bos),
    N_epochs=natural,
    eta=learning_rate,
)
def DTraining(
    xs: list[Int[Tensor, "_"]],
    theta: DTheta,
    N_epochs: int,
    eta: float,
    *,
    DTransformer: Callable[..., Tensor] = DTransformer,
) -> DTheta:
    """Algorithm 13: θ̂ ← DTraining(x_{1:N_data}, θ)

    Training next token prediction.
    Input: {x_n}_{n=1}^{N_data}, a dataset of sequences.
    Input: θ, initial decoder-only transformer parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    # 1: for i = 1, 2, …, N_epochs do
    for i in range(N_epochs):
        # 2: for n = 1, 2, …, N_data do
        for x_n in xs:
            # 3: ℓ ← length(x_n)
            ell = length(x_n)
            # 4: P(θ) ← DTransformer(x_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            P = partial(DTransformer, x_n)
            # 5: loss(θ) = −Σ_{t=1}^{ℓ−1} log P(θ)[x_n[t+1],t]  ⟦loss(θ) ∈ ℝ⟧
            loss = lambda theta: -P(theta)[x_n[1:], torch.arange(ell - 1)].log().sum()
            # 6: θ ← θ − η·∇loss(θ)
            theta = theta - eta * grad(loss)(theta)
        # 7: end
    # 8: end
    # 9: return θ̂ = θ
    return theta
