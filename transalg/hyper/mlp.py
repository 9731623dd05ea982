"""MLPs (line 8 of Algorithm 10): their parameters and what they cost, under the name of their activation.

`model/mlp.py` computes them, `formal/mlp.py` states them.
"""

from dataclasses import dataclass

from transalg.hyper.heads import Shapes, linear


@dataclass(frozen=True)
class MLP:
    """Two matrices with an activation between them."""

    kept: int  # hidden vectors that a training step keeps of one token: ReLU's gradient needs its output alone

    def shapes(self, number: int, d_e: int, d_mlp: int) -> Shapes:
        """W_mlp1 and W_mlp2 for number 1, W_mlp3 and W_mlp4 for number 3."""
        return linear(f"W_mlp{number}", d_mlp, d_e) | linear(f"W_mlp{number + 1}", d_e, d_mlp)

    def activations(self, d_mlp: int) -> int:
        """Numbers that a training step keeps of one token."""
        return self.kept * d_mlp


MLPS: dict[str, MLP] = {
    "ReLU": MLP(kept=1),
    "GELU": MLP(kept=2),
    "tanh_GELU": MLP(kept=2),
}
