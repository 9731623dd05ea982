"""What may enter a model: token IDs, lengths, segments. A ValueError that says what is wrong, before any kernel runs."""

import operator
from collections.abc import Sequence
from typing import SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor

from transalg.formal.domains import refuse

Lengths = Tensor | Sequence[int] | None


def token_ids(symbol: str, ids: object, ell_max: int) -> Int[Tensor, "B ell"]:
    """ids ∈ V^{B×ℓ} with 1 ≤ ℓ ≤ ℓ_max; their values are looked at later, without the padding."""
    if not isinstance(ids, Tensor) or ids.ndim != 2 or 0 in ids.shape:
        got = f"the shape {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise refuse(symbol, "a tensor of token IDs, B × ℓ, neither of them 0", got)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise refuse(symbol, "token IDs, whole numbers", ids.dtype)
    if ids.shape[1] > ell_max:
        raise refuse(symbol, f"at most ℓ_max = {ell_max} tokens a row", f"ℓ = {ids.shape[1]}")
    return ids if ids.dtype == torch.long else ids.long()


def row_lengths(symbol: str, lengths: object, shape: tuple[int, ...], *, least: int = 1) -> list[int] | None:
    """How many tokens each row has: as many numbers as rows, each from 1 to ℓ."""
    if lengths is None:
        return None
    if not isinstance(lengths, Tensor | Sequence) or isinstance(lengths, str):
        raise refuse(symbol, f"a length for each of the {shape[0]} rows", type(lengths).__name__)
    if isinstance(lengths, Tensor) and (lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool):
        raise refuse(symbol, "whole numbers", lengths.dtype)
    if isinstance(lengths, Tensor) and lengths.ndim != 1:
        raise refuse(symbol, f"a length for each of the {shape[0]} rows", f"the shape {tuple(lengths.shape)}")
    values: list[int] = lengths.tolist() if isinstance(lengths, Tensor) else [_whole(length) for length in lengths]
    if len(values) != shape[0]:
        raise refuse(symbol, f"a length for each of the {shape[0]} rows", f"{len(values)} of them")
    for row, length in enumerate(values):
        if not isinstance(length, int) or isinstance(length, bool) or not least <= length <= shape[1]:
            raise refuse(symbol, f"lengths from {least} to ℓ = {shape[1]}", f"{length} in row {row}")
    return values


def _whole(length: int) -> int:
    """NumPy's whole numbers as Python's; anything else, which a caller may pass despite the annotation, as it is."""
    return operator.index(length) if isinstance(length, SupportsIndex) and not isinstance(length, bool) else length


def within(symbol: str, ids: Tensor, count: int, name: str = "N_V") -> Tensor:
    """Every ID one of 0, …, count − 1. Tensors without values, on the meta device, while compiling or exporting, pass."""
    if type(ids) is not Tensor or torch.compiler.is_compiling() or ids.is_meta or not ids.numel():  # a FakeTensor is another type
        return ids
    if ids.numel() <= 64 and ids.device.type == "cpu":  # faster than two kernels
        values = ids.flatten().tolist()
        least, most = min(values), max(values)
    else:
        least, most = ids.aminmax()
    if least < 0 or most >= count:
        raise refuse(symbol, f"IDs from 0 to {name}−1 with {name} = {count}", int(least if least < 0 else most))
    return ids
