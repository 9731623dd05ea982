"""Algorithms 14–15: prompting a trained transformer, and predicting with a trained seq2seq one (§7).

Each takes the transformer it runs by keyword, so that a variant answers like the paper's own.
"""

from collections.abc import Callable
from math import inf

import torch
from jaxtyping import Int
from torch import Tensor

from .architectures import DTransformer, EDTransformer
from .domains import cap, checked, index, natural, optional, parameters, prompt, random, temperature, tokens
from .notation import append, length, sample, tempered
from .theta import DTheta, EDTheta


@checked(
    theta_hat=parameters(DTheta, wider=True),
    x=prompt,
    ell_gen=natural,
    tau=temperature,
    generator=random,
    stop=optional(index("N_V")),
)
def DInference(
    x: Int[Tensor, "_"],
    theta_hat: DTheta,
    ell_gen: int,
    tau: float,
    generator: torch.Generator | None = None,
    *,
    stop: int | None = None,
    DTransformer: Callable[..., Tensor] = DTransformer,
) -> Int[Tensor, "_"]:
    """Algorithm 14: y ← DInference(x, θ̂)

    Prompting a trained model and using it for prediction.
    Input: trained transformer parameters θ̂.
    Input: x ∈ V*, a prompt; beyond ℓ_max tokens, the last ℓ_max count; the empty one is [bos_token].
    Output: y ∈ V*, the transformer's continuation of the prompt.
    Hyperparameters: ℓ_gen ∈ ℕ, τ ∈ [0,∞]; a token to stop after, if given.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for i = 1, 2, …, ℓ_gen do
    for i in range(1, ell_gen + 1):
        # 3: P ← DTransformer(x | θ̂)  ⟦P ∈ ℝ^{N_V×min(ℓ+i−1, ℓ_max)}⟧  (erratum 8)
        P = DTransformer(x[-theta_hat.ell_max :], theta_hat)
        # 4: p ← P[:,ℓ+i−1]  ⟦p ∈ ℝ^{N_V}⟧  (erratum 8)
        p = P[:, -1]
        # 5: sample a token y from q ∝ p^{1/τ}
        y = sample(tempered(p, tau), generator)
        # 6: x ← [x, y]  (erratum 8)
        x = append(x, y)
        if y == stop:
            break
    # 7: end
    # 8: return y = x[ℓ+1 : ℓ+ℓ_gen]
    return x[ell:]


@checked(theta_hat=parameters(EDTheta, wider=True), z=tokens, tau=temperature, generator=random, ell_gen=cap)
def EDInference(
    z: Int[Tensor, "_"],
    theta_hat: EDTheta,
    tau: float,
    generator: torch.Generator | None = None,
    *,
    ell_gen: int | float = inf,
    EDTransformer: Callable[..., Tensor] = EDTransformer,
) -> Int[Tensor, "_"]:
    """Algorithm 15: x̂ ← EDInference(z, θ̂)

    Using a trained seq2seq model for prediction.
    Input: a seq2seq transformer and trained parameters θ̂ of the transformer.
    Input: z ∈ V*, input sequence, e.g. a sentence in English.
    Output: x̂ ∈ V*, output sequence, e.g. the sentence in German, from bos_token to eos_token.
    Hyperparameters: τ ∈ [0,∞]; ℓ_gen ≤ ℓ_max, after which many tokens it stops without eos_token.
    """
    # 1: x̂ ← [bos_token]
    x_hat = z.new_tensor([theta_hat.bos_token])
    # 2: y ← 0  (erratum 10)
    y = -1
    # 3: while y ≠ eos_token do  (erratum 10)
    while y != theta_hat.eos_token and length(x_hat) <= ell_gen:
        # 4: P ← EDTransformer(z, x̂ | θ̂)  ⟦P ∈ ℝ^{N_V×length(x̂)}⟧
        P = EDTransformer(z, x_hat, theta_hat)
        # 5: p ← P[:,length(x̂)]  ⟦p ∈ ℝ^{N_V}⟧
        p = P[:, -1]
        # 6: sample a token y from q ∝ p^{1/τ}
        y = sample(tempered(p, tau), generator)
        # 7: x̂ ← [x̂, y]
        x_hat = append(x_hat, y)
    # 8: end
    # 9: return x̂
    return x_hat
