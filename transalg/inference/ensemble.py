"""Several models of one vocabulary are an ensemble: their P̂ is averaged."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from transalg.formal.domains import refuse
from transalg.hyper import DHyper, EDHyper, Hyper
from transalg.model import Cache
from transalg.model.checks import Lengths
from transalg.model.transformer import Transformer

Model = TypeVar("Model", bound=Transformer[Hyper])


class Decoder(Protocol):
    """A model that decodes token by token with a key/value cache."""

    @property
    def hyper(self) -> DHyper | EDHyper:
        """Its sizes and special tokens."""

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""

    def decode(self, ids: Tensor, cache: Cache, lengths: Lengths = None, /, *, last: bool = False) -> Tensor:
        """Append tokens to the cache's rows; the logits of what follows each, or with `last` what follows the last of each row."""


def as_models(models: nn.Module | Sequence[nn.Module], kind: type[Model]) -> list[Model]:
    """One model or several as a list: all of this kind and of one vocabulary."""
    listed = [models] if isinstance(models, nn.Module) else list(models)
    checked = [model for model in listed if isinstance(model, kind)]
    if not listed or len(checked) < len(listed):
        raise refuse("model", f"a {kind.__name__}, or several", [type(model).__name__ for model in listed])
    if len({model.hyper.N_V for model in checked}) > 1:
        raise refuse("models", "models of one vocabulary", [f"N_V = {model.hyper.N_V}" for model in checked])
    return checked


def common_ell_max(models: Sequence[Decoder | Transformer[Hyper]]) -> int:
    """The longest sequence that all of them take."""
    return min(int(model.hyper.ell_max) for model in models)
