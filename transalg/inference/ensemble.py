"""Several models of one vocabulary are an ensemble: their P̂ is averaged."""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor


def averaged(log_P: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of several distributions."""
    return log_P[0] if len(log_P) == 1 else torch.logsumexp(torch.stack(list(log_P)), dim=0) - log(len(log_P))


def together(logits: Sequence[Tensor]) -> Tensor:
    """The logits of one model as they are; of several, the logarithm of the mean of their P̂, in float64."""
    return logits[0] if len(logits) == 1 else averaged([torch.log_softmax(each.double(), dim=-1) for each in logits])
