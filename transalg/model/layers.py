"""The two kinds of layer. One row of X for every token of the batch."""

from typing import Unpack

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from transalg.hyper import DHyper, Hyper
from transalg.hyper.heads import Shapes
from transalg.hyper.mask import Mask
from transalg.hyper.shapes import below
from transalg.model.attention import Attention, Context, Tokens
from transalg.model.cache import Cache, Step
from transalg.model.heads import Keys, Values
from transalg.model.layout import Bucket, Layout, pick
from transalg.model.mlp import MLPS
from transalg.model.norm import NORMS
from transalg.model.parameters import Made, ParameterModule

Picked = Float[Tensor, "T_picked d"]  # rows of X, all or some


class Sublayers(ParameterModule):
    """What a layer of any kind does around its sub-layers: norms and residual additions, in the order that hyper says."""

    def __init__(self, hyper: Hyper, shapes: Shapes, **made: Unpack[Made]) -> None:
        super().__init__(shapes, **made)
        self.eps, self.norm_first, self.dropout = hyper.eps, hyper.norm_first, hyper.dropout
        self.norm, self.mlp = NORMS[hyper.norm], MLPS[hyper.activation]
        self.norm.register(self, self._parameters)

    def _before(self, X: Tokens, i: int) -> Tokens:
        """The input of the sub-layer with norm i."""
        return self._norm(X, i) if self.norm_first else X

    def _after(self, X: Tokens, sublayer: Tokens, i: int) -> Tokens:
        """The residual stream after it."""
        X = X + F.dropout(sublayer, self.dropout, self.training) if self.dropout and self.training else X + sublayer
        return X if self.norm_first else self._norm(X, i)

    def _norm(self, X: Tokens, i: int) -> Tokens:
        return self.norm.apply(self, X, f"gamma{i}", self.eps)


class Layer(Sublayers):
    """A layer of Algorithms 9 and 10, and of the encoder of Algorithm 8: self-attention, then an MLP."""

    def __init__(self, hyper: Hyper, shapes: Shapes, *, mask: Mask, **made: Unpack[Made]) -> None:
        super().__init__(hyper, shapes, **made)
        self.W = Attention(hyper, below(shapes, "W"), mask=mask, positions=hyper.positions, **made)
        self.parallel = isinstance(hyper, DHyper) and hyper.parallel

    def forward(self, X: Tokens, layout: Layout, picked: Int[Tensor, "n"] | None = None) -> Picked:
        """The rows of the residual stream after this layer; only those that are picked, if any are: the MLP then has no more to do."""
        return self._with_mlp(X, self.W(self._before(X, 1), layout), picked)

    def decode(self, X: Tokens, cache: Cache, l: int, step: Step) -> Tokens:
        return self._with_mlp(X, self.W.decode(self._before(X, 1), cache, l, step))

    def _with_mlp(self, X: Tokens, attention: Tokens, picked: Int[Tensor, "n"] | None = None) -> Picked:
        """The residual stream after both sub-layers; the MLP reads X as it was before the first of them if they are parallel."""
        if picked is not None:
            X, attention = pick(X, picked), pick(attention, picked)
        after = self._after(X, attention, 1)
        return self._after(after, self.mlp.compute(self, self._before(X if self.parallel else after, 2), 1), 2)


class DecoderLayer(Sublayers):
    """A layer of the decoder of Algorithm 8: self-attention, attention to z, then an MLP."""

    def __init__(self, hyper: Hyper, shapes: Shapes, *, mask: Mask, **made: Unpack[Made]) -> None:
        super().__init__(hyper, shapes, **made)
        self.W_dec = Attention(hyper, below(shapes, "W_dec"), mask=mask, positions=hyper.positions, **made)
        self.W_ed = Attention(hyper, below(shapes, "W_ed"), mask=Mask(), positions=hyper.positions, **made)

    def forward(self, X: Tokens, Z: Context, x: Layout, z: Layout, buckets: tuple[Bucket, ...]) -> Tokens:
        X = self._after(X, self.W_dec(self._before(X, 3), x), 3)
        X = self._after(X, self.W_ed.cross(self._before(X, 4), Z, x, z, buckets), 4)
        return self._mlp(X)

    def keys_and_values(self, Z: Tokens, z: Layout) -> tuple[Keys, Values]:
        """Of z's tokens."""
        return self.W_ed.keys_and_values(Z, z)

    def decode(self, X: Tokens, cache: Cache, l: int, step: Step) -> Tokens:
        X = self._after(X, self.W_dec.decode(self._before(X, 3), cache, l, step), 3)
        X = self._after(X, self.W_ed.decode_cross(self._before(X, 4), cache, l, step), 4)
        return self._mlp(X)

    def _mlp(self, X: Tokens) -> Tokens:
        return self._after(X, self.mlp.compute(self, self._before(X, 5), 3), 5)
