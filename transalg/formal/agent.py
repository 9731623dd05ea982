"""Gato at work: Algorithms 13 and 14 with tokens of all modalities, for training, captions and control."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.func import grad

from .domains import (
    Scope,
    checked,
    index,
    learning_rate,
    many_of,
    natural,
    number,
    optional,
    parameters,
    random,
    refuse,
    temperature,
)
from .gato import Gato, GatoTheta, at_random
from .modality import Token, loss_weight, token_prompt, token_sequence, token_sequences
from .notation import choose, length, sample, tempered

Transformer = Callable[..., Tensor]  # P ← Gato(s | θ), its hyperparameters given


@runtime_checkable
class Environment(Protocol):
    """What an agent acts on. It speaks tokens: observations come tokenized, and actions are token IDs."""

    @property
    def actions(self) -> Sequence[Sequence[int]]:
        """𝒜_1, …, 𝒜_A: the token IDs that each element of an action may be."""

    def reset(self) -> Sequence[Token]:
        """The first observation."""

    def step(self, a: list[int]) -> Sequence[Token] | None:
        """The observation after an action; None where the episode ends."""


def environment(symbol: str, env: object, scope: Scope) -> object:
    """An Environment whose actions are in V."""
    if not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        raise refuse(symbol, "an environment with reset, step and actions", type(env).__name__)
    actions = getattr(env, "actions", None)
    if not isinstance(actions, Sequence) or not actions or not all(map(len, actions)):
        raise refuse(symbol, "actions 𝒜_1, …, 𝒜_A, each with a token ID at least", actions)
    for i, A_i in enumerate(actions, start=1):
        for a in A_i:
            index("N_V")(f"{symbol}: 𝒜_{i}", a, scope)
    return env


def episodes(symbol: str, E: object, scope: Scope) -> list[list[Token]]:
    """At least one episode, each of one token or more; of any length, for a part of it is a prompt."""
    if not isinstance(E, Sequence) or not E:
        raise refuse(symbol, "at least one episode", "none" if isinstance(E, Sequence) else type(E).__name__)
    return [token_sequence(f"{symbol}[{n}]", u, scope, longest=float("inf")) for n, u in enumerate(E)]


def tasks_of(symbol: str, tasks: object, scope: Scope) -> list[object]:
    """The task of each sequence, by any name."""
    return many_of(symbol, tasks, scope)


share = number(lambda p: 0 <= p <= 1, "a number in [0, 1]")


@checked(theta=parameters(GatoTheta, wider=True), s=token_sequence, E=episodes, generator=random)
def GatoPrompt(
    s: Sequence[Token],
    E: Sequence[Sequence[Token]],
    theta: GatoTheta,
    generator: torch.Generator | None = None,
) -> list[Token]:
    """Variant of Algorithm 13: u ← GatoPrompt(s, E)

    A demonstration to put before a sequence of the same task; as long as ℓ_max leaves room.
    Input: s, a sequence; E, other episodes of its task.
    Output: u, a part of one of them: half of the time its end, half of the time any.
    """
    # 1: u ← an episode of E, sampled uniformly
    u = list(E[sample(torch.full((len(E),), 1 / len(E)), generator)])
    # 2: k ← min(length(u), ℓ_max − length(s))
    k = min(length(u), theta.ell_max - length(s))
    # 3: j ← one of 0, …, length(u) − k, sampled uniformly
    j = sample(torch.full((length(u) - k + 1,), 1 / (length(u) - k + 1)), generator)
    # 4: j ← length(u) − k or j randomly with probability ½ or ½
    j = int(choose(0.5, length(u) - k, torch.tensor(j), generator))
    # 5: return u[j+1 : j+k]
    return u[j : j + k]


@checked(
    theta=parameters(GatoTheta, wider=True),
    ss=token_sequences,
    tasks=tasks_of,
    N_epochs=natural,
    eta=learning_rate,
    p_prompt=share,
    generator=random,
)
def GatoTraining(
    ss: Sequence[Sequence[Token]],
    tasks: Sequence[object],
    theta: GatoTheta,
    N_epochs: int,
    eta: float,
    p_prompt: float = 0.25,
    generator: torch.Generator | None = None,
    *,
    Gato: Transformer = Gato,
) -> GatoTheta:
    """Variant of Algorithm 13: θ̂ ← GatoTraining(s_{1:N_data}, θ)

    Training next token prediction on all modalities, where the next token is text or an action.
    m[t] ∈ [0,∞) is the weight of token t in the loss; as published, ⟦κ_t ∈ {text, act}⟧.
    Input: {s_n}_{n=1}^{N_data}, a dataset of sequences, each of one of several tasks.
    Input: θ, initial parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞), p_prompt ∈ [0,1]
    """
    # 1: for i = 1, 2, …, N_epochs do
    for i in range(N_epochs):
        # 2: for n = 1, 2, …, N_data do
        for n, s_n in enumerate(ss):
            # 3: s ← [GatoPrompt(s_n, E), s_n] or s_n randomly with probability p_prompt or 1−p_prompt
            E = [u for k, u in enumerate(ss) if k != n and tasks[k] == tasks[n]]
            prompted = E and choose(p_prompt, 1, torch.tensor(0), generator)
            s = [*GatoPrompt(s_n, E, theta, generator), *s_n] if prompted else list(s_n)
            # 4: s ← s with every patch at a random index of its intervals, see RandomIndex
            s = at_random(s, theta.W_row.shape[1], generator)
            # 5: T ← {t∈[length(s)−1]: m[t+1] > 0}
            ids = torch.tensor([each.x for each in s])
            m = torch.tensor([loss_weight(each) for each in s], dtype=theta.W_e.dtype)
            T = m[1:].nonzero()[:, 0]
            # 6: P(θ) ← Gato(s | θ)  ⟦P(θ) ∈ ℝ^{N_V×ℓ}⟧
            P = partial(Gato, s)
            # 7: loss(θ) = −Σ_{t∈T} m[t+1] log P(θ)[x[t+1],t]  ⟦loss(θ) ∈ ℝ⟧
            loss = lambda theta: -(m[T + 1] * P(theta)[ids[T + 1], T].log()).sum()
            # 8: θ ← θ − η·∇loss(θ)
            theta = theta - eta * grad(loss)(theta)
        # 9: end
    # 10: end
    # 11: return θ̂ = θ
    return theta


@checked(
    theta_hat=parameters(GatoTheta, wider=True),
    s=token_prompt,
    ell_gen=natural,
    tau=temperature,
    generator=random,
    stop=optional(index("N_V")),
)
def GatoInference(
    s: Sequence[Token],
    theta_hat: GatoTheta,
    ell_gen: int,
    tau: float,
    generator: torch.Generator | None = None,
    *,
    stop: int | None = None,
    Gato: Transformer = Gato,
) -> Int[Tensor, "_"]:
    """Variant of Algorithm 14: y ← GatoInference(s, θ̂)

    Algorithm 14 with a prompt of any modalities: the patches of an image, and y is its caption.
    Input: trained parameters θ̂.
    Input: s, a prompt; beyond ℓ_max tokens, the last ℓ_max count.
    Output: y ∈ V*, the continuation as text.
    Hyperparameters: ℓ_gen ∈ ℕ, τ ∈ [0,∞]; a token to stop after, if given.
    """
    # 1: ℓ ← length(s)
    ell = length(s)
    # 2: for i = 1, 2, …, ℓ_gen do
    for i in range(1, ell_gen + 1):
        # 3: P ← Gato(s | θ̂)  ⟦P ∈ ℝ^{N_V×min(ℓ+i−1, ℓ_max)}⟧
        P = Gato(s[-theta_hat.ell_max :], theta_hat)
        # 4: p ← P[:,ℓ+i−1]  ⟦p ∈ ℝ^{N_V}⟧
        p = P[:, -1]
        # 5: sample a token y from q ∝ p^{1/τ}
        y = sample(tempered(p, tau), generator)
        # 6: s ← [s, (text, y, p+1)], p the index of the last token
        s = [*s, Token("text", y, s[-1].p + 1)]
        if y == stop:
            break
    # 7: end
    # 8: return y = x[ℓ+1 : ℓ+ℓ_gen]
    return torch.tensor([each.x for each in s[ell:]], dtype=torch.long)


@checked(
    theta_hat=parameters(GatoTheta, wider=True),
    env=environment,
    prompt=token_prompt,
    tau=temperature,
    sep=index("N_V"),
    generator=random,
)
def GatoControl(
    env: Environment,
    prompt: Sequence[Token],
    theta_hat: GatoTheta,
    tau: float,
    sep: int,
    generator: torch.Generator | None = None,
    *,
    Gato: Transformer = Gato,
) -> list[Token]:
    """Variant of Algorithm 14: s ← GatoControl(env, prompt, θ̂)

    Acting with a trained model: observations are its prompt, and what it writes are actions.
    Input: env, an environment; prompt, a demonstration, perhaps none.
    Input: trained parameters θ̂.
    Output: s, the prompt and the episode, of A actions and an observation for every timestep.
    Hyperparameters: τ ∈ [0,∞]; the separator's token ID.
    """
    # 1: s ← prompt
    s = list(prompt)
    # 2: o ← reset(env)
    o = env.reset()
    # 3: while o ≠ ∅ do
    while o is not None:
        # 4: s ← [s, o, sep]
        s = [*s, *o, Token("sep", sep)]
        # 5: for i = 1, 2, …, A do
        for A_i in env.actions:
            # 6: P ← Gato(s | θ̂)  ⟦P ∈ ℝ^{N_V×min(ℓ, ℓ_max)}⟧
            P = Gato(s[-theta_hat.ell_max :], theta_hat)
            # 7: p ← P[𝒜_i,ℓ] / Σ_{a∈𝒜_i} P[a,ℓ]  ⟦p ∈ ℝ^{|𝒜_i|}⟧
            p = P[list(A_i), -1] / P[list(A_i), -1].sum()
            # 8: y ← an element of 𝒜_i, sampled from q ∝ p^{1/τ}
            y = A_i[sample(tempered(p, tau), generator)]
            # 9: s ← [s, (act, y)]
            s = [*s, Token("act", y)]
        # 10: end
        # 11: o ← step(env, (x[ℓ−A+1], …, x[ℓ])), the last A tokens of s
        o = env.step([each.x for each in s[-len(env.actions) :]])
    # 12: end
    # 13: return s
    return s
