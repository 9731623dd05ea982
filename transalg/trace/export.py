"""A trace as plain data, for programs (`--json`) and for the page."""

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from transalg.formal.tree import Theta
from transalg.trace.record import Step, Trace


def as_data(trace: Trace, digits: int = 17) -> dict[str, Any]:
    """Numbers, strings, lists and dictionaries only, numbers to so many digits; 17 are all that float64 has.

    −∞ and NaN, which JSON does not know, are the strings "-inf", "inf" and "nan". Indices count from 0, as in Python.
    """
    return {
        "algorithm": {
            "number": trace.algorithm.number,
            "name": trace.algorithm.name,
            "caption": trace.algorithm.caption,
            "doc": list(trace.algorithm.doc),
        },
        "sizes": trace.sizes,
        "given": trace.given,
        "vocabulary": list(trace.vocabulary),
        "steps": [_step(step, digits) for step in trace.steps],
    }


def _step(step: Step, digits: int) -> dict[str, Any]:
    return {
        "algorithm": step.algorithm.name,
        "number": step.algorithm.number,
        "line": step.line.number,
        "math": step.line.math,
        "code": step.line.code.strip(),
        "erratum": step.line.erratum,
        "depth": step.depth,
        "call": step.call,
        "passes": step.passes,
        "symbol": step.symbol,
        "dims": None if step.dims is None else list(step.dims),
        "shape": None if step.shape is None else list(step.shape),
        "axes": [list(step.axes[dim]) if dim in step.axes else None for dim in step.dims or ()],
        "along": list(_along(step)),  # of many vectors, what each belongs to
        "value": _value(step.value, digits),
        "inner": None if step.inner is None else _step(step.inner, digits),
    }


def _along(step: Step) -> Sequence[str]:
    many = re.match(r"(?:for |∀)t(?:∈\[(?P<symbol>[^\]]+)\])?:", step.line.math)
    return step.axes.get(many["symbol"] or "T", ()) if many and isinstance(step.value, list) else ()


def _value(value: Any, digits: int) -> Any:
    if isinstance(value, Theta):
        return summary(value)
    if isinstance(value, Tensor):
        return _value(value.tolist(), digits)
    if isinstance(value, list):
        return [_value(element, digits) for element in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value


def visible(token: str) -> str:
    """A token so that it can be seen: blanks as signs."""
    return {" ": "␣", "\n": "⏎", "\t": "⇥"}.get(token, token)


def summary(theta: Theta) -> dict[str, float]:
    """How many numbers θ has, and their Euclidean norm."""
    parts = pytree.tree_leaves(theta)
    norm = float(torch.stack([part.double().square().sum() for part in parts]).sum().sqrt())
    return {"parameters": sum(part.numel() for part in parts), "norm": norm if math.isfinite(norm) else str(norm)}
