"""The unembedding (the last line): from a vector to logits. Its parameters; `model/unembedding.py` computes it."""

from transalg.hyper.heads import Shapes
from transalg.hyper.hyper import Hyper


def shapes(hyper: Hyper, width: int) -> Shapes:
    """W_u, unless it is W_eᵀ; b_u where the model has one."""
    W_u: Shapes = {} if hyper.tied else {"W_u": (hyper.N_V, width)}
    return W_u | ({"b_u": (hyper.N_V,)} if getattr(hyper, "output_bias", False) else {})
