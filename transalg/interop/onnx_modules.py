"""Models as plain functions of tensors, for onnx: a mask says where padding is, keys and values come in and go out.

They use the model's own parameters and units. What the engine does for speed, ragged rows and a cache in place, a graph cannot do.
"""

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transalg.hyper import EHyper, Hyper
from transalg.hyper.mask import Band
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.model.attention import Attention
from transalg.model.embedding import segmented
from transalg.model.layers import DecoderLayer, Layer
from transalg.model.positions import POSITIONS, turned
from transalg.model.transformer import Transformer

Cached = tuple[Tensor, Tensor]  # keys and values of one layer, B × H_kv × ℓ × d


def embedded(model: Transformer[Hyper], ids: Tensor, positions: Tensor, segments: Tensor | None = None) -> Tensor:
    """Line 2, a row for every token, B·ℓ of them."""
    hyper = model.hyper
    X = F.embedding(ids, model.get_parameter("W_e")).flatten(0, 1)
    X = X * sqrt(hyper.d_e) if hyper.scaled else X
    W_p = POSITIONS[hyper.positions].table(model, hyper)
    X = X if W_p is None else X + F.embedding(positions, W_p).flatten(0, 1)
    return segmented(model, hyper, X, None if segments is None else segments.flatten()) if isinstance(hyper, EHyper) else X


def attended(attention: Attention, X: Tensor, positions: Tensor, visible: Tensor, past: Cached | None = None) -> tuple[Tensor, Cached]:
    """Self-attention of the tokens to those in the cache and to one another, and the cache with them."""
    heads, (B, ell) = attention.heads, positions.shape
    sizes = [heads.H * heads.d_attn, heads.H_kv * heads.d_attn, heads.H_kv * heads.d_mid]
    parts = torch.split(attention.linear(X, "W_qkv", "b_qkv"), sizes, dim=1)
    q, k, v = (torch.unflatten(part, 1, (count, -1)) for part, count in zip(parts, (heads.H, heads.H_kv, heads.H_kv), strict=True))
    if attention.qk_norm is not None:
        q, k = (attention.qk_norm.apply(attention, part, name, attention.eps) for part, name in ((q, "gamma_q"), (k, "gamma_k")))
    q, k = (_rotated(attention, part, positions) for part in (q, k))
    q, k, v = (torch.unflatten(part, 0, (B, ell)).transpose(1, 2) for part in (q, k, v))
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
    return _mixed(attention, q, k, v, visible), (k, v)


def crossed(attention: Attention, X: Tensor, Z: Tensor, positions: Tensor, z_positions: Tensor, visible: Tensor) -> Tensor:
    """Attention of x's tokens to those of z."""
    heads, B = attention.heads, positions.shape[0]
    k, v = torch.split(attention.linear(Z, "W_kv", "b_kv"), [heads.H_kv * heads.d_attn, heads.H_kv * heads.d_mid], dim=1)
    parts = ((attention.linear(X, "W_q", "b_q"), heads.H), (k, heads.H_kv), (v, heads.H_kv))
    q, k, v = (torch.unflatten(part, 1, (count, -1)) for part, count in parts)
    q, k = _rotated(attention, q, positions), _rotated(attention, k, z_positions)
    q, k, v = (torch.unflatten(part, 0, (B, -1)).transpose(1, 2) for part in (q, k, v))
    return _mixed(attention, q, k, v, visible)


def _rotated(attention: Attention, part: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys of tokens at these positions, turned if the model's positions turn them."""
    if attention.angles is None:
        return part
    cos, sin = (one.unsqueeze(1) for one in attention.angles.at(positions.flatten(), part.dtype))
    return turned(part, cos, sin)


def _mixed(attention: Attention, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """softmax(QᵀK / √d_attn) V of all heads, and W_o."""
    groups = attention.heads.H // attention.heads.H_kv
    k, v = (part if groups == 1 else part.repeat_interleave(groups, dim=1) for part in (k, v))
    scores = (q @ k.transpose(2, 3)) / sqrt(attention.heads.d_attn)
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    Y = (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2).flatten(0, 1)
    return attention.linear(Y, "W_o", "b_o")


def seen(attention: Attention, mask: Tensor, ell: int, *, causal: bool) -> Tensor:
    """Which keys the last ℓ tokens see, B × 1 × ℓ × N: none in the padding, and none after them in a decoder."""
    N = mask.shape[1]
    visible = mask[:, None, None, :].bool()
    if not causal:
        return visible
    distance = (torch.arange(ell, device=mask.device) + (N - ell))[:, None] - torch.arange(N, device=mask.device)
    inside = distance >= 0
    if isinstance(attention.mask, Band):
        inside = inside & (distance < attention.mask.width)
    return visible & inside


def counted(mask: Tensor, ell: int) -> Tensor:
    """Positions of the last ℓ tokens, counted from the first that is not padding."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)[:, mask.shape[1] - ell :]


class DecoderGraph(nn.Module):
    """input_ids B × ℓ, attention_mask B × (past + ℓ), past_keys, past_values L × B × H_kv × past × d → logits, keys, values."""

    def __init__(self, model: DTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past_keys: Tensor, past_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ell = input_ids.shape[1]
        positions = counted(attention_mask, ell)
        X, keys, values = embedded(self.model, input_ids, positions), list[Tensor](), list[Tensor]()
        for l, layer in enumerate(self.model.in_order("layers")):
            assert isinstance(layer, Layer)
            visible = seen(layer.W, attention_mask, ell, causal=True)
            Y, (k, v) = attended(layer.W, layer._before(X, 1), positions, visible, (past_keys[l], past_values[l]))
            X = layer._with_mlp(X, Y)
            keys.append(k)
            values.append(v)
        logits = self.model.logits(self.model.last_norm(X))
        return torch.unflatten(logits, 0, input_ids.shape), torch.stack(keys), torch.stack(values)


class EncoderGraph(nn.Module):
    """input_ids, attention_mask, token_type_ids, each B × ℓ → the vectors of the last layer, logits of tokens, or logits of classes."""

    def __init__(self, model: ETransformer | Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        model, hyper = self.model, self.model.hyper
        positions = counted(attention_mask, input_ids.shape[1])
        X = embedded(model, input_ids, positions, token_type_ids)
        for layer in model.in_order("layers"):
            assert isinstance(layer, Layer)
            Y, _ = attended(layer.W, layer._before(X, 1), positions, seen(layer.W, attention_mask, 0, causal=False))
            X = layer._with_mlp(X, Y)
        if hyper.head == "none" and isinstance(model, ETransformer):
            return torch.unflatten(X, 0, input_ids.shape)
        X = torch.unflatten(model.head(X), 0, input_ids.shape)
        if isinstance(model, Classifier):
            return model.linear(_pooled(X, attention_mask, model.hyper.pooling), "W_c", "b_c")
        return torch.unflatten(model.logits(X.flatten(0, 1)), 0, input_ids.shape)


def _pooled(X: Tensor, mask: Tensor, pooling: str) -> Tensor:
    inside = mask[:, :, None].to(X)
    if pooling == "mean":
        return (X * inside).sum(dim=1) / inside.sum(dim=1)
    return X[:, 0] if pooling == "bos" else X.masked_fill(inside == 0, -torch.inf).amax(dim=1)


class SourceGraph(nn.Module):
    """The encoder of an encoder–decoder: input_ids, attention_mask → Z, B × ℓ × d_e."""

    def __init__(self, model: EDTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = counted(attention_mask, input_ids.shape[1])
        Z = embedded(self.model, input_ids, positions)
        for layer in self.model.in_order("enc"):
            assert isinstance(layer, Layer)
            Y, _ = attended(layer.W, layer._before(Z, 1), positions, seen(layer.W, attention_mask, 0, causal=False))
            Z = layer._with_mlp(Z, Y)
        return torch.unflatten(self.model._final(Z, "gamma_enc"), 0, input_ids.shape)


class TargetGraph(nn.Module):
    """The decoder: as DecoderGraph, with encoder_hidden_states and encoder_attention_mask."""

    def __init__(self, model: EDTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor, past_keys: Tensor, past_values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        ell = input_ids.shape[1]
        mask = torch.cat([torch.ones_like(past_keys[0, :, 0, :, 0], dtype=torch.long), torch.ones_like(input_ids)], dim=1)
        positions, visible_z = counted(mask, ell), encoder_attention_mask[:, None, None, :].bool()
        z_positions = counted(encoder_attention_mask, encoder_attention_mask.shape[1])
        X, Z = embedded(self.model, input_ids, positions), encoder_hidden_states.flatten(0, 1)
        keys, values = list[Tensor](), list[Tensor]()
        for l, layer in enumerate(self.model.in_order("dec")):
            assert isinstance(layer, DecoderLayer)
            visible = seen(layer.W_dec, mask, ell, causal=True)
            Y, (k, v) = attended(layer.W_dec, layer._before(X, 3), positions, visible, (past_keys[l], past_values[l]))
            X = layer._after(X, Y, 3)
            X = layer._after(X, crossed(layer.W_ed, layer._before(X, 4), Z, positions, z_positions, visible_z), 4)
            X = layer._mlp(X)
            keys.append(k)
            values.append(v)
        logits = self.model.logits(self.model.last_norm(X))
        return torch.unflatten(logits, 0, input_ids.shape), torch.stack(keys), torch.stack(values)
