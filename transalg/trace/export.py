"""A trace as plain data, for programs (`--json`) and for the page."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any  # of JSON, whose objects are as nested as they are

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from transalg.formal.tree import Theta
from transalg.trace import modal
from transalg.trace.errata import errata_of
from transalg.trace.modal import Tokens
from transalg.trace.record import Step, Trace, Value


def plain(value: Value, digits: int = 17) -> Any:
    """Numbers, strings, lists and dictionaries only, numbers to so many digits; 17 are all that float64 has.

    −∞ and NaN, which JSON does not know, are the strings "-inf", "inf" and "nan". Indices count from 0, as in Python.
    """
    if isinstance(value, Theta):
        return summary(value)
    if isinstance(value, Tensor):
        return plain(value.tolist(), digits)
    if isinstance(value, Tokens):
        return modal.as_data(value, ())
    if isinstance(value, list):
        return [plain(element, digits) for element in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value


def as_data(trace: Trace, write: Callable[[Value], Any] = plain) -> dict[str, Any]:
    """All of a trace, its values as `write` has them."""
    return {
        "algorithm": {
            "number": trace.algorithm.number,
            "name": trace.algorithm.name,
            "caption": trace.algorithm.caption,
            "doc": list(trace.algorithm.doc),
        },
        "sizes": trace.sizes,
        "inputs": {symbol: _tokens(value, trace.vocabulary) for symbol, value in trace.inputs.items()},
        "vocabulary": list(trace.vocabulary),
        "steps": [_step(step, write) for step in trace.steps],
    }


def _step(step: Step, write: Callable[[Value], Any]) -> dict[str, Any]:
    return {
        "algorithm": step.algorithm.name,
        "number": step.algorithm.number,
        "line": step.line.number,
        "math": step.line.math,
        "code": step.line.code.strip(),
        "errata": [erratum.number for erratum in errata_of(step.algorithm, step.line)],
        "depth": step.depth,
        "call": step.call,
        "passes": step.passes,
        **_value(step, write),
        "path": step.path(),
        "operands": [_value(one, write) for one in step.operands],
        "inner": [_value(one, write) for one in step.inner],
    }


def _value(step: Step, write: Callable[[Value], Any]) -> dict[str, Any]:
    """What a line sets, reads or computes on the way."""
    return {
        "symbol": step.symbol,
        "dims": None if step.dims is None else list(step.dims),
        "shape": None if step.shape is None else list(step.shape),
        "axes": [list(step.axes[dim]) if dim in step.axes else None for dim in step.dims or ()],
        "along": list(_along(step)),  # of many vectors, what each belongs to
        "value": _tokens(step.value, step.axes.get("N_V", ())) if isinstance(step.value, Tokens) else write(step.value),
    }


def _tokens(value: Any, vocabulary: Sequence[str]) -> Any:
    """Tokens of all modalities as data, all else as it is."""
    return modal.as_data(value, vocabulary) if isinstance(value, Tokens) else value


def _along(step: Step) -> Sequence[str]:
    many = re.match(r"(?:for |∀)t(?:∈\[(?P<symbol>[^\]]+)\])?:", step.line.math)
    return step.axes.get(many["symbol"] or "T", ()) if many and isinstance(step.value, list) else ()


BLANKS = {" ": "␣", "\n": "⏎", "\t": "⇥"}


def visible(token: str) -> str:
    """A token so that it can be seen: blanks as signs, what cannot be printed as Python escapes it."""
    signs = (BLANKS.get(sign, sign) for sign in token)
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in signs)


def distribution(step: Step) -> bool:
    """Whether the columns of a value are probabilities of what stands along its rows: P, p, α, attention weights."""
    named = bool(step.dims) and step.dims[0] in step.axes  # type: ignore[index]
    return named and isinstance(step.value, Tensor) and bool(re.match(r"P|p|q$|α|softmax", step.symbol))


def summary(theta: Theta) -> dict[str, float]:
    """How many numbers θ has, and their Euclidean norm."""
    parts = pytree.tree_leaves(theta)
    norm = float(torch.stack([part.double().square().sum() for part in parts]).sum().sqrt())
    return {"parameters": sum(part.numel() for part in parts), "norm": norm if math.isfinite(norm) else str(norm)}
