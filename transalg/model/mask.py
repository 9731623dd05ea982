"""Masks: the attention kernel of each, what a new token sees of the cache, and the formal Mask. The values: `hyper/mask.py`."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool
from torch import Tensor

from transalg.formal.mask import banded, bidirectional, unidirectional
from transalg.hyper import Hyper
from transalg.hyper.mask import Band, Causal, Mask
from transalg.model import kernels
from transalg.model.kernels import GroupK, GroupV, Q, Y

Attend = Callable[[Q, GroupK, GroupV, Tensor | None, float], Y]


@dataclass(frozen=True)
class MaskUnit:
    """How a mask is computed: from it to its kernel, to the width of what a new token sees (None for all), and to the formal Mask of ℓ tokens."""

    attend: Callable[[Mask], Attend]
    width: Callable[[Mask], int | None]
    formal: Callable[[Mask, int], Bool[Tensor, "ell ell"]]


def _bidirectional(mask: Mask) -> Attend:
    return lambda q, k, v, padding, dropout: kernels.dense(q, k, v, causal=False, mask=padding, dropout=dropout)


def _causal(mask: Mask) -> Attend:
    # after a row's end all is in the future, so padding needs no mask
    return lambda q, k, v, padding, dropout: kernels.dense(q, k, v, causal=True, dropout=dropout)


def _banded(mask: Mask) -> Attend:
    w = _width(mask)
    return lambda q, k, v, padding, dropout: kernels.banded(q, k, v, w, dropout=dropout)


def _width(mask: Mask) -> int:
    assert isinstance(mask, Band)
    return mask.width


MASKS: dict[type[Mask], MaskUnit] = {
    Mask: MaskUnit(_bidirectional, lambda mask: None, lambda mask, ell: bidirectional(ell, ell)),
    Causal: MaskUnit(_causal, lambda mask: None, lambda mask, ell: unidirectional(ell)),
    Band: MaskUnit(_banded, _width, lambda mask, ell: banded(ell, _width(mask))),
}


def formal_mask(hyper: Hyper) -> Callable[[int, int], Bool[Tensor, "ell ell"]]:
    """The formal Mask of a decoder: a function of ℓ and the layer l."""
    values = [hyper.mask("layers", l) for l in range(hyper.stacks["layers"])]
    if all(type(mask) is Causal for mask in values):
        return unidirectional
    return lambda ell, l: MASKS[type(values[l])].formal(values[l], ell)
