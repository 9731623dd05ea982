"""How big an example is, and what else it takes: the options of `transalg trace`, without torch."""

from dataclasses import dataclass
from typing import Annotated

from transalg.limits import limits

Layers = Annotated[int, limits("[1, 32]")]  # of a model that is shown number by number
Heads = Annotated[int, limits("[1, 100]")]
Width = Annotated[int, limits("[1, 1000]")]


@dataclass(frozen=True)
class Sizes:
    """The hyperparameters of a random θ. d_attn and d_mid are d_e / H."""

    L: Layers = 2
    """Layers, of the encoder and of the decoder alike."""
    H: Heads = 2
    """Attention heads."""
    H_kv: Heads = 1
    """Heads of keys and values, which groups of the H heads share: Llama and its kin."""
    d_e: Width = 16
    """Embedding size."""
    d_mlp: Width = 32
    """Hidden size of the MLPs."""
    d_f: Width = 12
    """Size of Algorithm 9's final projection."""


@dataclass(frozen=True)
class Settings:
    """What else an algorithm takes."""

    N_epochs: Annotated[int, limits("[0, 10000]")] = 3
    """Algorithms 11–13: passes over the data."""
    eta: Annotated[float | None, limits("(0, 1000]", float)] = None
    """Algorithms 11–13: the learning rate η. (default: the largest of 0.1, 0.05, 0.025, … with which every step lowers the loss)"""
    p_mask: Annotated[float, limits("(0, 1)", float)] = 0.3
    """Algorithm 12: the probability of masking a token."""
    ell_gen: Annotated[int | None, limits("[0, 1000000]")] = None
    """Algorithms 14 and 15: how many tokens to generate at most. (default: 4; with --run, Algorithm 15 ends as `transalg predict` does)"""
    tau: Annotated[float | None, limits("[0, ∞]", float)] = None
    """Algorithms 14 and 15: the temperature τ, from 0 to inf. (default: 0.5; with --run, that of `transalg generate` and `predict`)"""
    w: Annotated[int, limits("[1, 1000000]")] = 4
    """Mistral: the width of its window."""
