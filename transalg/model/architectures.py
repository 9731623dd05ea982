"""The three architectures and the classifier: Algorithms 8–10 for batches."""

from collections.abc import Callable
from typing import Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transalg.formal.domains import refuse
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.model.attention import Tokens
from transalg.model.cache import Cache
from transalg.model.checks import Lengths, row_lengths, token_ids, within
from transalg.model.decoder import Decoder, DecoderOnly, evaluating
from transalg.model.gato import Gato as Gato
from transalg.model.head import ENCODER_HEADS
from transalg.model.layers import DecoderLayer, Layer, Picked
from transalg.model.layout import Layout, layout, paired
from transalg.model.norm import NORMS
from transalg.model.parameters import Made
from transalg.model.pooling import POOLINGS
from transalg.model.transformer import IDs, Logits, ModelHyper, Transformer


class DTransformer(DecoderOnly[DHyper]):
    """Algorithm 10, decoder-only: logits of P̂(x[t+1] | x[1:t])."""

    hyper_kind = DHyper

    def __init__(self, hyper: DHyper, *, generator: torch.Generator | None = None, **made: Unpack[Made]) -> None:
        super().__init__(hyper, **made)
        self.reset_parameters(generator)

    def forward(self, ids: IDs, lengths: Lengths = None) -> Logits:
        """Logits, B × ℓ × N_V, of what follows each token; 0 after a row's length."""
        X, tokens = self.features(ids, lengths)
        return tokens.pad(self.logits(X))

    def features(self, ids: IDs, lengths: Lengths = None) -> tuple[Tokens, Layout]:
        """X of line 10, a row for each token of the batch, and its layout."""
        ids = token_ids("ids", ids, self.hyper.ell_max)
        tokens = layout(tuple(ids.shape), row_lengths("lengths", lengths, tuple(ids.shape)), ids.device)
        return self._through_layers(self._embed("ids", ids, tokens), tokens), tokens


class Encoder(Transformer[ModelHyper]):
    """Lines 1–11 of Algorithm 9, for the encoder-only transformer and the classifier."""

    hyper: EHyper  # type: ignore[assignment]

    def __init__(self, hyper: ModelHyper, *, generator: torch.Generator | None = None, **made: Unpack[Made]) -> None:
        super().__init__(hyper, **made)
        self.layers = self._stack("layers", Layer)
        self.reset_parameters(generator)

    def encode(
        self, ids: IDs, lengths: Lengths = None, segments: IDs | None = None, where: Bool[Tensor, "B ell"] | None = None
    ) -> tuple[Picked, Layout]:
        """X of line 9, a row for each token of the batch, and its layout; where given, the rows of these tokens alone."""
        ids = token_ids("ids", ids, self.hyper.ell_max)
        tokens = layout(tuple(ids.shape), row_lengths("lengths", lengths, tuple(ids.shape)), ids.device)
        X = self._embed("ids", ids, tokens, self._segments(segments, ids, tokens))
        return self._through_stack("layers", X, tokens, self._picked(tokens, where)), tokens

    def _segments(self, segments: IDs | None, ids: IDs, tokens: Layout) -> Tensor | None:
        if segments is None:
            return None
        if not self.hyper.segments:
            raise refuse("segments", "None, for this model has no segment embeddings", "some")
        segments = token_ids("segments", segments, self.hyper.ell_max)
        if segments.shape != ids.shape:
            raise refuse("segments", f"a segment for every token, {tuple(ids.shape)}", tuple(segments.shape))
        return within("segments", tokens.unpad(segments), self.hyper.segments, "N_S")

    def head(self, X: Tokens, picked: Int[Tensor, "n"] | slice | None = None) -> Float[Tensor, "n d_f"]:
        """Lines 10 and 11, of the picked tokens; of all of them unless given."""
        if picked is not None:
            return self.head(X)[picked] if self.norms_over_tokens else self.head(X[picked])
        return ENCODER_HEADS[self.hyper.head].compute(self, self.hyper, X)


class ETransformer(Encoder[EHyper]):
    """Algorithm 9, encoder-only: logits of every token given all of the others."""

    hyper_kind = EHyper

    def forward(self, ids: IDs, lengths: Lengths = None, segments: IDs | None = None) -> Logits:
        """Logits, B × ℓ × N_V; 0 after a row's length."""
        X, tokens = self.features(ids, lengths, segments)
        return tokens.pad(self.logits(X))

    def features(
        self, ids: IDs, lengths: Lengths = None, segments: IDs | None = None, where: Bool[Tensor, "B ell"] | None = None
    ) -> tuple[Float[Tensor, "T d_f"], Layout]:
        """X of line 11, a row for each token of the batch, and its layout; where given, the rows of these tokens alone."""
        if where is not None and self.norms_over_tokens:
            X, tokens = self.features(ids, lengths, segments)
            return X[self._picked(tokens, where)], tokens
        X, tokens = self.encode(ids, lengths, segments, where)
        return self.head(X), tokens


class Classifier(Encoder[ClassifierHyper]):
    """Classification (§3) with the encoder of Algorithm 9: logits of the classes, from one vector of the text, by default that of bos."""

    hyper_kind = ClassifierHyper
    hyper: ClassifierHyper

    def forward(self, ids: IDs, lengths: Lengths = None, segments: IDs | None = None) -> Float[Tensor, "B N_C"]:
        """Logits of the classes."""
        X, tokens = self.encode(ids, lengths, segments)
        return self.linear(POOLINGS[self.hyper.pooling].compute(self.head, X, tokens), "W_c", "b_c")


class EDTransformer(Decoder[EDHyper]):
    """Algorithm 8, encoder–decoder: logits of P̂(x[t+1] | x[1:t], z)."""

    hyper_kind = EDHyper

    def __init__(self, hyper: EDHyper, *, generator: torch.Generator | None = None, **made: Unpack[Made]) -> None:
        super().__init__(hyper, **made)
        self.enc = self._stack("enc", Layer)
        self.dec = self._stack("dec", DecoderLayer)
        self.reset_parameters(generator)

    @property
    def decoding_layers(self) -> list[nn.Module]:
        return self.in_order("dec")

    def forward(self, z: Int[Tensor, "B ell_z"], x: IDs, z_lengths: Lengths = None, x_lengths: Lengths = None) -> Logits:
        """Logits, B × ℓ_x × N_V, of what follows each token of x; 0 after a row's length."""
        X, tokens = self.features(z, x, z_lengths, x_lengths)
        return tokens.pad(self.logits(X))

    def features(self, z: Int[Tensor, "B ell_z"], x: IDs, z_lengths: Lengths = None, x_lengths: Lengths = None) -> tuple[Tokens, Layout]:
        """X of line 20, a row for each token of x, and its layout."""
        z, x = token_ids("z", z, self.hyper.ell_max), token_ids("x", x, self.hyper.ell_max)
        if len(z) != len(x):
            raise refuse("x", f"as many rows as z, {len(z)}", len(x))
        lengths = row_lengths("z_lengths", z_lengths, tuple(z.shape)), row_lengths("x_lengths", x_lengths, tuple(x.shape))
        z_tokens, x_tokens, buckets = paired(tuple(z.shape), lengths[0], tuple(x.shape), lengths[1], z.device)
        Z = self._encode(z, z_tokens)
        X = self._embed("x", x, x_tokens)
        for layer in self.in_order("dec"):
            X = self._through(layer, X, Z, x_tokens, z_tokens, buckets)
        return self.last_norm(X), x_tokens

    def encode(self, z: Int[Tensor, "B ell_z"], z_lengths: Lengths = None) -> tuple[Tokens, Layout]:
        """Z as the decoder sees it, a row for each token of z, and its layout."""
        z = token_ids("z", z, self.hyper.ell_max)
        tokens = layout(tuple(z.shape), row_lengths("z_lengths", z_lengths, tuple(z.shape)), z.device)
        return self._encode(z, tokens), tokens

    def _encode(self, z: Int[Tensor, "B ell_z"], tokens: Layout) -> Tokens:
        Z = self._embed("z", z, tokens)
        Z = self._through_stack("enc", Z, tokens)
        return self._final(Z, "gamma_enc")

    def last_norm(self, X: Tokens) -> Tokens:
        """After the decoder's layers."""
        return self._final(X, "gamma_dec")

    def _final(self, X: Tokens, gamma: str) -> Tokens:
        """With norms first, one more after the last layer."""
        return _norm(self, X, gamma) if self.hyper.norm_first else X

    @torch.no_grad()
    def cache(self, z: Int[Tensor, "B ell_z"], z_lengths: Lengths = None, ell: int | None = None) -> Cache:
        """Encode z, once, and make room to decode rows of up to ℓ tokens, ℓ_max unless given."""
        z = token_ids("z", z, self.hyper.ell_max)
        cache = self._new_cache(len(z), ell)
        with evaluating(self):
            Z, tokens = self.encode(z, z_lengths)
        for layer in self.in_order("dec"):
            k, v = (tokens.pad(part).transpose(1, 2).contiguous() for part in layer.keys_and_values(Z, tokens))  # type: ignore[operator]
            cache.cross.append((k, v))
        if tokens.token_index is not None:
            token_mask = torch.zeros(z.numel(), dtype=torch.bool, device=z.device).index_fill(0, tokens.token_index, True)
            cache.cross_mask = token_mask.view(len(z), 1, 1, -1)
        return cache


def _norm(model: Transformer[ModelHyper], X: Tokens, gamma: str) -> Tokens:
    """The norm whose γ has this name at the top of the model."""
    return NORMS[model.hyper.norm].apply(model, X, gamma, model.hyper.eps)


Model = DTransformer | Gato | ETransformer | Classifier | EDTransformer
MODELS: dict[type[Hyper], Callable[..., Model]] = {
    DHyper: DTransformer,
    GatoHyper: Gato,
    EHyper: ETransformer,
    ClassifierHyper: Classifier,
    EDHyper: EDTransformer,
}


def build(hyper: Hyper, *, generator: torch.Generator | None = None, **made: Unpack[Made]) -> Model:
    """The model of these hyperparameters, with random weights."""
    return MODELS[type(hyper)](hyper, generator=generator, **made)
