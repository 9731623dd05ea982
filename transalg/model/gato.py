"""Gato: a decoder whose line 2 embeds all modalities. Its parameters: `hyper/embedding.py`; its statement: `formal/gato.py`."""

from math import sqrt
from typing import Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transalg.hyper import GatoHyper
from transalg.hyper.embedding import PATCHES
from transalg.hyper.heads import Shapes
from transalg.hyper.modalities import ACT, IMG, PATCH
from transalg.hyper.shapes import below, shapes
from transalg.model.attention import Tokens
from transalg.model.cache import Cache
from transalg.model.checks import Lengths
from transalg.model.decoder import DecoderOnly
from transalg.model.embedding import positioned, token_rows
from transalg.model.layers import Picked
from transalg.model.layout import Layout, layout
from transalg.model.mixed import LAST_LOCAL, MixedBatch, checked_batch, distinct, middle_cells
from transalg.model.parameters import Made, ParameterModule
from transalg.model.transformer import Logits


class ResNet(ParameterModule):
    """The ResNet block for all patches of a batch at once."""

    def __init__(self, hyper: GatoHyper, shapes: Shapes, **made: Unpack[Made]) -> None:
        super().__init__(shapes, **made)
        self.groups, self.stride, self.eps = hyper.G, hyper.sigma, hyper.eps

    def forward(self, patches: Float[Tensor, "n C 16 16"]) -> Float[Tensor, "n d_e"]:
        K_0, K_1, K_2 = (self.get_parameter(f"K_{i}") for i in range(3))
        Z = F.conv2d(patches / sqrt(PATCH), K_0, stride=self.stride, padding=1)
        Y = F.conv2d(self._activated(Z, 1), K_1, padding=1)
        Z = Z + F.conv2d(self._activated(Y, 2), K_2, padding=1)
        return self.linear(Z.flatten(1), "W_z", "b_z")

    def _activated(self, Z: Float[Tensor, "n C_r m m"], i: int) -> Float[Tensor, "n C_r m m"]:
        gamma, beta = self.get_parameter(f"gamma{i}"), self.get_parameter(f"beta{i}")
        return F.gelu(F.group_norm(Z, self.groups, gamma, beta, self.eps))


class Gato(DecoderOnly[GatoHyper]):
    """Algorithm 10 for tokens of all modalities: logits of P̂(x[t+1] | s[1:t])."""

    hyper_kind = GatoHyper

    def __init__(self, hyper: GatoHyper, *, generator: torch.Generator | None = None, **made: Unpack[Made]) -> None:
        super().__init__(hyper, **made)
        self.W_res = ResNet(hyper, below(shapes(hyper), PATCHES), **made)
        self.reset_parameters(generator)

    def forward(self, batch: MixedBatch) -> Logits:
        """Logits, B × ℓ × N_V, of what follows each token; 0 after a row's length."""
        X, tokens = self.features(batch)
        return tokens.pad(self.logits(X))

    def features(self, batch: MixedBatch, where: Bool[Tensor, "B ell"] | None = None) -> tuple[Picked, Layout]:
        """X of line 10, a row for each token of the batch, and its layout; where given, the rows of these tokens alone."""
        batch = checked_batch(batch, self.hyper)
        tokens = layout(batch.shape, batch.lengths, batch.ids.device)
        picked = self._picked(tokens, where)
        kind, ids, index, number = (tokens.unpad(part) for part in (batch.kind, batch.ids, batch.index, batch.patch_number()))
        X = self._line_2(kind, ids, index, number, self._patches(batch))
        X = positioned(self, self.hyper, X, tokens.positions(ids.device), batch.shape[1])
        X = X if self.move is None else self.move(X, tokens)
        return self._through_layers(self._dropped(X), tokens, picked), tokens

    @torch.no_grad()
    def decode(  # type: ignore[override]
        self, batch: MixedBatch, cache: Cache, lengths: Lengths = None, *, last: bool = False
    ) -> Float[Tensor, "B *width N_V"]:
        """Append the batch's tokens to the cache's rows, any modalities; what comes back is as for token IDs."""
        self._check(cache)
        batch = checked_batch(batch, self.hyper, least=0, lengths=lengths)
        step = cache.step(batch.shape, batch.lengths)
        kind, ids, index, number = (part.flatten() for part in (batch.kind, batch.ids, batch.index, batch.patch_number()))
        X = self._line_2(kind, ids, index, number, self._patches(batch))
        X = positioned(self, self.hyper, X, step.all_positions(ids.device), batch.shape[1])
        full = set(batch.lengths) == {batch.shape[1]}
        return self._decoded(X, step, None if full else batch.token_mask(), cache, last=last)

    def is_one_token(self, ids: object) -> bool:
        """One token of one row, whatever its kind is but a patch."""
        if not isinstance(ids, MixedBatch) or ids.shape != (1, 1) or ids.lengths != (1,) or len(ids.patches):
            return False
        if any(part.dtype != torch.long for part in (ids.kind, ids.ids, ids.index)):
            return False
        kind, token, index = int(ids.kind), int(ids.ids), int(ids.index)
        known = 0 <= kind <= ACT and kind != IMG and 0 <= token < self.hyper.N_V
        return known and (kind > LAST_LOCAL or 0 <= index < self.hyper.N_loc)

    def embed_one(self, ids: object, position: Int[Tensor, "1"]) -> Tokens:
        assert isinstance(ids, MixedBatch)
        kind = int(ids.kind)
        X = token_rows(self, self.hyper, ids.ids[0])
        if kind <= LAST_LOCAL:
            X = X + self.rows("W_loc", ids.index[0])
        elif kind == ACT:
            X = X + self.get_parameter("w_a")
        return positioned(self, self.hyper, X, position, 1)

    def _patches(self, batch: MixedBatch) -> Float[Tensor, "n d_e"] | None:
        """The patches and where they stand; None if there are none. In training they always run: every parameter gets a gradient, perhaps 0."""
        if not len(batch.patches) and not torch.is_grad_enabled():
            return None
        patches = batch.patches if len(batch.patches) else batch.patches.new_zeros(0, self.hyper.C, PATCH, PATCH)
        cells = middle_cells(batch.intervals, self.hyper.N_grid) if batch.cells is None else batch.cells
        different, which = distinct(patches)
        E: Tensor = self.W_res(different.to(self.dtype))
        E = E if which is None else F.embedding(which, E)
        return E + self.rows("W_row", cells[:, 0]) + self.rows("W_col", cells[:, 1])

    def _line_2(
        self,
        kind: Int[Tensor, "T"],
        ids: Int[Tensor, "T"],
        index: Int[Tensor, "T"],
        number: Int[Tensor, "T"],
        E: Float[Tensor, "n d_e"] | None,
    ) -> Tokens:
        """GatoEmbedding of every token; patch tokens take the rows of E with their numbers."""
        X = token_rows(self, self.hyper, ids)
        if E is not None:
            pictured = (kind == IMG).nonzero()[:, 0]
            X = X.index_copy(0, pictured, F.embedding(number[pictured], E).to(X.dtype) if len(E) else E.to(X.dtype))
        X = X + self.rows("W_loc", index) * (kind <= LAST_LOCAL)[:, None]
        return X + self.get_parameter("w_a") * (kind == ACT)[:, None]
