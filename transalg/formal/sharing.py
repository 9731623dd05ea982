"""Layers that share their parameters (ALBERT, the Universal Transformer): the departure is in θ alone."""

from dataclasses import replace

from .domains import refuse
from .theta import SomeTheta
from .tree import DEPTHS


def shared(theta: SomeTheta, n: int) -> SomeTheta:
    """θ with θ_l = θ_{l′} for each n consecutive layers of a stack, l′ the first of them; for all if n ≥ L.

    Algorithms 8–10 stay as they are. Training parts what is shared before it, so share inside the transformer
    that is trained, and θ̂ once more after: the first of the n layers has the gradient of all of them, the
    others have 0.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise refuse("n", "a number of layers, 1 or more", repr(n))
    stacks = {name: getattr(theta, name) for name in DEPTHS if hasattr(theta, name)}
    repeated = {name: tuple(stack[l // n * n] for l in range(len(stack))) for name, stack in stacks.items()}
    return replace(theta, **repeated)  # type: ignore[arg-type]
