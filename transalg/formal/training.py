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
from .domains import checked, learning_rate, natural, parameters, probability, random, sequences, starting_with_bos, without_mask_tokens
from .notation import choose, length
from .theta import DTheta, EDTheta, ETheta


@checked(theta=parameters(EDTheta, wider=True), zs=sequences(), xs=sequences(starting_with_bos), N_epochs=natural, eta=learning_rate)
def EDTraining(zs: list[Int[Tensor, "_"]], xs: list[Int[Tensor, "_"]], theta: EDTheta, N_epochs: int, eta: float, *, EDTransformer: Callable[..., Tensor] = EDTransformer) -> EDTheta:
    """Algorithm 11: θ̂ ← EDTraining(z_{1:N_data}, x_{1:N_data}, θ)

    Training a seq2seq model.
    Input: {(z_n, x_n)}_{n=1}^{N_data}, a dataset of sequence pairs.
    Input: θ, initial transformer parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    for i in range(N_epochs):  # 1: for i = 1, 2, …, N_epochs do
        for z_n, x_n in zip(zs, xs, strict=True):  # 2: for n = 1, 2, …, N_data do
            ell = length(x_n)  # 3: ℓ ← length(x_n)
            P = partial(EDTransformer, z_n, x_n)  # 4: P(θ) ← EDTransformer(z_n, x_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            loss = lambda theta: -P(theta)[x_n[1:], torch.arange(ell - 1)].log().sum()  # 5: loss(θ) = −Σ_{t=1}^{ℓ−1} log P(θ)[x_n[t+1],t]  ⟦loss(θ) ∈ ℝ⟧
            theta = theta - eta * grad(loss)(theta)  # 6: θ ← θ − η·∇loss(θ)
        # 7: end
    # 8: end
    return theta  # 9: return θ̂ = θ


@checked(theta=parameters(ETheta, wider=True), xs=sequences(without_mask_tokens), N_epochs=natural, eta=learning_rate, p_mask=probability, generator=random)
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
    for i in range(N_epochs):  # 1: for i = 1, 2, …, N_epochs do
        for x_n, x_tilde in zip(xs, map(torch.clone, xs), strict=True):  # 2: for n = 1, 2, …, N_data do
            ell = length(x_n)  # 3: ℓ ← length(x_n)
            for t in range(ell):  # 4: for t = 1, 2, …, ℓ do
                x_tilde[t] = choose(
                    p_mask if x_n[t] < theta.bos_token else 0.0, theta.mask_token, x_n[t], generator
                )  # 5: x̃_n[t] ← mask_token or x_n[t] randomly with probability p_mask or 1−p_mask  (erratum 12)
            # 6: end
            T_tilde = (x_tilde == theta.mask_token).nonzero()[:, 0]  # 7: T̃ ← {t∈[ℓ]: x̃_n[t] = mask_token}
            P = partial(ETransformer, x_tilde)  # 8: P(θ) ← ETransformer(x̃_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            loss = lambda theta: -P(theta)[x_n[T_tilde], T_tilde].log().sum()  # 9: loss(θ) = −Σ_{t∈T̃} log P(θ)[x_n[t],t]  ⟦loss(θ) ∈ ℝ⟧
            theta = theta - eta * grad(loss)(theta)  # 10: θ ← θ − η·∇loss(θ)
        # 11: end
    # 12: end
    return theta  # 13: return θ̂ = θ


@checked(theta=parameters(DTheta), xs=sequences(starting_with_bos), N_epochs=natural, eta=learning_rate)
def DTraining(xs: list[Int[Tensor, "_"]], theta: DTheta, N_epochs: int, eta: float, *, DTransformer: Callable[..., Tensor] = DTransformer) -> DTheta:
    """Algorithm 13: θ̂ ← DTraining(x_{1:N_data}, θ)

    Training next token prediction.
    Input: {x_n}_{n=1}^{N_data}, a dataset of sequences.
    Input: θ, initial decoder-only transformer parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    for i in range(N_epochs):  # 1: for i = 1, 2, …, N_epochs do
        for x_n in xs:  # 2: for n = 1, 2, …, N_data do
            ell = length(x_n)  # 3: ℓ ← length(x_n)
            P = partial(DTransformer, x_n)  # 4: P(θ) ← DTransformer(x_n | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            loss = lambda theta: -P(theta)[x_n[1:], torch.arange(ell - 1)].log().sum()  # 5: loss(θ) = −Σ_{t=1}^{ℓ−1} log P(θ)[x_n[t+1],t]  ⟦loss(θ) ∈ ℝ⟧
            theta = theta - eta * grad(loss)(theta)  # 6: θ ← θ − η·∇loss(θ)
        # 7: end
    # 8: end
    return theta  # 9: return θ̂ = θ
