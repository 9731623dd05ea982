"""MLPs (line 8 of Algorithm 10): their parameters and what they cost, under the name of their activation.

`model/mlp.py` computes them, `formal/mlp.py` states them.
"""

from dataclasses import dataclass

from transalg.hyper.heads import Shapes, linear


@dataclass(frozen=True)
class MLP:
    """Two matrices with an activation between them."""

    kept: int  # hidden vectors that a training step keeps of one token: ReLU's gradient needs its output alone
    doc: str = ""

    def shapes(self, number: int, d_e: int, d_mlp: int, *, bias: bool) -> Shapes:
        """W_mlp1 and W_mlp2 for number 1, W_mlp3 and W_mlp4 for number 3."""
        return linear(f"W_mlp{number}", d_mlp, d_e, bias=bias) | linear(f"W_mlp{number + 1}", d_e, d_mlp, bias=bias)

    def matrices(self, d_mlp: int) -> dict[str, dict[str, int]]:
        """The rows of the matrices that one of the engine's is made of, where it is made of several."""
        return {}

    def usual_width(self, d_e: int) -> int:
        """d_mlp unless it is chosen."""
        return 4 * d_e

    def activations(self, d_mlp: int) -> int:
        """Numbers that a training step keeps of one token."""
        return self.kept * d_mlp


@dataclass(frozen=True)
class Gated(MLP):
    """Three matrices: the activation of W_gate X multiplies W_mlp1 X. These two are one, W_glu1; or W_glu3."""

    def shapes(self, number: int, d_e: int, d_mlp: int, *, bias: bool) -> Shapes:
        return linear(f"W_glu{number}", 2 * d_mlp, d_e, bias=bias) | linear(f"W_mlp{number + 1}", d_e, d_mlp, bias=bias)

    def matrices(self, d_mlp: int) -> dict[str, dict[str, int]]:
        return {f"glu{number}": {"gate": d_mlp, f"mlp{number}": d_mlp} for number in (1, 3)}

    def usual_width(self, d_e: int) -> int:
        """About as many parameters as without a gate, in a multiple of 8."""
        return -(-d_e // 3) * 8


MLPS: dict[str, MLP] = {
    "ReLU": MLP(kept=1, doc="max(0, x)"),
    "GELU": MLP(kept=2, doc="the paper's"),
    "tanh_GELU": MLP(kept=2, doc="approximates GELU"),
    "SiLU": MLP(kept=2, doc="x / (1 + exp(−x))"),
    "SwiGLU": Gated(kept=4, doc="with a gate, SiLU(W_gate X) ⊙ W_mlp1 X"),
    "GEGLU": Gated(kept=4, doc="the same with GELU"),
    "tanh_GEGLU": Gated(kept=4, doc="the same with tanh_GELU"),
}
