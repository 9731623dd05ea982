"""The fixed positions: sinusoids, made once for each device and dtype. They are no state of a model, for hyper says what they are."""

from functools import lru_cache

import torch
from torch import Tensor
from torch._guards import detect_fake_mode

from transalg.formal.positions import paper_sinusoids, sinusoids

SCHEMES = {"sinusoids": sinusoids, "paper_sinusoids": paper_sinusoids}


def waves(scheme: str, ell: int, d: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A row for every position 0, …, ℓ−1, the transpose of the formal function of this name."""
    if detect_fake_mode() is not None:  # while exporting; what is made then must not be kept
        return SCHEMES[scheme](d, ell).T.contiguous().to(device, dtype)
    return _made(scheme, ell, d, device, dtype)


# what torch.compiler.assume_constant_result does, which would import the compiler, 0.7 s, for those who compile nothing
waves._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=32)
def _made(scheme: str, ell: int, d: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # what is made here may take part in a gradient later
        return SCHEMES[scheme](d, ell).T.contiguous().to(device, dtype)
