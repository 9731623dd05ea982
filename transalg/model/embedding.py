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
    X = positioned(model, hyper, token_rows(model, hyper, ids), positions, ell)
    if moved is not None:
        X = moved(X)
    return segmented(model, hyper, X, segments) if isinstance(hyper, EHyper) else X


def token_rows(model: ParameterModule, hyper: Hyper, ids: Int[Tensor, "T"]) -> Tokens:
    """W_e[:,v] of every token, √d_e times that where the model says so."""
    X = model.rows("W_e", ids)
    return X * sqrt(hyper.d_e) if hyper.scaled else X


def positioned(model: ParameterModule, hyper: Hyper, X: Tokens, positions: Int[Tensor, "T"] | None, ell: int) -> Tokens:
    """X + W_p[:,t], where the model has a W_p."""
    W_p = POSITIONS[hyper.positions].table(model, hyper)
    if W_p is None:
        return X
    return (X.view(-1, ell, hyper.d_e) + W_p[:ell]).view_as(X) if positions is None else X + F.embedding(positions, W_p)


def segmented(model: ParameterModule, hyper: EHyper, X: Tokens, segments: Int[Tensor, "T"] | None) -> Tokens:
    """BERT's: the segment of every token, the first unless given, and a norm."""
    if hyper.segments:
        X = X + segment_rows(model, segments)
    if hyper.embedding_norm:
        X = NORMS[hyper.norm].apply(model, X, "gamma_e", hyper.eps)
    return X


def segment_rows(model: ParameterModule, segments: Int[Tensor, "T"] | None) -> Float[Tensor, "*T d_e"]:
    return model.get_parameter("W_s")[0] if segments is None else model.rows("W_s", segments)
