"""The shapes that tags declare in ⟦…⟧, compared with those of a trace."""

import re
from math import prod

from transalg.trace.record import Trace


def size_of(dim: str, known: dict[str, int]) -> int | None:
    """A dimension in numbers: d_e, H·d_mid, or None where it is no symbol."""
    factors = dim.split("·")
    return prod(known[factor] for factor in factors) if all(factor in known for factor in factors) else None


def check_shapes(trace: Trace) -> None:
    """In every call a symbol has one size, and θ's symbols have θ's; ⟦…⟧ in the source is no mere comment."""
    checked = 0
    calls: dict[int, dict[str, int]] = {}
    for step in trace.steps:
        known = calls.setdefault(step.call, {})
        if step.depth == 0 or step.algorithm.name.endswith("Transformer"):
            known |= {symbol: size for symbol, size in trace.sizes.items() if symbol not in known}
        if step.dims is None:
            continue
        assert step.shape is not None and len(step.dims) == len(step.shape), f"{step.line.math}: {step.dims} but {step.shape}"
        for dim, size in zip(step.dims, step.shape, strict=True):
            if re.fullmatch(r"[\wℓ]+", dim):
                assert known.setdefault(dim, size) == size, f"{step.algorithm.name} {step.line.number}: {dim} is {known[dim]} and {size}"
            elif (expected := size_of(dim, known)) is not None:
                assert size == expected
            checked += 1
    assert checked
    matrices = [step for step in trace.steps if step.shape and len(step.shape) == 2]
    assert all(step.dims for step in matrices), "every matrix has its shape declared"
