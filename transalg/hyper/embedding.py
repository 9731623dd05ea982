"""The embedding (line 2): what turns a token into a vector. Its parameters; `model/embedding.py` computes it, `formal/embedding.py` states it."""

from typing import TYPE_CHECKING

from transalg.hyper.heads import Shapes
from transalg.hyper.norm import NORMS
from transalg.hyper.positions import POSITIONS

if TYPE_CHECKING:
    from transalg.hyper.hyper import Hyper

TABLES = ("W_e", "W_p", "W_s")  # matrices that are looked up, not multiplied by: a row for each token, position or segment


def shapes(hyper: "Hyper") -> Shapes:
    """Tokens, positions; segments and a norm where the model has them."""
    result: Shapes = {"W_e": (hyper.N_V, hyper.d_e)} | POSITIONS[hyper.positions].shapes(hyper)
    if segments := getattr(hyper, "segments", 0):
        result["W_s"] = (segments, hyper.d_e)
    if getattr(hyper, "embedding_norm", False):
        result |= NORMS[hyper.norm].shapes("gamma_e", hyper.d_e)
    return result
