"""The embedding (line 2): from token IDs to vectors. Its parameters: `hyper/embedding.py`; its statement: `formal/embedding.py`."""

from collections.abc import Callable
from math import sqrt

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transalg.hyper import EHyper, Hyper
from transalg.model.attention import Tokens
from transalg.model.norm import NORMS
from transalg.model.parameters import ParameterModule
from transalg.model.positions import POSITIONS


def embed(
    model: ParameterModule,
    hyper: Hyper,
    ids: Int[Tensor, "T"],
    positions: Int[Tensor, "T"] | None,
    ell: int,
    segments: Tensor | None = None,
    moved: Callable[[Tokens], Tokens] | None = None,
) -> Tokens:
    """W_e[:,v] + W_p[:,t] for every token, whose positions are given, or 0, …, ℓ−1 in every row; W_s[:,s] and a norm where the model has them."""
    X = model.rows("W_e", ids)
    if hyper.scaled:
        X = X * sqrt(hyper.d_e)
    W_p = POSITIONS[hyper.positions].table(model, hyper)
    if W_p is not None:
        X = (X.view(-1, ell, hyper.d_e) + W_p[:ell]).view_as(X) if positions is None else X + F.embedding(positions, W_p)
    if moved is not None:
        X = moved(X)
    return segmented(model, hyper, X, segments) if isinstance(hyper, EHyper) else X


def segmented(model: ParameterModule, hyper: EHyper, X: Tokens, segments: Int[Tensor, "T"] | None) -> Tokens:
    """BERT's: the segment of every token, the first unless given, and a norm."""
    if hyper.segments:
        X = X + segment_rows(model, segments)
    if hyper.embedding_norm:
        X = NORMS[hyper.norm].apply(model, X, "gamma_e", hyper.eps)
    return X


def segment_rows(model: ParameterModule, segments: Int[Tensor, "T"] | None) -> Float[Tensor, "*T d_e"]:
    return model.get_parameter("W_s")[0] if segments is None else model.rows("W_s", segments)
