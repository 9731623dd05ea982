"""One new token of one row: what `Decoder.decode` does, with everything looked up once instead of at every token.

Such a token is little to compute beside reading the weights, so that looking up what to do with it takes a good part of the time. Every unit
that this path knows is named here; a model with any other gets none, and decodes as usual.
"""

from collections.abc import Callable
from itertools import repeat
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.cpu.wrapped import SingleToken, Wrapped, WrappedDecoder, original_class
from transalg.hyper.heads import Heads
from transalg.hyper.mask import Band, Causal
from transalg.model.architectures import DTransformer, EDTransformer
from transalg.model.attention import Attention
from transalg.model.cache import Cache
from transalg.model.embedding import embed
from transalg.model.layers import DecoderLayer, Layer, Sublayers
from transalg.model.mlp import MLP
from transalg.model.norm import layer_norm, rms_norm
from transalg.model.positions import Learned, NoPositions, Sinusoids
from transalg.model.unembedding import matrix_name

POSITIONS_KNOWN = (Learned, Sinusoids, NoPositions)  # those that act on the embeddings alone
MASKS_KNOWN = (Causal, Band)
NORMS_KNOWN = (layer_norm, rms_norm)

Map = Callable[[Tensor], Tensor]  # of one row
Room = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # for query, key and value of the new token, see `_room`
Tokens = tuple[
    Room, Tensor, Tensor, Tensor, Tensor
]  # of one layer: the room, places of the new key and value, all keys transposed, all values
Context = tuple[Tensor, Tensor, Tensor | None] | None  # of one layer: keys and values of z, and a mask
Sublayer = Callable[[Tensor, Tokens, Context], Tensor]


def single_token(model: WrappedDecoder) -> SingleToken | None:
    """The fast path of a model, with the parameters and kernels that it has now; None if it has a unit that this path does not know."""
    layers = [layer for layer in model.decoding_layers if isinstance(layer, Sublayers)]
    return _fast_path(model, layers) if _known(model, layers) else None


def _known(model: WrappedDecoder, layers: list[Sublayers]) -> bool:
    """Whether the model, its layers and all their units are those that are written out below, and not of a class derived from them."""
    attentions = [module for layer in layers for module in layer.modules() if isinstance(module, Attention)]
    return (
        original_class(model) in (DTransformer, EDTransformer)
        and all(original_class(layer) in (Layer, DecoderLayer) for layer in layers)
        and all(original_class(attention) is Attention for attention in attentions)
        and all(type(attention.positions) in POSITIONS_KNOWN and type(attention.heads) is Heads for attention in attentions)
        and all(type(attention.mask) in MASKS_KNOWN for layer in layers for attention in _self_attentions(layer))
        and all(layer.norm.compute in NORMS_KNOWN and type(layer.mlp) is MLP for layer in layers)
    )


def _self_attentions(layer: Sublayers) -> list[Attention]:
    return [layer.W] if isinstance(layer, Layer) else [layer.W_dec] if isinstance(layer, DecoderLayer) else []


def _fast_path(model: WrappedDecoder, layers: list[Sublayers]) -> SingleToken:
    hyper = model.hyper
    unembed = model.one_row(matrix_name(hyper), "b_u")
    through = [_layer(layer) for layer in layers]
    room, positions = _room(model), torch.arange(hyper.ell_max, device=model.device)

    def decode(ids: Tensor, cache: Cache) -> Tensor:
        (t,) = cache.lengths
        X = embed(model, hyper, ids[0], positions[t : t + 1], 1)
        keys, values = cache.keys[:, 0], cache.values[:, 0]
        new = keys.narrow(2, t, 1).unbind(), values.narrow(2, t, 1).unbind()
        seen = keys.narrow(2, 0, t + 1).mT.unbind(), values.narrow(2, 0, t + 1).unbind()
        contexts = [(k, v, cache.cross_mask) for k, v in cache.cross] or repeat(None)
        for layer, tokens, context in zip(through, zip(repeat(room), *new, *seen, strict=False), contexts, strict=False):
            X = layer(X, tokens, context)
        cache.lengths[0] = t + 1
        return unembed(model.last_norm(X))

    return decode


def _room(model: WrappedDecoder) -> Room:
    """Memory for query, key and value of a new token: for all of them; for each, H × 1 × d; and H × 1 × 1."""
    heads = model.hyper.heads
    row = torch.empty(1, heads.H * (2 * heads.d_attn + heads.d_mid), dtype=model.dtype, device=model.device)
    q, k, v = (part.view(heads.H, 1, -1) for part in torch.split(row[0], list(heads.matrices["qkv"])))
    return row, q, k, v, q[:, :, :1]


def _layer(layer: Sublayers) -> Sublayer:
    """Each sub-layer with its norm, before it or after the addition."""
    if isinstance(layer, Layer):
        parts = [(_norm(layer, 1), _attention(layer.W)), (_norm(layer, 2), _mlp(layer, 1))]
    else:
        assert isinstance(layer, DecoderLayer)
        parts = [(_norm(layer, 3), _attention(layer.W_dec)), (_norm(layer, 4), _cross(layer.W_ed)), (_norm(layer, 5), _mlp(layer, 3))]

    def pre_norm(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        for norm, sublayer in parts:
            X = sublayer(norm(X), tokens, context).add_(X)
        return X

    def post_norm(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        for norm, sublayer in parts:
            X = norm(sublayer(X, tokens, context).add_(X))
        return X

    return pre_norm if layer.norm_first else post_norm


def _attention(W: Attention) -> Sublayer:
    wrapped: Wrapped = W  # type: ignore[assignment]
    qkv, out, width, scale = wrapped.one_row_into("W_qkv", "b_qkv"), wrapped.one_row("W_o", "b_o"), W.width, 1 / sqrt(W.heads.d_attn)

    def decode(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        (row, q, k, v, like_scores), new_key, new_value, keys, values = tokens
        qkv(X, row)
        new_key.copy_(k)
        new_value.copy_(v)
        if width is not None:
            keys, values = keys[:, :, -width:], values[:, -width:]
        S = torch.baddbmm(like_scores, q, keys, beta=0, alpha=scale)  # the first one only gives the shape
        return out(torch.bmm(torch.softmax(S, dim=-1), values).view(1, -1))

    return decode


def _cross(W: Attention) -> Sublayer:
    wrapped: Wrapped = W  # type: ignore[assignment]
    q, out, H = wrapped.one_row("W_q", "b_q"), wrapped.one_row("W_o", "b_o"), W.heads.H

    def decode(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        assert context is not None
        return out(F.scaled_dot_product_attention(q(X).view(1, H, 1, -1), *context).view(1, -1))

    return decode


def _mlp(layer: Sublayers, number: int) -> Sublayer:
    wrapped: Wrapped = layer  # type: ignore[assignment]
    first, second = (wrapped.one_row(f"W_mlp{i}", f"b_mlp{i}") for i in (number, number + 1))
    activation = layer.mlp.activation
    return lambda X, tokens, context: second(activation(first(X)))


def _norm(layer: Sublayers, i: int) -> Map:
    compute, gamma, beta, eps = layer.norm.compute, layer.get_parameter(f"gamma{i}"), layer.optional(f"beta{i}"), layer.eps
    return lambda X: compute(X, gamma, beta, eps)
