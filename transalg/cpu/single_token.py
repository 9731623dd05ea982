"""One new token of one row, written out: what `decode` does, with everything looked up once instead of at every token.

Such a token is little to compute beside reading the weights, so that looking up what to do with it takes a good part of the time.
"""

from collections.abc import Callable
from itertools import repeat
from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.model.blocks import NORMS, Attention, DecoderLayer, Layer, Sublayers
from transalg.model.cache import Cache

Map = Callable[[Tensor], Tensor]  # of one row
# of one row, with what the cache has for it: room for q, k, v, places of the new key and value, all keys, turned, and values; those of z and a mask
Sublayer = Callable[[Tensor, Any, Any], Tensor]


def write_out(model: Any) -> None:
    """From now on a decoder takes one token of one row the short way, with the parameters and stand-ins that it has now.

    Not where positions are relative: there is too much to do.
    """
    if hasattr(model, "decode") and model.hyper.positions != "relative":
        model.alone = _model(model, model.dec if hasattr(model, "dec") else model.layers)


def _model(model: Any, layers: Any) -> Callable[[Tensor, Cache], Tensor]:
    """The logits, 1 × N_V, of what follows a token, 1 × 1."""
    rows, scale = _rows(model.W_e), sqrt(model.hyper.d_e) if model.hyper.scaled else None
    unembed = model.for_one("W_e" if model.hyper.tied else "W_u", "b_u")
    through = [_layer(layer) for layer in layers]

    def decode(ids: Tensor, cache: Cache) -> Tensor:
        (t,) = cache.lengths
        X = rows(ids[0])
        X = (X if scale is None else X * scale) + model._positions.narrow(0, t, 1)
        keys, values = cache.keys[:, 0], cache.values[:, 0]
        new = keys.narrow(2, t, 1).unbind(), values.narrow(2, t, 1).unbind()
        seen = keys.narrow(2, 0, t + 1).mT.unbind(), values.narrow(2, 0, t + 1).unbind()
        of_z = [(k, v, cache.cross_mask) for k, v in cache.cross] or repeat(None)
        for layer, own, other in zip(through, zip(repeat(cache.room), *new, *seen, strict=False), of_z, strict=False):
            X = layer(X, own, other)
        cache.lengths[0] = t + 1
        logits: Tensor = unembed(model.last_norm(X))
        return logits

    return decode


def _rows(W_e: Any) -> Map:
    return (lambda ids: torch.embedding(W_e, ids)) if isinstance(W_e, Tensor) else W_e.rows


def _layer(layer: Layer | DecoderLayer) -> Sublayer:
    """Each sub-layer with its norm, before it or behind the addition."""
    if isinstance(layer, Layer):
        parts = [(_norm(layer, 1), _attention(layer.W)), (_norm(layer, 2), _mlp(layer, 1))]
    else:
        parts = [(_norm(layer, 3), _attention(layer.W_dec)), (_norm(layer, 4), _cross(layer.W_ed)), (_norm(layer, 5), _mlp(layer, 3))]

    def first(X: Tensor, own: Any, other: Any) -> Tensor:
        for norm, sublayer in parts:
            X = sublayer(norm(X), own, other).add_(X)
        return X

    def behind(X: Tensor, own: Any, other: Any) -> Tensor:
        for norm, sublayer in parts:
            X = norm(sublayer(X, own, other).add_(X))
        return X

    return first if layer.norm_first else behind


def _attention(W: Attention) -> Sublayer:
    qkv, out, band, scale = W.for_one_into("W_qkv", "b_qkv"), W.for_one("W_o", "b_o"), W.band, 1 / sqrt(W.d_attn)

    def decode(X: Tensor, own: Any, other: Any) -> Tensor:
        (row, q, k, v, of_scores), new_key, new_value, keys, values = own
        qkv(X, row)
        new_key.copy_(k)
        new_value.copy_(v)
        if band is not None:
            keys, values = keys[:, :, -band:], values[:, -band:]
        S = torch.baddbmm(of_scores, q, keys, beta=0, alpha=scale)  # the first one only gives the shape
        return out(torch.bmm(torch.softmax(S, dim=-1), values).view(1, -1))

    return decode


def _cross(W: Attention) -> Sublayer:
    q, out, H, attend = W.for_one("W_q", "b_q"), W.for_one("W_o", "b_o"), W.H, F.scaled_dot_product_attention

    def decode(X: Tensor, own: Any, other: tuple[Tensor, Tensor, Tensor | None]) -> Tensor:
        return out(attend(q(X).view(1, H, 1, -1), *other).view(1, -1))

    return decode


def _mlp(layer: Sublayers, first: int) -> Sublayer:
    (one, other), activation = (layer.for_one(f"W_mlp{i}", f"b_mlp{i}") for i in (first, first + 1)), layer.activation
    return lambda X, own, of_z: other(activation(one(X)))


def _norm(layer: Sublayers, i: int) -> Map:
    gamma, beta = (layer.optional(name) for name in NORMS[i])
    assert gamma is not None
    shape, eps = list(gamma.shape), layer.eps
    if beta is None:
        return lambda X: torch.rms_norm(X, shape, gamma, eps)
    return lambda X: torch.layer_norm(X, shape, gamma, beta, eps)
