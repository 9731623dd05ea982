"""Masks: which keys a query attends to. Rows are keys, columns are queries."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

Masks = Callable[[int, int], Tensor]  # Mask ∈ {0,1}^{ℓ×ℓ} from ℓ and the layer l


def bidirectional(ell_z: int, ell_x: int) -> Bool[Tensor, "ell_z ell_x"]:
    """Mask ≡ 1: every query t_x attends to every key t_z."""
    return torch.ones(ell_z, ell_x, dtype=torch.bool)


def unidirectional(ell: int, l: int = 0) -> Bool[Tensor, "ell ell"]:
    """Mask[t_z,t_x] = ⟦t_z ≤ t_x⟧: every query attends to itself and what precedes it, in every layer l."""
    return torch.ones(ell, ell, dtype=torch.bool).triu()


def banded(ell: int, w: int) -> Bool[Tensor, "ell ell"]:
    """Mask[t_z,t_x] = ⟦t_x − w < t_z ≤ t_x⟧: every query attends to itself and the w − 1 tokens before it."""
    if not isinstance(w, int) or w < 1:
        raise ValueError(f"w: expected a width of at least 1, got {w}")
    return unidirectional(ell) & ~torch.ones(ell, ell, dtype=torch.bool).triu(w)


def sparse(w: int, pattern: str = "01") -> Masks:
    """A band of width w in the layers for which the pattern, repeated, has a 1; dense where it has a 0.

    GPT-3's is "01": dense in layers l = 1, 3, 5, …, a band in layers l = 2, 4, 6, … Mistral's is "1".
    """
    banded(1, w)
    if not isinstance(pattern, str) or not pattern or set(pattern) - {"0", "1"}:
        raise ValueError(f"pattern: expected a string of 0 and 1, such as 01, got {pattern!r}")
    return lambda ell, l: banded(ell, w) if pattern[l % len(pattern)] == "1" else unidirectional(ell)
