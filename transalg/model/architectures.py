"""The three architectures and the classifier: Algorithms 8–10 for batches."""

from collections.abc import Callable
from math import sqrt
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transalg.formal.domains import refuse
from transalg.formal.tree import Theta
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, Hyper
from transalg.hyper.shapes import shapes
from transalg.model import bridge
from transalg.model.blocks import DecoderLayer, Layer, norm
from transalg.model.cache import Cache
from transalg.model.checks import Lengths, row_lengths, token_ids, within
from transalg.model.decoding import decode, new_cache, without_dropout
from transalg.model.layout import Rows, paired, rows
from transalg.model.parameters import Part, below, initialise, is_sharded
from transalg.model.positions import waves

Device = torch.device | str | None
Own = TypeVar("Own", bound="Transformer")


class Transformer(Part):
    """What all of them share: embeddings, unembedding, and the way to the formal θ and back."""

    hyper_kind: type[Hyper]
    hyper: Any
    W_e: Tensor
    W_p: Tensor
    W_u: Tensor

    def __init__(
        self, hyper: Any, *, device: Device = None, dtype: torch.dtype | None = None, generator: torch.Generator | None = None
    ) -> None:
        if type(hyper) is not self.hyper_kind:
            raise refuse("hyper", f"a {self.hyper_kind.__name__} for a {type(self).__name__}", type(hyper).__name__)
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise refuse("dtype", "real numbers", dtype)
        super().__init__(shapes(hyper), device, dtype)
        self.hyper = hyper
        self.recompute = False  # trade time for memory in training
        self.alone: Callable[[Tensor, Cache], Tensor] | None = None  # the short way of one token, see `transalg.cpu.single_token`

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "alone": None}  # the short way of a copy would lead through the original's parameters

    @property
    def _positions(self) -> Tensor:
        """W_p, learned or fixed."""
        if self.hyper.positions == "learned":
            return self.W_p
        W_p: Tensor = waves(self.hyper.positions, self.hyper.ell_max, self.hyper.d_e, self.device, self.dtype)
        return W_p

    def _stack(self, name: str, count: int, kind: type[nn.Module], **options: Any) -> nn.ModuleList:
        all_shapes, made = shapes(self.hyper), {"device": self.device, "dtype": self.dtype}
        band = getattr(self.hyper, "banded", lambda l: None)
        bands = [{"band": band(l)} if band(l) else {} for l in range(count)]
        return nn.ModuleList(kind(self.hyper, below(all_shapes, f"{name}.{l}"), **options, **bands[l], **made) for l in range(count))

    def _through(self, layer: nn.Module, *given: Any) -> Tensor:
        """A layer's output; with `recompute`, all but that is forgotten and computed again in the backward pass."""
        if self.recompute and torch.is_grad_enabled():
            again: Tensor = checkpoint(layer, *given, use_reentrant=False)
            return again
        result: Tensor = layer(*given)
        return result

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Random weights as hyper says; nothing on the meta device."""
        if self.W_e.is_meta:
            return
        initialise(self, self.hyper, generator)

    @property
    def device(self) -> torch.device:
        return self.W_e.device

    @property
    def dtype(self) -> torch.dtype:
        return self.W_e.dtype

    @property
    def unembedding(self) -> Tensor:
        """W_u, or W_e if they are tied."""
        return self.W_e if self.hyper.tied else self.W_u

    def logits(self, X: Tensor) -> Tensor:
        """Of every token of the vocabulary, for every row of X."""
        return self.linear(X, "W_e" if self.hyper.tied else "W_u", "b_u")

    @classmethod
    def from_theta(
        cls: type[Own], theta: Theta, hyper: Any = None, *, device: Device = None, dtype: torch.dtype | None = None, **departures: Any
    ) -> Own:
        """The model whose θ is given. What θ does not show, `norm="RMSnorm"` say, comes by its name in hyper; or hyper comes as a whole."""
        hyper = bridge.hyper_of(theta, cls.hyper_kind, departures, hyper)
        first = next(iter(theta.named().values()))
        model = cls(hyper, device=device or first.device, dtype=dtype or first.dtype)
        state = bridge.state_of(theta, hyper)
        bridge.nothing_lost(theta, hyper, state)
        model.load_state_dict(state)
        return model

    def theta(self, dtype: torch.dtype = torch.float64) -> Any:
        """The formal θ, a copy."""
        named = {name: _whole(part.detach()) for name, part in self.named_parameters()}
        named |= {name: part.matrix() for name, part in self.stand_ins().items()}
        return bridge.theta_of(self.hyper, named, dtype)

    def theta_gradient(self, dtype: torch.dtype = torch.float64) -> Any:
        """The gradients of all parameters as a formal θ, 0 where the model has no such parameter."""
        gradients = {name: _whole(torch.zeros_like(part) if part.grad is None else part.grad) for name, part in self.named_parameters()}
        return bridge.theta_of(self.hyper, gradients, dtype, gradient=True)

    def _embed(self, ids: Tensor, positions: Tensor | None, ell: int) -> Tensor:
        """W_e[:,v] + W_p[:,t] for every token, whose positions are given, or 0, …, ℓ−1 in every row."""
        X = F.embedding(ids, self.W_e) if isinstance(self.W_e, Tensor) else self.W_e.rows(ids)
        if self.hyper.scaled:
            X = X * sqrt(self.hyper.d_e)
        if self.hyper.positions == "relative":
            return X
        if positions is None:
            return (X.view(-1, ell, self.hyper.d_e) + self._positions[:ell]).view_as(X)
        return X + F.embedding(positions, self._positions)

    def _drop(self, X: Tensor) -> Tensor:
        return F.dropout(X, self.hyper.dropout, self.training) if self.hyper.dropout else X

    def extra_repr(self) -> str:
        symbols = ", ".join(f"{symbol}={size}" for symbol, size in self.hyper.sizes().items() if size is not None)
        departures = ", ".join(f"{name}={value!r}" for name, value in self.hyper.departures().items() if name not in ("d_attn", "d_mid"))
        return symbols + (f"; {departures}" if departures else "")


class DTransformer(Transformer):
    """Algorithm 10, decoder-only: logits of P̂(x[t+1] | x[1:t])."""

    hyper_kind = DHyper
    layers: Any
    gamma: Tensor

    def __init__(
        self, hyper: DHyper, *, device: Device = None, dtype: torch.dtype | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(hyper, device=device, dtype=dtype)
        self.layers = self._stack("layers", hyper.L, Layer, causal=True)
        self.reset_parameters(generator)

    def forward(self, ids: Tensor, lengths: Lengths = None) -> Tensor:
        """Logits, B × ℓ × N_V, of what follows each token; 0 behind a row's length."""
        X, rows = self.features(ids, lengths)
        return rows.unpack(self.logits(X))

    def features(self, ids: Tensor, lengths: Lengths = None) -> tuple[Tensor, Rows]:
        """X of line 10, a row for each token of the batch, and which is which."""
        ids = token_ids("ids", ids, self.hyper.ell_max)
        where = rows(tuple(ids.shape), row_lengths("lengths", lengths, tuple(ids.shape)), ids.device)
        X = self._drop(self._embed(within("ids", where.pack(ids), self.hyper.N_V), where.positions(ids.device), ids.shape[1]))
        for layer in self.layers:
            X = self._through(layer, X, where)
        return self.last_norm(X), where

    def last_norm(self, X: Tensor) -> Tensor:
        """Line 10."""
        return norm(X, self.gamma, self.optional("beta"), self.hyper.eps)

    def cache(self, batch: int, ell: int | None = None) -> Cache:
        """Memory to decode `batch` rows of up to ℓ tokens, ℓ_max unless given."""
        return new_cache(self, self.hyper.L, batch, ell)

    @torch.no_grad()
    def decode(self, ids: Tensor, cache: Cache, lengths: Lengths = None, *, last: bool = False) -> Tensor:
        """Append the tokens to the cache's rows; logits, B × width × N_V, of what follows each. A row's length may be 0: nothing new.

        With `last`, only the logits of what follows the last new token of each row, B × N_V, 0 if it has none.
        """
        return decode(self, self.layers, ids, cache, lengths, last)


class Encoder(Transformer):
    """Lines 1–11 of Algorithm 9, for the encoder-only transformer and the classifier."""

    layers: Any
    W_s: Tensor
    gamma_e: Tensor
    W_f: Tensor
    b_f: Tensor
    gamma: Tensor

    def __init__(
        self, hyper: Any, *, device: Device = None, dtype: torch.dtype | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(hyper, device=device, dtype=dtype)
        self.layers = self._stack("layers", hyper.L, Layer, causal=False)
        self.reset_parameters(generator)

    def encode(self, ids: Tensor, lengths: Lengths = None, segments: Tensor | None = None) -> tuple[Tensor, Rows]:
        """X of line 9, a row for each token of the batch, and which is which."""
        ids = token_ids("ids", ids, self.hyper.ell_max)
        where = rows(tuple(ids.shape), row_lengths("lengths", lengths, tuple(ids.shape)), ids.device)
        X = self._embed(within("ids", where.pack(ids), self.hyper.N_V), where.positions(ids.device), ids.shape[1])
        X = X + self._segments(segments, ids, where) if self.hyper.segments else X
        if segments is not None and not self.hyper.segments:
            raise refuse("segments", "None, for this model has no segment embeddings", "some")
        if self.hyper.embedding_norm:
            X = norm(X, self.gamma_e, self.optional("beta_e"), self.hyper.eps)
        X = self._drop(X)
        for layer in self.layers:
            X = self._through(layer, X, where)
        return X, where

    def _segments(self, segments: Tensor | None, ids: Tensor, where: Rows) -> Tensor:
        if segments is None:
            return self.W_s[0]
        segments = token_ids("segments", segments, self.hyper.ell_max)
        if segments.shape != ids.shape:
            raise refuse("segments", f"a segment for every token, {tuple(ids.shape)}", tuple(segments.shape))
        return F.embedding(within("segments", where.pack(segments), self.hyper.segments, "N_S"), self.W_s)

    def head(self, X: Tensor) -> Tensor:
        """Lines 10 and 11."""
        X = self.layers[0].activation(self.linear(X, "W_f", "b_f"))
        return norm(X, self.gamma, self.optional("beta"), self.hyper.eps)


class ETransformer(Encoder):
    """Algorithm 9, encoder-only: logits of every token given all of the others."""

    hyper_kind = EHyper

    def forward(self, ids: Tensor, lengths: Lengths = None, segments: Tensor | None = None) -> Tensor:
        """Logits, B × ℓ × N_V; 0 behind a row's length."""
        X, rows = self.features(ids, lengths, segments)
        return rows.unpack(self.logits(X))

    def features(self, ids: Tensor, lengths: Lengths = None, segments: Tensor | None = None) -> tuple[Tensor, Rows]:
        """X of line 11, a row for each token of the batch, and which is which."""
        X, rows = self.encode(ids, lengths, segments)
        return self.head(X), rows


class Classifier(Encoder):
    """Classification (§3) with the encoder of Algorithm 9: logits of the classes, read off the first token, bos."""

    hyper_kind = ClassifierHyper
    W_c: Tensor
    b_c: Tensor

    def forward(self, ids: Tensor, lengths: Lengths = None, segments: Tensor | None = None) -> Tensor:
        """Logits, B × N_C."""
        X, rows = self.encode(ids, lengths, segments)
        return F.linear(self.head(X[rows.firsts]), self.W_c, self.b_c)


class EDTransformer(Transformer):
    """Algorithm 8, encoder–decoder: logits of P̂(x[t+1] | x[1:t], z)."""

    hyper_kind = EDHyper
    enc: Any
    dec: Any

    def __init__(
        self, hyper: EDHyper, *, device: Device = None, dtype: torch.dtype | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(hyper, device=device, dtype=dtype)
        self.enc = self._stack("enc", hyper.L_enc, Layer, causal=False)
        self.dec = self._stack("dec", hyper.L_dec, DecoderLayer)
        self.reset_parameters(generator)

    def forward(self, z: Tensor, x: Tensor, z_lengths: Lengths = None, x_lengths: Lengths = None) -> Tensor:
        """Logits, B × ℓ_x × N_V, of what follows each token of x; 0 behind a row's length."""
        X, rows = self.features(z, x, z_lengths, x_lengths)
        return rows.unpack(self.logits(X))

    def features(self, z: Tensor, x: Tensor, z_lengths: Lengths = None, x_lengths: Lengths = None) -> tuple[Tensor, Rows]:
        """X of line 20, a row for each token of x, and which is which."""
        z, x = token_ids("z", z, self.hyper.ell_max), token_ids("x", x, self.hyper.ell_max)
        if len(z) != len(x):
            raise refuse("x", f"as many rows as z, {len(z)}", len(x))
        lengths = row_lengths("z_lengths", z_lengths, tuple(z.shape)), row_lengths("x_lengths", x_lengths, tuple(x.shape))
        of_z, of_x, buckets = paired(tuple(z.shape), lengths[0], tuple(x.shape), lengths[1], z.device)
        Z = self._encode(z, of_z)
        X = self._drop(self._embed(within("x", of_x.pack(x), self.hyper.N_V), of_x.positions(x.device), x.shape[1]))
        for layer in self.dec:
            X = self._through(layer, X, Z, of_x, of_z, buckets)
        return self.last_norm(X), of_x

    def encode(self, z: Tensor, z_lengths: Lengths = None) -> tuple[Tensor, Rows]:
        """Z as the decoder sees it, a row for each token of z, and which is which."""
        z = token_ids("z", z, self.hyper.ell_max)
        where = rows(tuple(z.shape), row_lengths("z_lengths", z_lengths, tuple(z.shape)), z.device)
        return self._encode(z, where), where

    def _encode(self, z: Tensor, where: Rows) -> Tensor:
        Z = self._drop(self._embed(within("z", where.pack(z), self.hyper.N_V), where.positions(z.device), z.shape[1]))
        for layer in self.enc:
            Z = self._through(layer, Z, where)
        return self._final(Z, "enc")

    def last_norm(self, X: Tensor) -> Tensor:
        """Behind the decoder's layers."""
        return self._final(X, "dec")

    def _final(self, X: Tensor, stack: str) -> Tensor:
        """With norms first, one more behind the last layer."""
        if not self.hyper.norm_first:
            return X
        return norm(X, self.get_parameter(f"gamma_{stack}"), self.optional(f"beta_{stack}"), self.hyper.eps)

    @torch.no_grad()
    def cache(self, z: Tensor, z_lengths: Lengths = None, ell: int | None = None) -> Cache:
        """Encode z, once, and make room to decode rows of up to ℓ tokens, ℓ_max unless given."""
        z = token_ids("z", z, self.hyper.ell_max)
        cache = new_cache(self, self.hyper.L_dec, len(z), ell)
        with without_dropout(self):
            Z, where = self.encode(z, z_lengths)
        for layer in self.dec:
            k, v = (where.unpack(part).transpose(1, 2).contiguous() for part in layer.keys_and_values(Z))
            cache.cross.append((k, v))
        if where.places is not None:
            there = torch.zeros(z.numel(), dtype=torch.bool, device=z.device).index_fill(0, where.places, True)
            cache.cross_mask = there.view(len(z), 1, 1, -1)
        return cache

    @torch.no_grad()
    def decode(self, x: Tensor, cache: Cache, lengths: Lengths = None, *, last: bool = False) -> Tensor:
        """Append tokens to the cache's rows of x; logits, B × width × N_V, of what follows each, or B × N_V with `last`. A row's length may be 0."""
        return decode(self, self.dec, x, cache, lengths, last)


def _whole(part: Tensor) -> Tensor:
    """A parameter that is sharded over processes, in full."""
    whole: Tensor = part.full_tensor() if is_sharded(part) else part  # type: ignore[attr-defined]
    return whole
