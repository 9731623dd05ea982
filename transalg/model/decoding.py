"""What decoding takes beside the layers, for both kinds of decoder: a new cache, new tokens in, logits out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.model.cache import Cache, Step
from transalg.model.checks import Lengths, row_lengths, token_ids, within


def decode(model: Any, layers: Any, ids: Tensor, cache: Cache, lengths: Lengths, last: bool) -> Tensor:
    """Through these layers with the cache; logits of what follows each new token, or the last new one of each row."""
    if model.alone is not None and _one_more(model, ids, cache, lengths):
        logits: Tensor = model.alone(ids, cache)
        return logits if last else logits[:, None]
    _fits(model, layers, cache)
    X, step, there = _begin(model, ids, cache, lengths)
    if not any(step.count):
        return X.new_zeros(len(ids), *() if last else ids.shape[1:], model.hyper.N_V)
    with without_dropout(model):
        for l, layer in enumerate(layers):
            X = layer.decode(X, cache, l, step)
    cache.advance(step)
    X, there = _last(X, step, there) if last else (X, there)
    return _hide(model.logits(model.last_norm(X)), ids.shape[: 1 if last else 2], there)


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Decoding is never training, whatever mode the model is in."""
    training = [module for module in model.modules() if module.training] if model.training else []
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def new_cache(model: Any, layers: int, batch: int, ell: int | None) -> Cache:
    hyper = model.hyper
    if ell is not None and (not isinstance(ell, int) or not 1 <= ell <= hyper.ell_max):
        raise refuse("ell", f"room for 1 to ℓ_max = {hyper.ell_max} tokens a row", ell)
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise refuse("batch", "at least 1 row", batch)
    H, d_attn, d_mid = hyper.heads
    made: Any = {"dtype": model.dtype, "device": model.device}
    keys, values = (torch.zeros(layers, batch, H, ell or hyper.ell_max, d, **made) for d in (d_attn, d_mid))
    return Cache(keys, values, [0] * batch, of=ref(model))


def _fits(model: Any, layers: Any, cache: Any) -> None:
    """Only a cache that this model made."""
    if not isinstance(cache, Cache) or len(cache.keys) != len(layers) or bool(cache.cross) != hasattr(model, "enc"):
        raise refuse(
            "cache", "one that this model made, by its method `cache`", "another" if isinstance(cache, Cache) else type(cache).__name__
        )
    if cache.ell > model.hyper.ell_max or cache.keys.shape[2::2] != model.hyper.heads[:2]:
        raise refuse("cache", "one that this model made, by its method `cache`", "another")
    if (cache.keys.dtype, cache.keys.device) != (model.dtype, model.device):
        raise refuse("cache", f"{model.dtype} on {model.device}, as the model is", f"{cache.keys.dtype} on {cache.keys.device}")


def _one_more(model: Any, ids: Any, cache: Any, lengths: Lengths) -> bool:
    """Whether this is one token, and one row that has room for it."""
    if not isinstance(cache, Cache) or cache.of is None or cache.of() is not model or cache.keys.dtype != model.dtype:
        return False
    if lengths is not None or type(ids) is not Tensor or ids.shape != (1, 1) or ids.dtype != torch.long:
        return False
    return len(cache.lengths) == 1 and cache.lengths[0] < cache.ell and 0 <= int(ids) < int(model.hyper.N_V)


def _begin(model: Any, ids: Tensor, cache: Cache, lengths: Lengths) -> tuple[Tensor, Step, Tensor | None]:
    """The embedded new tokens, B·width rows; where they go; and which of them are there, None if all are."""
    ids = token_ids("ids", ids, model.hyper.ell_max)
    counts = row_lengths("lengths", lengths, tuple(ids.shape), least=0)
    step = cache.step(tuple(ids.shape), counts)
    there = None
    if counts is not None and set(counts) != {ids.shape[1]}:
        there = torch.arange(ids.shape[1], device=ids.device) < torch.tensor(counts, device=ids.device)[:, None]
        ids = ids.where(there, 0)
    within("ids", ids, model.hyper.N_V)
    return model._embed(ids.flatten(), step.positions.expand(len(ids), -1).flatten(), ids.shape[1]), step, there


def _last(X: Tensor, step: Step, there: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The last new token of every row, and which rows have one, None if all have."""
    B = len(step.before)
    X = X.view(B, step.width, -1)
    if there is None:
        return X[:, -1], None
    count = torch.tensor(step.count, device=X.device)
    return X[torch.arange(B, device=X.device), (count - 1).clamp(min=0)], None if min(step.count) else count > 0


def _hide(logits: Tensor, shape: torch.Size, there: Tensor | None) -> Tensor:
    logits = logits.view(*shape, -1)
    return logits if there is None else logits * there[..., None]
