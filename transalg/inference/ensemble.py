"""Several models of one vocabulary are an ensemble: their P̂ is averaged."""

from collections.abc import Sequence

import torch
from torch import Tensor

from transalg.tasks.predictions import mean_log_probability


def together(logits: Sequence[Tensor]) -> Tensor:
    """The logits of one model as they are; of several, the logarithm of the mean of their P̂, in float64."""
    return logits[0] if len(logits) == 1 else mean_log_probability([torch.log_softmax(each.double(), dim=-1) for each in logits])
