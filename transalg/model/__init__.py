"""The engine: the paper's transformers for batches, fast, and equal to `transalg.formal` in values and gradients.

>>> from transalg.hyper import preset
>>> DTransformer(preset("gpt3-175b"), device="meta").W_e.shape
torch.Size([50257, 12288])
"""

from .architectures import Classifier, DTransformer, EDTransformer, ETransformer
from .cache import Cache
from .loss import log_loss

__all__ = ["Cache", "Classifier", "DTransformer", "EDTransformer", "ETransformer", "log_loss"]
