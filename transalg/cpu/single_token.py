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
from transalg.model.architectures import DTransformer, EDTransformer, Gato
from transalg.model.attention import Attention
from transalg.model.cache import Cache
from transalg.model.layers import DecoderLayer, Layer, Sublayers
from transalg.model.mlp import MLP, Gated
from transalg.model.norm import Norm, layer_norm, rms_norm, rms_norm_1p
from transalg.model.positions import POSITIONS, Learned, NoPositions, Rotary, Sinusoids, turned
from transalg.model.unembedding import matrix_name

POSITIONS_KNOWN = (Learned, Sinusoids, NoPositions, Rotary)  # those that act on the embeddings alone, and one that turns queries and keys
MASKS_KNOWN = (Causal, Band)
NORMS_KNOWN = (layer_norm, rms_norm, rms_norm_1p)
MLPS_KNOWN = (MLP, Gated)

Map = Callable[[Tensor], Tensor]  # of one row
Room = tuple[
    Tensor, Callable[[Tensor, Tensor], None], Tensor, Tensor, Tensor, Tensor
]  # for queries, keys and values of the new token, see `_room`
Angles = tuple[Tensor, Tensor] | None  # cosines and sines of its position, if queries and keys turn
Tokens = tuple[
    Room, Angles, Tensor, Tensor, Tensor, Tensor
]  # of one layer: the room, the angles, places of the new key and value, all keys transposed, all values
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
        original_class(model) in (DTransformer, Gato, EDTransformer)
        and all(original_class(layer) in (Layer, DecoderLayer) for layer in layers)
        and all(original_class(attention) is Attention for attention in attentions)
        and all(type(attention.positions) in POSITIONS_KNOWN and type(attention.heads) is Heads for attention in attentions)
        and all(type(attention.mask) in MASKS_KNOWN for layer in layers for attention in _self_attentions(layer))
        and all(layer.norm.compute in NORMS_KNOWN and type(layer.mlp) in MLPS_KNOWN for layer in layers)
    )


def _self_attentions(layer: Sublayers) -> list[Attention]:
    return [layer.W] if isinstance(layer, Layer) else [layer.W_dec] if isinstance(layer, DecoderLayer) else []


def _fast_path(model: WrappedDecoder, layers: list[Sublayers]) -> SingleToken:
    hyper = model.hyper
    unembed = model.one_row(matrix_name(hyper), "b_u")
    through = [_layer(layer) for layer in layers]
    room, positions = _room(model), torch.arange(hyper.ell_max, device=model.device)
    table = POSITIONS[hyper.positions].table_of_angles(hyper)
    turning = None if table is None else table.at(positions, model.dtype)

    def decode(ids: Tensor, cache: Cache) -> Tensor:
        (t,) = cache.lengths
        X = model.embed_one(ids, positions[t : t + 1])
        keys, values = cache.keys[:, 0], cache.values[:, 0]
        new = keys.narrow(2, t, 1).unbind(), values.narrow(2, t, 1).unbind()
        seen = keys.narrow(2, 0, t + 1).mT.unbind(), values.narrow(2, 0, t + 1).unbind()
        contexts = [(k, v, cache.cross_mask) for k, v in cache.cross] or repeat(None)
        angles = None if turning is None else (turning[0][t], turning[1][t])
        for layer, tokens, context in zip(through, zip(repeat(room), repeat(angles), *new, *seen, strict=False), contexts, strict=False):
            X = layer(X, tokens, context)
        cache.lengths[0] = t + 1
        return unembed(model.last_norm(X))

    return decode


def _room(model: WrappedDecoder) -> Room:
    """Memory for what a new token projects to: all of it; what turns queries and keys in it; queries, H_kv × group × d_attn; its key and its
    value, H_kv × 1 × d; and H_kv × group × 1."""
    heads, d_rot = model.hyper.heads, model.hyper.sizes().get("d_rot") or 0
    rows = heads.matrices["qkv"]
    row = torch.empty(1, sum(rows.values()), dtype=model.dtype, device=model.device)
    parts = zip(rows, torch.split(row[0], list(rows.values())), strict=True)
    q, k, v = (part.view(heads.H_kv, -1, len(part) // heads.counts[name]) for name, part in parts)
    turn = _turn(row[0, : rows["q"] + rows["k"]].view(-1, heads.d_attn), d_rot)
    return row, turn, q, k, v, q[:, :, :1]


def _turn(qk: Tensor, d_rot: int) -> Callable[[Tensor, Tensor], None]:
    """`turned` of queries and keys, heads × d_attn, in place."""
    part, n = qk[:, :d_rot], d_rot // 2
    swapped = torch.empty_like(part)
    first, second, to_first, to_second = part[:, :n], part[:, n:], swapped[:, :n], swapped[:, n:]

    def turn(cos: Tensor, sin: Tensor) -> None:
        to_first.copy_(second)
        to_second.copy_(first)
        part.mul_(cos).addcmul_(swapped, sin)

    return turn


def _layer(layer: Sublayers) -> Sublayer:
    """Each sub-layer with its norm, before it or after the addition."""
    if isinstance(layer, Layer):
        parts = [(_norm_of_row(layer, 1), _attention(layer.W)), (_norm_of_row(layer, 2), _mlp(layer, 1))]
        if layer.parallel:
            return _parallel(*parts)
    else:
        assert isinstance(layer, DecoderLayer)
        parts = [
            (_norm_of_row(layer, 3), _attention(layer.W_dec)),
            (_norm_of_row(layer, 4), _cross(layer.W_ed)),
            (_norm_of_row(layer, 5), _mlp(layer, 3)),
        ]

    def pre_norm(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        for norm, sublayer in parts:
            X = sublayer(norm(X), tokens, context).add_(X)
        return X

    def post_norm(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        for norm, sublayer in parts:
            X = norm(sublayer(X, tokens, context).add_(X))
        return X

    return pre_norm if layer.norm_first else post_norm


def _parallel(first: tuple[Map, Sublayer], second: tuple[Map, Sublayer]) -> Sublayer:
    (norm1, attention), (norm2, mlp) = first, second
    return lambda X, tokens, context: attention(norm1(X), tokens, context).add_(X).add_(mlp(norm2(X), tokens, context))


def _attention(W: Attention) -> Sublayer:
    wrapped: Wrapped = W  # type: ignore[assignment]
    qkv, out, width, scale = wrapped.one_row_into("W_qkv", "b_qkv"), wrapped.one_row("W_o", "b_o"), W.width, 1 / sqrt(W.heads.d_attn)
    normed = None if W.qk_norm is None else (_norm(W, "_q", W.qk_norm), _norm(W, "_k", W.qk_norm))

    def decode(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        (row, turn, q, k, v, like_scores), angles, new_key, new_value, keys, values = tokens
        qkv(X, row)
        if normed is not None:
            q.copy_(normed[0](q))
            k.copy_(normed[1](k))
        if angles is not None:
            turn(*angles)
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
        queries, angles = q(X).view(H, -1), tokens[1]
        if angles is not None:
            queries = turned(queries, *angles)
        return out(F.scaled_dot_product_attention(queries.view(1, H, 1, -1), *context).view(1, -1))

    return decode


def _mlp(layer: Sublayers, number: int) -> Sublayer:
    wrapped: Wrapped = layer  # type: ignore[assignment]
    second, activation = wrapped.one_row(f"W_mlp{number + 1}", f"b_mlp{number + 1}"), layer.mlp.activation
    if not isinstance(layer.mlp, Gated):
        first = wrapped.one_row(f"W_mlp{number}", f"b_mlp{number}")
        return lambda X, tokens, context: second(activation(first(X)))
    both = wrapped.one_row(f"W_glu{number}", f"b_glu{number}")

    def gated(X: Tensor, tokens: Tokens, context: Context) -> Tensor:
        gate, value = both(X).chunk(2, dim=1)
        return second(activation(gate).mul_(value))

    return gated


def _norm(module: Sublayers | Attention, i: int | str, norm: Norm) -> Map:
    compute, gamma, beta, eps = norm.compute, module.get_parameter(f"gamma{i}"), module.optional(f"beta{i}"), module.eps
    return lambda X: compute(X, gamma, beta, eps)


def _norm_of_row(layer: Sublayers, i: int) -> Map:
    """RMSnorm of one row in three operations: xᵀx, then γ ⊙ x times a number; torch takes seven on CPUs. Other norms as usual."""
    compute, gamma, eps, d = layer.norm.compute, layer.get_parameter(f"gamma{i}"), layer.eps, layer.get_parameter(f"gamma{i}").numel()
    if compute not in (rms_norm, rms_norm_1p) or gamma.device.type != "cpu" or gamma.dtype not in (torch.float32, torch.float64):
        return _norm(layer, i, layer.norm)
    zero = torch.zeros((), dtype=gamma.dtype) if compute is rms_norm else None

    def norm(X: Tensor) -> Tensor:
        x = X[0]
        scale = 1 / sqrt(float(torch.dot(x, x)) / d + eps)
        return torch.addcmul(X * scale if zero is None else zero, X, gamma, value=scale)

    return norm
