"""Masks: which keys a query sees. A value for each layer; `model/mask.py` computes with it, `formal/mask.py` states it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mask:
    """Bidirectional: every query sees every key."""

    @property
    def causal(self) -> bool:
        return False

    def keys(self, ell: int) -> float:
        """How many of ℓ keys a query sees, on average."""
        return float(ell)


@dataclass(frozen=True)
class Causal(Mask):
    """A query sees itself and what precedes it."""

    @property
    def causal(self) -> bool:
        return True

    def keys(self, ell: int) -> float:
        return (ell + 1) / 2


@dataclass(frozen=True)
class Band(Causal):
    """A query sees itself and the width − 1 tokens before it."""

    width: int

    def keys(self, ell: int) -> float:
        w = self.width
        return super().keys(ell) if w >= ell else (w * (w + 1) / 2 + (ell - w) * w) / ell
