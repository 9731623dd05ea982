"""The unembedding (the last line): from vectors to logits. Its parameters: `hyper/unembedding.py`; its statement: `formal/unembedding.py`."""

from jaxtyping import Float
from torch import Tensor

from transalg.hyper import Hyper
from transalg.model.parameters import ParameterModule


def matrix_name(hyper: Hyper) -> str:
    """W_u, or W_e if they are tied."""
    return "W_e" if hyper.tied else "W_u"


def logits(model: ParameterModule, hyper: Hyper, X: Float[Tensor, "T d"]) -> Float[Tensor, "T N_V"]:
    """Of every token of the vocabulary, for every row of X."""
    return model.linear(X, matrix_name(hyper), "b_u")
