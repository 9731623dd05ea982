"""The head of an encoder, lines 10 and 11 of Algorithm 9: how each is computed, and the formal component it equals."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transalg.formal.head import Head, head, headless, tanh_head
from transalg.hyper import EHyper
from transalg.model.mlp import MLPS
from transalg.model.norm import NORMS
from transalg.model.parameters import ParameterModule

Rows = Float[Tensor, "T d_e"]
Final = Float[Tensor, "T d_f"]


@dataclass(frozen=True)
class EncoderHead:
    """From the vectors of the last layer to those that classes or tokens are read off."""

    compute: Callable[[ParameterModule, EHyper, Tensor], Tensor]
    formal: Head


def projected(model: ParameterModule, hyper: EHyper, X: Rows) -> Final:
    """The paper's."""
    X = model.linear(X, "W_f", "b_f", MLPS[hyper.activation].activation)
    return NORMS[hyper.norm].apply(model, X, "gamma", hyper.eps)


def tanh(model: ParameterModule, hyper: EHyper, X: Rows) -> Final:
    """BERT's pooler."""
    return model.linear(X, "W_f", "b_f", torch.tanh)


def unchanged(model: ParameterModule, hyper: EHyper, X: Rows) -> Rows:
    return X


ENCODER_HEADS: dict[str, EncoderHead] = {
    "projection": EncoderHead(projected, head),
    "tanh": EncoderHead(tanh, tanh_head),
    "none": EncoderHead(unchanged, headless),
}
