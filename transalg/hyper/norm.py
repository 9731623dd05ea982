"""Norms: their parameters and what they cost. `model/norm.py` computes them, `formal/` states them (layer_norm, RMSnorm)."""

from dataclasses import dataclass

from transalg.hyper.heads import Shapes


@dataclass(frozen=True)
class Norm:
    """A norm with γ, and β if it has an offset."""

    offset: bool
    kept: int  # vectors that a training step keeps of one token

    def shapes(self, gamma: str, width: int) -> Shapes:
        """The parameters of the norm whose γ has this name."""
        names = [gamma, gamma.replace("gamma", "beta")] if self.offset else [gamma]
        return dict.fromkeys(names, (width,))


NORMS: dict[str, Norm] = {
    "layer_norm": Norm(offset=True, kept=2),
    "RMSnorm": Norm(offset=False, kept=3),
}
