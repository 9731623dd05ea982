"""Multi-head attention, of a sequence to itself or to another: heads, positions and mask put together."""

from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from transalg.hyper import Hyper
from transalg.hyper.heads import Shapes
from transalg.hyper.mask import Mask
from transalg.model import heads, kernels
from transalg.model.cache import Cache, Step
from transalg.model.heads import Keys, Queries, Values
from transalg.model.kernels import GroupK, GroupV, Q, Y
from transalg.model.layout import Bucket, Layout
from transalg.model.mask import MASKS
from transalg.model.norm import NORMS
from transalg.model.parameters import Made, ParameterModule
from transalg.model.positions import POSITIONS, HasPositions

Tokens = Float[Tensor, "T d_e"]  # a row for every token of the batch
Context = Float[Tensor, "T_k d_e"]  # the same for the other sequence of an attention
ContextKeys = Float[Tensor, "T_k H_kv d_attn"]
ContextValues = Float[Tensor, "T_k H_kv d_mid"]


class Attention(ParameterModule):
    """Algorithm 5: H heads on one fused projection W_qkv, or on W_q and W_kv where keys and values come from another sequence."""

    def __init__(self, hyper: Hyper, shapes: Shapes, *, mask: Mask, positions: str, **made: Unpack[Made]) -> None:
        super().__init__(shapes, **made)
        self.heads, self.mask, self.positions = hyper.heads, mask, POSITIONS[positions]
        self.masked, self.width = MASKS[type(mask)].attend(mask), MASKS[type(mask)].width(mask)
        self.dropout, self.ell_max, self.eps = hyper.attention_dropout, hyper.ell_max, hyper.eps
        self.angles = self.positions.table_of_angles(hyper)
        self.qk_norm = NORMS[hyper.norm] if "gamma_q" in self._parameters else None

    def forward(self, X: Tokens, layout: Layout) -> Tokens:
        """Self-attention of every sequence."""
        q, k, v = self._projected(X, layout)
        return self._out(self._attend(q, k, v, layout, layout, layout.buckets))

    def _projected(self, X: Tokens, tokens: HasPositions) -> tuple[Queries, Keys, Values]:
        """Queries, keys and values of the tokens, as they meet: normalized and turned where the model does so."""
        q, k, v = heads.split_qkv(self.heads, self.linear(X, "W_qkv", "b_qkv"))
        if self.qk_norm is not None:
            q, k = self.qk_norm.apply(self, q, "gamma_q", self.eps), self.qk_norm.apply(self, k, "gamma_k", self.eps)
        return self.positions.rotate(self, q, tokens), self.positions.rotate(self, k, tokens), v

    def cross(self, X: Tokens, Z: Context, x: Layout, z: Layout, buckets: tuple[Bucket, ...]) -> Tokens:
        """Attention of x's tokens to those of z."""
        k, v = self.keys_and_values(Z, z)
        return self._out(self._attend(self._queries(X, x), k, v, x, z, buckets))

    def _queries(self, X: Tokens, tokens: HasPositions) -> Queries:
        """Of tokens that attend to another sequence."""
        return self.positions.rotate(self, heads.split_q(self.heads, self.linear(X, "W_q", "b_q")), tokens)

    def keys_and_values(self, Z: Tokens, tokens: HasPositions) -> tuple[Keys, Values]:
        """Of the context's tokens."""
        k, v = heads.split_kv(self.heads, self.linear(Z, "W_kv", "b_kv"))
        return self.positions.rotate(self, k, tokens), v

    def decode(self, X: Tokens, cache: Cache, l: int, step: Step) -> Tokens:
        """Self-attention of the new tokens, B·width of them, to those in the cache and to one another."""
        B, width = len(step.before), step.width
        q, k, v = self._projected(X, step)
        q, k, v = (heads.by_row(part, B, width) for part in (q, k, v))
        cache.write(l, step, k, v)
        first = step.first(self.width)
        k, v = cache.read(l, step, first)
        y = self.positions.decode(self, q, k, v, step.visible(self.width, first), cache, l, step)
        return self._out(heads.merge(y))

    def decode_cross(self, X: Tokens, cache: Cache, l: int, step: Step) -> Tokens:
        """Attention of the new tokens to z, whose keys and values the cache has."""
        k, v = cache.cross[l]
        # a group of rows that look at one z is as many queries
        q = self._queries(X, step).view(len(k), -1, self.heads.H, self.heads.d_attn).transpose(1, 2)
        y = kernels.decoding(q, k, v, cache.cross_mask)
        return self._out(y.transpose(1, 2).reshape(len(X), -1))

    def _attend(
        self, q: Queries, k: ContextKeys, v: ContextValues, x: Layout, z: Layout, buckets: tuple[Bucket, ...]
    ) -> Float[Tensor, "T columns"]:
        if not buckets:
            q, k, v = (part.view(*side.shape, *part.shape[1:]).transpose(1, 2) for part, side in ((q, x), (k, z), (v, z)))
            return self._kernel(q, k, v, None).transpose(1, 2).flatten(0, 1).flatten(1)
        outputs = []
        query_counts, key_counts = [bucket.queries.count for bucket in buckets], [bucket.keys.count for bucket in buckets]
        pieces = zip(buckets, torch.split(q, query_counts), torch.split(k, key_counts), torch.split(v, key_counts), strict=True)
        for bucket, q_, k_, v_ in pieces:
            q_ = bucket.queries.to_sequences(q_).transpose(1, 2)
            k_, v_ = (bucket.keys.to_sequences(part).transpose(1, 2) for part in (k_, v_))
            token_mask = bucket.keys.token_mask
            padding = None if token_mask is None else token_mask[:, None, None]
            outputs.append(bucket.queries.to_tokens(self._kernel(q_, k_, v_, padding).transpose(1, 2).flatten(2)))
        return torch.cat(outputs)

    def _kernel(self, q: Q, k: GroupK, v: GroupV, padding: Tensor | None) -> Y:
        return self.positions.attend(self, q, k, v, padding, self.dropout if self.training else 0.0)

    def _out(self, Y: Float[Tensor, "T columns"]) -> Tokens:
        return self.linear(Y, "W_o", "b_o")
