"""The embedding (line 2): what turns a token into a vector. Its parameters; `model/embedding.py` computes it, `formal/embedding.py` states it."""

from transalg.hyper.heads import Shapes
from transalg.hyper.hyper import EHyper, Hyper
from transalg.hyper.norm import NORMS
from transalg.hyper.positions import POSITIONS

TABLES = ("W_e", "W_p", "W_s")  # matrices that are looked up, not multiplied by: a row for each token, position or segment


def shapes(hyper: Hyper) -> Shapes:
    """Tokens, positions; segments and a norm where the model has them."""
    result: Shapes = {"W_e": (hyper.N_V, hyper.d_e)} | POSITIONS[hyper.positions].shapes(hyper)
    if isinstance(hyper, EHyper) and hyper.segments:
        result["W_s"] = (hyper.segments, hyper.d_e)
    if isinstance(hyper, EHyper) and hyper.embedding_norm:
        result |= NORMS[hyper.norm].shapes("gamma_e", hyper.d_e)
    return result
