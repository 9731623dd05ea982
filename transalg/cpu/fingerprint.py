"""Has a matrix changed since something was made of it?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True)
class Fingerprint:
    """What tells a matrix from what it was: where it lies, torch's count of the changes to it, and W r for a random r.

    Torch counts every change that it knows of. What goes around it, through `.data` or NumPy, shows in W r, unless it is less than rounding.
    """

    address: int
    version: int | None
    product: Tensor

    @classmethod
    @torch.no_grad()
    def take(cls, W: Tensor) -> "Fingerprint":
        return cls(W.data_ptr(), version(W), torch.mv(W, _direction(W.shape[1]).to(W)))

    def same(self, other: "Fingerprint") -> bool:
        return (self.address, self.version) == (other.address, other.version) and torch.equal(self.product, other.product)


def version(W: Tensor) -> int | None:
    """Torch's count of the changes to W; None for a tensor of inference mode, which has no count."""
    return None if W.is_inference() else W._version


@lru_cache(maxsize=64)
def _direction(d: int) -> Tensor:
    """r: random in every process, so that no change can be orthogonal to it but by a chance of probability 0."""
    generator = torch.Generator()
    generator.seed()  # from the system, not from torch's own seed, which stays as it is
    return torch.randn(d, generator=generator)


_MADE = WeakTensorKeyDictionary()  # by W: how it was made, W's fingerprint then, and what was made


def made_of(W: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
    """What `make` makes of W: as it was made the last time if W is still the same. It lives as long as W does."""
    now = Fingerprint.take(W)
    entry: tuple[Callable[[Tensor], Tensor], Fingerprint, Tensor] | None = _MADE.get(W)  # type: ignore[no-untyped-call]
    if entry is None or entry[0] is not make or not entry[1].same(now):
        with torch.no_grad():
            entry = _MADE[W] = (make, now, make(W))
    return entry[2]
