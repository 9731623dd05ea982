"""Gato as a language model: token IDs in, logits of text out, so that it decodes as the others do."""

from math import inf

import torch
from torch import Tensor

from transalg.hyper import GatoHyper
from transalg.hyper.modalities import LOCAL, TEXT
from transalg.model import Cache, Gato, MixedBatch
from transalg.model.checks import Lengths


class TextOnly:
    """All tokens are text, their index within the timestep counted from 0; after the table of indices it starts over.

    The first `N_text` token IDs are text: no other can be drawn.
    """

    def __init__(self, model: Gato, N_text: int) -> None:
        self.model, self.N_text = model, N_text

    @property
    def hyper(self) -> GatoHyper:
        return self.model.hyper

    @property
    def device(self) -> torch.device:
        return self.model.device

    def cache(self, batch: int, ell: int | None = None) -> Cache:
        return self.model.cache(batch, ell)

    def decode(self, ids: Tensor, cache: Cache, lengths: Lengths = None, /, *, last: bool = False) -> Tensor:
        start = torch.tensor(cache.lengths, device=ids.device)[:, None]
        index = (start + torch.arange(ids.shape[1], device=ids.device)) % min(LOCAL, self.hyper.N_loc)
        return self._text(self.model.decode(self._batch(ids, index, lengths), cache, last=last))

    def window(self, ids: Tensor) -> Tensor:
        """The logits of what follows each row, without a cache."""
        index = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape) % min(LOCAL, self.hyper.N_loc)
        X, _ = self.model.features(self._batch(ids, index, None))
        return self._text(self.model.logits(X.view(len(ids), -1, X.shape[1])[:, -1]))

    def _batch(self, ids: Tensor, index: Tensor, lengths: Lengths) -> MixedBatch:
        batch = MixedBatch.of_tokens(TEXT, ids, index)
        if lengths is None:
            return batch
        counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
        return MixedBatch(batch.kind, ids, index, tuple(counts), batch.patches, batch.intervals)

    def _text(self, logits: Tensor) -> Tensor:
        logits = logits.clone()
        logits[..., self.N_text :] = -inf
        return logits
