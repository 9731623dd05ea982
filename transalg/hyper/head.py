"""The head of an encoder, lines 10 and 11 of Algorithm 9: its parameters. `model/head.py` computes it, `formal/head.py` states it."""

from dataclasses import dataclass

from transalg.hyper.heads import Shapes, linear
from transalg.hyper.norm import Norm


@dataclass(frozen=True)
class EncoderHead:
    """What stands between the last layer and what is read off it."""

    doc: str
    projects: bool = True  # whether it has W_f, b_f
    normalizes: bool = True  # whether it has γ, β

    def shapes(self, d_f: int, d_e: int, norm: Norm) -> Shapes:
        """W_f, b_f, γ and β, as far as it has them."""
        projection = linear("W_f", d_f, d_e) if self.projects else {}
        return projection | (norm.shapes("gamma", d_f) if self.normalizes else {})


ENCODER_HEADS: dict[str, EncoderHead] = {
    "projection": EncoderHead("W_f, the activation, a norm, as in lines 10 and 11 of Algorithm 9"),
    "tanh": EncoderHead("tanh(W_f X + b_f) without a norm, BERT's pooler", normalizes=False),
    "none": EncoderHead("nothing: the vectors of the last layer, as in a bare encoder", projects=False, normalizes=False),
}
