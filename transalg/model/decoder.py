"""Decoding with the key/value cache, for both kinds of decoder: new tokens in, logits out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack, cast
from weakref import ref

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transalg.formal.domains import refuse
from transalg.hyper import Hyper
from transalg.model.attention import Tokens
from transalg.model.cache import Cache, Step
from transalg.model.checks import Lengths, row_lengths, token_ids, within
from transalg.model.embedding import embed
from transalg.model.heads import cache_shapes
from transalg.model.layers import Layer, Picked
from transalg.model.layout import Layout
from transalg.model.norm import NORMS
from transalg.model.parameters import Made
from transalg.model.transformer import IDs, ModelHyper, Transformer


class Decoder(Transformer[ModelHyper]):
    """A model that predicts the next token, and so can decode."""

    @property
    def decoding_layers(self) -> list[nn.Module]:
        """Those that attend to the tokens so far, from the first to the last."""
        raise NotImplementedError

    def last_norm(self, X: Tokens) -> Tokens:
        """What comes between the last layer and the unembedding."""
        raise NotImplementedError

    @torch.no_grad()
    def decode(self, ids: IDs, cache: Cache, lengths: Lengths = None, *, last: bool = False) -> Float[Tensor, "B *width N_V"]:
        """Append the tokens to the cache's rows; logits, B × width × N_V, of what follows each. A row's length may be 0: nothing new.

        With `last`, only the logits of what follows the last new token of each row, B × N_V, 0 if it has none.
        """
        self._check(cache)
        return self._decoded(*self._start(ids, cache, lengths), cache, last=last)

    def _decoded(
        self, X: Tokens, step: Step, token_mask: Bool[Tensor, "B width"] | None, cache: Cache, *, last: bool
    ) -> Float[Tensor, "B *width N_V"]:
        """The rest of `decode` after line 2."""
        shape = (len(step.before),) if last else (len(step.before), step.width)
        if not any(step.counts):
            return X.new_zeros(*shape, self.hyper.N_V)
        with evaluating(self):
            for l, layer in enumerate(self.decoding_layers):
                X = layer.decode(X, cache, l, step)  # type: ignore[operator]
            cache.advance(step)
            X, token_mask = _last(X, step, token_mask) if last else (X, token_mask)
            X = self.last_norm(X)
        logits = self.logits(X).view(*shape, -1)
        return logits if token_mask is None else logits * token_mask[..., None]

    def _start(self, ids: IDs, cache: Cache, lengths: Lengths) -> tuple[Tokens, Step, Bool[Tensor, "B width"] | None]:
        """The embedded new tokens, B·width rows; where they go; and which of them are tokens, None if all are."""
        ids = token_ids("ids", ids, self.hyper.ell_max)
        counts = row_lengths("lengths", lengths, tuple(ids.shape), least=0)
        step = cache.step(tuple(ids.shape), counts)
        token_mask = None
        if counts is not None and set(counts) != {ids.shape[1]}:
            token_mask = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(counts, device=ids.device)[:, None]
            ids = ids.where(token_mask, 0)
        within("ids", ids, self.hyper.N_V)
        return embed(self, self.hyper, ids.flatten(), step.all_positions(ids.device), ids.shape[1]), step, token_mask

    def is_one_token(self, ids: object) -> bool:
        """Whether what is to be decoded is one token of one row, as `embed_one` takes it."""
        return type(ids) is Tensor and ids.shape == (1, 1) and ids.dtype == torch.long and 0 <= int(ids) < self.hyper.N_V

    def embed_one(self, ids: object, position: Int[Tensor, "1"]) -> Tokens:
        """Line 2 for one token, without looking at whether it is one."""
        assert isinstance(ids, Tensor)
        return embed(self, self.hyper, ids[0], position, 1)

    def _new_cache(self, batch: int, ell: int | None) -> Cache:
        hyper, layers = self.hyper, len(self.decoding_layers)
        if ell is not None and (not isinstance(ell, int) or not 1 <= ell <= hyper.ell_max):
            raise refuse("ell", f"room for 1 to ℓ_max = {hyper.ell_max} tokens a row", ell)
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise refuse("batch", "at least 1 row", batch)
        shapes = cache_shapes(hyper.heads, layers, batch, ell or hyper.ell_max)
        keys, values = (torch.zeros(shape, dtype=self.dtype, device=self.device) for shape in shapes)
        return Cache(keys, values, [0] * batch, model=ref(cast(Decoder[Hyper], self)))

    def _check(self, cache: object) -> None:
        """Only a cache that this model made, or one of its like."""
        if not isinstance(cache, Cache):
            raise refuse("cache", "one that this model made, by its method `cache`", type(cache).__name__)
        expected = cache_shapes(self.hyper.heads, len(self.decoding_layers), len(cache.lengths), cache.ell)
        alike = (tuple(cache.keys.shape), tuple(cache.values.shape)) == expected and bool(cache.cross) == ("enc" in self.hyper.stacks)
        if not alike or cache.ell > self.hyper.ell_max:
            raise refuse("cache", "one that this model made, by its method `cache`", "another")
        if (cache.keys.dtype, cache.keys.device) != (self.dtype, self.device):
            raise refuse("cache", f"{self.dtype} on {self.device}, as the model is", f"{cache.keys.dtype} on {cache.keys.device}")


class DecoderOnly(Decoder[ModelHyper]):
    """Algorithm 10 after its line 2."""

    def __init__(self, hyper: ModelHyper, **made: Unpack[Made]) -> None:
        super().__init__(hyper, **made)
        self.layers = self._stack("layers", Layer)

    @property
    def decoding_layers(self) -> list[nn.Module]:
        return self.in_order("layers")

    def _through_layers(self, X: Tokens, tokens: Layout, picked: Int[Tensor, "n"] | None = None) -> Picked:
        """Lines 4–10, of the picked tokens; of all of them unless given."""
        if picked is not None and self.norms_over_tokens:
            return self._through_layers(X, tokens)[picked]
        return self.last_norm(self._through_stack("layers", X, tokens, picked))

    def last_norm(self, X: Tokens) -> Tokens:
        """Line 10."""
        return NORMS[self.hyper.norm].apply(self, X, "gamma", self.hyper.eps)

    def cache(self, batch: int, ell: int | None = None) -> Cache:
        """Memory to decode `batch` rows of up to ℓ tokens, ℓ_max unless given."""
        return self._new_cache(batch, ell)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and with running statistics, whatever mode the model is in: decoding is never training."""
    training = [module for module in model.modules() if module.training] if model.training else []
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _last(X: Tokens, step: Step, token_mask: Tensor | None) -> tuple[Float[Tensor, "B d_e"], Bool[Tensor, "B"] | None]:
    """The last new token of every row, and which rows have one, None if all have."""
    B = len(step.before)
    X = X.view(B, step.width, -1)
    if token_mask is None:
        return X[:, -1], None
    counts = torch.tensor(step.counts, device=X.device)
    return X[torch.arange(B, device=X.device), (counts - 1).clamp(min=0)], None if min(step.counts) else counts > 0
