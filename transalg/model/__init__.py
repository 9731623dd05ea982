"""The engine: the paper's transformers for batches, fast, and equal to `transalg.formal` in values and gradients.

>>> from transalg.hyper import preset
>>> DTransformer(preset("gpt3-175b"), device="meta").W_e.shape
torch.Size([50257, 12288])
"""

import torch

from .architectures import MODELS, Classifier, DTransformer, EDTransformer, ETransformer, Gato, Model, build
from .cache import Cache
from .loss import log_loss
from .mixed import MixedBatch

# glibc returns blocks above a threshold to the system as soon as they are free, and raises the threshold to the largest freed so far, 32 MB
# at most. Without this the system would clear the pages of a training step each time. Nothing is written, so it takes no memory.
torch.empty(2**25 - 2**14, dtype=torch.uint8)

__all__ = [
    "MODELS",
    "Cache",
    "Classifier",
    "DTransformer",
    "EDTransformer",
    "ETransformer",
    "Gato",
    "MixedBatch",
    "Model",
    "build",
    "log_loss",
]
