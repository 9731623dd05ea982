"""How big an example is, and what else it takes: the options of `transalg trace`, without torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The hyperparameters of a random θ. d_attn and d_mid are d_e / H."""

    L: int = 2
    """Layers, of the encoder and of the decoder alike."""
    H: int = 2
    """Attention heads."""
    H_kv: int = 1
    """Heads of keys and values, which groups of the H heads share: Llama and its kin."""
    d_e: int = 16
    """Embedding size."""
    d_mlp: int = 32
    """Hidden size of the MLPs."""
    d_f: int = 12
    """Size of Algorithm 9's final projection."""


@dataclass(frozen=True)
class Settings:
    """What else an algorithm takes."""

    N_epochs: int = 3
    """Algorithms 11–13: passes over the data."""
    eta: float | None = None
    """Algorithms 11–13: the learning rate η. (default: the largest of 0.1, 0.05, 0.025, … with which every step lowers the loss)"""
    p_mask: float = 0.3
    """Algorithm 12: the probability of masking a token."""
    ell_gen: int | None = None
    """Algorithms 14 and 15: how many tokens to generate at most. (default: 4; with --run, Algorithm 15 ends as `transalg predict` does)"""
    tau: float | None = None
    """Algorithms 14 and 15: the temperature τ, from 0 to inf. (default: 1; with --run, that of `transalg generate` and `predict`)"""
    w: int = 4
    """Mistral: the width of its window."""
