"""The layers: multi-head attention, and the two kinds of layer it stands in. One row of X for every token of the batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.hyper import Hyper
from transalg.hyper.shapes import Shapes
from transalg.model import attention
from transalg.model.cache import Cache, Step
from transalg.model.layout import Bucket, Rows
from transalg.model.parameters import LinearKernel, Part, below
from transalg.model.positions import waves

NORMS = [(f"gamma{i}", f"beta{i}") for i in range(6)]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"ReLU": F.relu, "GELU": F.gelu, "tanh_GELU": partial(F.gelu, approximate="tanh")}


def norm(X: Tensor, gamma: Tensor, beta: Tensor | None, eps: float) -> Tensor:
    """Algorithm 6, or RMSnorm where there is no β, for every row of X."""
    if beta is None:
        return torch.rms_norm(X, gamma.shape, gamma, eps)
    return torch.layer_norm(X, gamma.shape, gamma, beta, eps)


class Attention(Part):
    """Algorithm 5: H heads on one fused projection."""

    W_qkv: Tensor
    b_qkv: Tensor
    W_q: Tensor  # with W_kv instead of W_qkv where keys and values come from another sequence
    b_q: Tensor
    W_kv: Tensor
    b_kv: Tensor
    W_o: Tensor
    b_o: Tensor
    W_r: Tensor  # with u and w where positions are relative
    u: Tensor
    w: Tensor

    def __init__(self, hyper: Hyper, shapes: Shapes, *, causal: bool, band: int | None = None, **made: Any) -> None:
        super().__init__(shapes, **made)
        self.H, self.d_attn, self.d_mid = hyper.heads
        self.causal, self.band, self.dropout, self.ell_max = causal, band, hyper.attention_dropout, hyper.ell_max

    def forward(self, X: Tensor, rows: Rows) -> Tensor:
        """Self-attention of every sequence."""
        q, k, v = self._heads(self.linear(X, "W_qkv", "b_qkv"), (self.d_attn, self.d_attn, self.d_mid))
        return self._out(self._attend(q, k, v, rows, rows, rows.buckets))

    def cross(self, X: Tensor, Z: Tensor, x: Rows, z: Rows, buckets: tuple[Bucket, ...]) -> Tensor:
        """Attention of x's tokens to those of z."""
        (q,) = self._heads(self.linear(X, "W_q", "b_q"), (self.d_attn,))
        k, v = self.keys_and_values(Z)
        return self._out(self._attend(q, k, v, x, z, buckets))

    def keys_and_values(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Of the context's tokens, T × H × d each."""
        k, v = self._heads(self.linear(Z, "W_kv", "b_kv"), (self.d_attn, self.d_mid))
        return k, v

    def decode(self, X: Tensor, cache: Cache, l: int, step: Step) -> Tensor:
        """Self-attention of the new tokens, B·width of them, to those in the cache and to one another."""
        B, width = len(step.before), step.width
        qkv = self.linear(X, "W_qkv", "b_qkv")
        if width == 1 and self.d_attn == self.d_mid:  # in the fewest operations: for one token they take longer than what they do
            q, k, v = qkv.view(B, 3, self.H, 1, self.d_mid).unbind(1)
        else:
            parts = self._heads(qkv, (self.d_attn, self.d_attn, self.d_mid))
            q, k, v = (each.view(B, width, self.H, -1).transpose(1, 2) for each in parts)
        cache.write(l, step, k, v)
        first = step.first(self.band)
        k, v = cache.read(l, step, first)
        mask = step.mask(self.band, first)
        if self.optional("W_r") is None:
            y = attention.decoding(q, k, v, mask)
        else:
            distances = (step.positions[..., None] - torch.arange(step.end, device=X.device)).clamp(min=0)  # of every key from every query
            distances = distances.view(-1, 1, width, step.end).expand(B, self.H, width, step.end)
            if l not in cache.distances:
                cache.distances[l] = self._distances(cache.ell, X)
            by_distance = (q + self.w[:, None]) @ cache.distances[l][:, : step.end].mT
            y = attention.scored(q + self.u[:, None], k, v, by_distance.gather(3, distances), mask if mask is not None else distances >= 0)
        return self._out(y.reshape(B, -1) if width == 1 else y.transpose(1, 2).reshape(B * width, -1))

    def decode_cross(self, X: Tensor, cache: Cache, l: int) -> Tensor:
        """Attention of the new tokens to z, whose keys and values the cache has."""
        k, v = cache.cross[l]
        # a group of rows that look at one z is as many queries
        q = self.linear(X, "W_q", "b_q").view(len(k), -1, self.H, self.d_attn).transpose(1, 2)
        y = attention.decoding(q, k, v, cache.cross_mask)
        return self._out(y.transpose(1, 2).reshape(len(X), -1))

    def _heads(self, X: Tensor, widths: tuple[int, ...]) -> list[Tensor]:
        """T × ΣHd to T × H × d for each d."""
        parts = torch.split(X, [self.H * width for width in widths], dim=1)
        return [torch.unflatten(part, 1, (self.H, width)) for part, width in zip(parts, widths, strict=True)]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, x: Rows, z: Rows, buckets: tuple[Bucket, ...]) -> Tensor:
        if not buckets:
            q, k, v = (each.view(*of.shape, *each.shape[1:]).transpose(1, 2) for each, of in ((q, x), (k, z), (v, z)))
            return self._kernel(q, k, v, None).transpose(1, 2).reshape(-1, self.H * self.d_mid)
        found = []
        of_queries, of_keys = [bucket.queries.count for bucket in buckets], [bucket.keys.count for bucket in buckets]
        cut = (torch.split(q, of_queries), torch.split(k, of_keys), torch.split(v, of_keys))
        for bucket, *pieces in zip(buckets, *cut, strict=True):
            parts = bucket.queries, bucket.keys, bucket.keys
            q_, k_, v_ = (part.take(piece).transpose(1, 2) for piece, part in zip(pieces, parts, strict=True))
            there = bucket.keys.there
            # behind a row's end all is in the future, so what is causal needs no mask
            mask = None if self.causal or there is None else there[:, None, None]
            found.append(bucket.queries.give(self._kernel(q_, k_, v_, mask).transpose(1, 2).flatten(2)))
        return torch.cat(found)

    def _kernel(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if self.optional("W_r") is not None:
            return attention.relative(q, k, v, self._distances(q.shape[2], q), self.u, self.w, dropout=dropout)
        if self.band is not None:
            return attention.banded(q, k, v, self.band, dropout=dropout)
        return attention.dense(q, k, v, causal=self.causal, mask=mask, dropout=dropout)

    def _distances(self, ell: int, like: Tensor) -> Tensor:
        """W_r r(δ) for δ = 0, …, ℓ − 1: H × ℓ × d_attn."""
        r = waves("sinusoids", self.ell_max, self.W_r.shape[1], like.device, like.dtype)[:ell]
        return F.linear(r, self.W_r).view(ell, self.H, self.d_attn).transpose(0, 1)

    def _out(self, Y: Tensor) -> Tensor:
        return self.linear(Y, "W_o", "b_o")


class Sublayers(Part):
    """What a layer of any kind does around its sub-layers: norms and residual additions, in the order that hyper says."""

    def __init__(self, hyper: Hyper, shapes: Shapes, **made: Any) -> None:
        super().__init__(shapes, **made)
        self.eps, self.norm_first, self.dropout = hyper.eps, hyper.norm_first, hyper.dropout
        self.name, self.activation = hyper.activation, ACTIVATIONS[hyper.activation]

    def _before(self, X: Tensor, i: int) -> Tensor:
        """What the sub-layer with norm i gets."""
        return self._norm(X, i) if self.norm_first else X

    def _behind(self, X: Tensor, sublayer: Tensor, i: int) -> Tensor:
        """The residual stream behind it."""
        X = X + F.dropout(sublayer, self.dropout, self.training) if self.dropout and self.training else X + sublayer
        return X if self.norm_first else self._norm(X, i)

    def _norm(self, X: Tensor, i: int) -> Tensor:
        gamma, beta = NORMS[i]
        return norm(X, self._parameters[gamma], self._parameters.get(beta), self.eps)  # type: ignore[arg-type]

    def _mlp(self, X: Tensor, first: int) -> Tensor:
        """With W_mlp and b_mlp of this number, then of the next."""
        stand_in = self._modules.get(f"W_mlp{first}")
        fused = stand_in.fused(X, self.name) if isinstance(stand_in, LinearKernel) else None
        X = self.activation(self.linear(X, f"W_mlp{first}", f"b_mlp{first}")) if fused is None else fused
        return self.linear(X, f"W_mlp{first + 1}", f"b_mlp{first + 1}")


class Layer(Sublayers):
    """A layer of Algorithms 9 and 10, and of the encoder of Algorithm 8: self-attention, then an MLP."""

    W_mlp1: Tensor
    b_mlp1: Tensor
    W_mlp2: Tensor
    b_mlp2: Tensor

    def __init__(self, hyper: Hyper, shapes: Shapes, *, causal: bool, band: int | None = None, **made: Any) -> None:
        super().__init__(hyper, shapes, **made)
        self.W = Attention(hyper, below(shapes, "W"), causal=causal, band=band, **made)

    def forward(self, X: Tensor, rows: Rows) -> Tensor:
        return self._mlp_behind(self._behind(X, self.W(self._before(X, 1), rows), 1))

    def decode(self, X: Tensor, cache: Cache, l: int, step: Step) -> Tensor:
        return self._mlp_behind(self._behind(X, self.W.decode(self._before(X, 1), cache, l, step), 1))

    def _mlp_behind(self, X: Tensor) -> Tensor:
        return self._behind(X, self._mlp(self._before(X, 2), 1), 2)


class DecoderLayer(Sublayers):
    """A layer of the decoder of Algorithm 8: self-attention, attention to z, then an MLP."""

    W_mlp3: Tensor
    b_mlp3: Tensor
    W_mlp4: Tensor
    b_mlp4: Tensor

    def __init__(self, hyper: Hyper, shapes: Shapes, **made: Any) -> None:
        super().__init__(hyper, shapes, **made)
        self.W_dec = Attention(hyper, below(shapes, "W_dec"), causal=True, **made)
        self.W_ed = Attention(hyper, below(shapes, "W_ed"), causal=False, **made)

    def forward(self, X: Tensor, Z: Tensor, x: Rows, z: Rows, buckets: tuple[Bucket, ...]) -> Tensor:
        X = self._behind(X, self.W_dec(self._before(X, 3), x), 3)
        X = self._behind(X, self.W_ed.cross(self._before(X, 4), Z, x, z, buckets), 4)
        return self._mlp_behind(X)

    def keys_and_values(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Of z's tokens, T × H × d each."""
        return self.W_ed.keys_and_values(Z)

    def decode(self, X: Tensor, cache: Cache, l: int, step: Step) -> Tensor:
        X = self._behind(X, self.W_dec.decode(self._before(X, 3), cache, l, step), 3)
        X = self._behind(X, self.W_ed.decode_cross(self._before(X, 4), cache, l), 4)
        return self._mlp_behind(X)

    def _mlp_behind(self, X: Tensor) -> Tensor:
        return self._behind(X, self._mlp(self._before(X, 5), 3), 5)
