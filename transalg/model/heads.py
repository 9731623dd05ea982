"""Attention heads: from one product to queries, keys and values of all heads. Their shapes and costs: `hyper/heads.py`."""

import torch
from jaxtyping import Float
from torch import Tensor

from transalg.hyper.heads import Heads

Queries = Float[Tensor, "T H d_attn"]
Keys = Float[Tensor, "T H_kv d_attn"]
Values = Float[Tensor, "T H_kv d_mid"]


def split_qkv(heads: Heads, qkv: Float[Tensor, "T columns"]) -> tuple[Queries, Keys, Values]:
    """T × (H d_attn + H_kv d_attn + H_kv d_mid) to queries, keys and values, T × heads × d each."""
    if heads.d_attn == heads.d_mid:  # in the fewest operations: for one new token they take longer than what they do
        if heads.H_kv == heads.H:
            q, k, v = qkv.view(len(qkv), 3, heads.H, heads.d_mid).unbind(1)
            return q, k, v
        parts = qkv.view(len(qkv), heads.H + 2 * heads.H_kv, heads.d_mid)
        q, k, v = torch.split(parts, [heads.H, heads.H_kv, heads.H_kv], dim=1)
        return q, k, v
    q, k, v = _split(heads, qkv, "qkv")
    return q, k, v


def split_q(heads: Heads, q: Float[Tensor, "T columns"]) -> Queries:
    return torch.unflatten(q, 1, (heads.H, heads.d_attn))


def split_kv(heads: Heads, kv: Float[Tensor, "T columns"]) -> tuple[Keys, Values]:
    k, v = _split(heads, kv, "kv")
    return k, v


def _split(heads: Heads, X: Float[Tensor, "T columns"], matrices: str) -> list[Float[Tensor, "T _ _"]]:
    rows = heads.matrices[matrices]
    parts = zip(rows, torch.split(X, list(rows.values()), dim=1), strict=True)
    return [torch.unflatten(part, 1, (heads.counts[name], -1)) for name, part in parts]


def by_row(part: Float[Tensor, "T H d"], B: int, width: int) -> Float[Tensor, "B H width d"]:
    """From a row for every token to `width` new tokens of each of B rows, as the cache and the kernels take them."""
    return part.unsqueeze(2) if width == 1 else part.view(B, width, *part.shape[1:]).transpose(1, 2)


def merge(y: Float[Tensor, "B H width d_mid"]) -> Float[Tensor, "T columns"]:
    """The heads' outputs side by side, a row for every token."""
    B, _, width, _ = y.shape
    return y.reshape(B, -1) if width == 1 else y.transpose(1, 2).reshape(B * width, -1)


def cache_shapes(heads: Heads, layers: int, batch: int, ell: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the keys and of the values of every layer."""
    return (layers, batch, heads.H_kv, ell, heads.d_attn), (layers, batch, heads.H_kv, ell, heads.d_mid)
