"""Norms: their parameters and what they cost. `model/norm.py` computes them, `formal/` states them (layer_norm, RMSnorm, batch_norm)."""

from dataclasses import dataclass

from transalg.hyper.heads import Shapes


@dataclass(frozen=True)
class Norm:
    """A norm with γ, and β if it has an offset."""

    offset: bool
    kept: int  # vectors that a training step keeps of one token
    doc: str = ""
    running: bool = False  # whether it has running statistics, a mean and a variance, which no gradient trains
    initial: float = 1.0  # γ before training

    def shapes(self, gamma: str, width: int) -> Shapes:
        """The parameters of the norm whose γ has this name."""
        names = [gamma, gamma.replace("gamma", "beta")] if self.offset else [gamma]
        return dict.fromkeys(names, (width,))

    def statistics(self, gamma: str) -> tuple[str, ...]:
        """The names of its running statistics: m1 and v1 beside gamma1."""
        return (gamma.replace("gamma", "m"), gamma.replace("gamma", "v")) if self.running else ()


NORMS: dict[str, Norm] = {
    "layer_norm": Norm(offset=True, kept=2, doc="the paper's, of each token by itself"),
    "RMSnorm": Norm(offset=False, kept=2, doc="layer_norm with m = β = 0"),
    "RMSnorm_1p": Norm(offset=False, kept=2, doc="RMSnorm with the scale 1 + γ (Gemma)", initial=0.0),
    "batch_norm": Norm(
        offset=True,
        kept=2,
        doc="m and v of each feature over all tokens of a batch, running ones after training; in training a token sees later ones through them",
        running=True,
    ),
}
