"""Wrap a model for fast inference on CPUs: with packed weights, or in 8 bits."""

from collections.abc import Sequence
from math import inf
from typing import Literal

import torch

from transalg.cpu.linear import BlockedLinear, Int8Linear, PackedLinear
from transalg.cpu.pages import large_pages
from transalg.cpu.single_token import single_token
from transalg.cpu.wrapped import Model, Wrapped, WrappedDecoder, multiplied, wrap
from transalg.formal.domains import refuse
from transalg.model.parameters import is_sharded

WORTH = 32  # tokens that are written, from which on packing a model costs less time than it saves


def quantize(model: Model, to: Literal["int8"] = "int8") -> Model:
    """A copy of the model whose matrices have 8 bits a number: a quarter of the memory, and of the time to read it."""
    if to != "int8":
        raise refuse("quantize", "int8", to)
    with large_pages():
        small = wrap(model, Int8Linear)
    return _with_single_token(small)


def pack(model: Model, rows: int | None = None, *, least: int | None = None) -> Model:
    """A copy of the model, which computes the same, for decoding so many rows at a time; the model itself if there is nothing to gain.

    The copy is of the weights as they are now: after a change, pack again; decoding with the old copy is refused. What is made of a matrix
    lives as long as the matrix, so that packing again only takes a look at whether it is the same. Matrices with fewer numbers than `least`
    stay as they are: oneDNN takes some 20 µs to start.
    """
    if isinstance(model, Wrapped) or any(map(is_sharded, model.parameters())):
        return model
    if rows == 1:
        least = 2**18 if least is None else least
        return _with_single_token(wrap(model, BlockedLinear, least if _has_kernels(model) else inf))
    least = 2**15 if least is None else least
    return wrap(model, PackedLinear, least) if _has_kernels(model) and multiplied(model, least) else model


def packed(models: Sequence[Model], rows: int, tokens: int) -> list[Model]:
    """The models as `pack` makes them for writing so many tokens, so many rows at a time, where that is worth it."""
    return [pack(model, rows) for model in models] if tokens >= WORTH else list(models)


def _with_single_token(model: Model) -> Model:
    if isinstance(model, WrappedDecoder):
        model.single_token = single_token(model)
    return model


def _has_kernels(model: Model) -> bool:
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # type: ignore[no-untyped-call]
        return False
    return all(part.device.type == "cpu" and part.dtype == torch.float32 for part in model.parameters())
