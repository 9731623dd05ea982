"""Hyperparameters: frozen dataclasses whose defaults are the paper, every departure of a published system one named field.

No torch here: the command line reads this to print its help.

>>> DHyper(N_V=100, ell_max=64, L=2, H=4, d_e=32, d_mlp=128).departures()
{}
>>> sorted(preset("gpt2").departures())
['activation', 'attention_dropout', 'dropout', 'init_residual', 'init_std', 'tied']
"""

from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from math import inf
from typing import Any, ClassVar, Literal, TypeVar

from transalg.hyper.special import HasSpecialTokens, SpecialTokens

Activation = Literal["ReLU", "GELU", "tanh_GELU"]
Norm = Literal["layer_norm", "RMSnorm"]


def departure(default: Any, doc: str) -> Any:
    """A field whose default is the paper's choice; `doc` says what it means."""
    return field(default=default, metadata={"doc": doc})


def size(doc: str, *, default: Any = None, optional: bool = False) -> Any:
    """A size of the paper; an optional one is derived from the others unless given."""
    metadata = {"doc": doc, "size": True}
    return field(default=default, metadata=metadata) if optional else field(metadata=metadata)


Own = TypeVar("Own", bound="Hyper")


@dataclass(frozen=True, kw_only=True)
class Hyper(HasSpecialTokens):
    """What the three architectures share."""

    algorithm: ClassVar[int]

    N_V: int = size("how many tokens the vocabulary has, mask, bos and eos included")
    ell_max: int = size("ℓ_max, the longest sequence")
    H: int = size("attention heads in every layer")
    d_e: int = size("width of the residual stream, of the embeddings")
    d_mlp: int = size("width of the hidden layer of an MLP")
    d_attn: int | None = size("width of a head's queries and keys; d_e / H unless given", optional=True)
    d_mid: int | None = size("width of a head's values; d_e / H unless given", optional=True)
    special: SpecialTokens | None = departure(None, "the IDs of mask, bos and eos; the last three of the vocabulary unless given")

    eps: float = departure(1e-5, "ε of the norms; the paper has none")
    norm: Norm = departure("layer_norm", "RMSnorm is layer_norm with m = β = 0")
    norm_first: bool = departure(False, "norms before the sub-layers (Algorithm 10) or behind them (Algorithms 8, 9)")
    activation: Activation = departure("GELU", "of the MLPs: ReLU, GELU, or tanh_GELU, which approximates it")
    positions: str = departure("learned", "W_p learned; sinusoids of Vaswani et al.; paper_sinusoids, as §5 has them")
    tied: bool = departure(False, "W_u = W_eᵀ, one matrix for embedding and unembedding")
    scaled: bool = departure(False, "token embeddings are √d_e W_e[:,v]")
    dropout: float = departure(0.0, "probability that training drops an element of the embeddings or of a sub-layer's output")
    attention_dropout: float = departure(0.0, "probability that training drops an attention weight")
    label_smoothing: float = departure(0.0, "share of the training target that is spread over the whole vocabulary")
    init_std: float | None = departure(None, "standard deviation of initial weights; 1/√d unless given, d the length of what W multiplies")
    init_residual: bool = departure(False, "W_o and W_mlp2 start smaller by 1/√(number of sub-layers)")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.metadata.get("size") and not (value is None and each.default is None):
                self._require(each.name, _whole(value) and value >= 1, "a positive integer")
        self._require("N_V", self.N_V >= 4, "at least 4, for mask, bos and eos and a token beside them")
        for symbol in ("d_attn", "d_mid"):
            if getattr(self, symbol) is None:
                self._require("H", self.d_e % self.H == 0, f"a divisor of d_e = {self.d_e}, since {symbol} is d_e / H unless given")
                object.__setattr__(self, symbol, self.d_e // self.H)
        if self.special is not None:
            inside = isinstance(self.special, SpecialTokens) and all(_whole(token) and 0 <= token < self.N_V for token in self.special.ids)
            self._require("special", inside, f"IDs from 0 to N_V−1 with N_V = {self.N_V}")
        self._one_of("norm", "layer_norm", "RMSnorm")
        self._one_of("activation", "ReLU", "GELU", "tanh_GELU")
        self._one_of("positions", *self.position_schemes())
        for flag in ("norm_first", "tied", "scaled", "init_residual"):
            self._require(flag, isinstance(getattr(self, flag), bool), "True or False")
        for share in ("dropout", "attention_dropout", "label_smoothing"):
            self._require(share, _real(getattr(self, share)) and 0 <= getattr(self, share) < 1, "a number in [0, 1)")
        self._require("eps", _real(self.eps) and 0 <= self.eps < inf, "a number in [0, ∞)")
        self._require(
            "init_std", self.init_std is None or (_real(self.init_std) and 0 < self.init_std < inf), "a number in (0, ∞), or None"
        )
        if "sinusoids" in self.positions:
            self._require("d_e", self.d_e % 2 == 0, f"an even number, for positions={self.positions} come as pairs of sine and cosine")

    @classmethod
    def position_schemes(cls) -> tuple[str, ...]:
        return ("learned", "sinusoids", "paper_sinusoids")

    @property
    def special_tokens(self) -> SpecialTokens:
        return SpecialTokens.last(self.N_V) if self.special is None else self.special

    @property
    def heads(self) -> tuple[int, int, int]:
        """H, d_attn, d_mid."""
        assert self.d_attn is not None and self.d_mid is not None
        return self.H, self.d_attn, self.d_mid

    def sizes(self) -> dict[str, int]:
        """The paper's sizes by their symbols."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.metadata.get("size")}

    def departures(self) -> dict[str, Any]:
        """The fields in which this is not the paper."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if not each.metadata.get("size")}
        found = {name: value for name, value in found.items() if value != self.paper(name)}
        H, d_attn, d_mid = self.heads
        if H * d_attn != self.d_e or H * d_mid != self.d_e:
            found |= {"d_attn": d_attn, "d_mid": d_mid}
        return found

    @classmethod
    def paper(cls, name: str) -> Any:
        """The paper's choice for a field."""
        return next(each.default for each in fields(cls) if each.name == name)

    @classmethod
    def doc(cls, name: str) -> str:
        """What a field means."""
        return str(next(each.metadata["doc"] for each in fields(cls) if each.name == name))

    def replace(self: Own, **changes: Any) -> Own:
        """The same with some fields changed; what was derived from d_e or H is derived anew."""
        if {"d_e", "H"} & changes.keys():
            for symbol in ("d_attn", "d_mid"):
                if getattr(self, symbol) * self.H == self.d_e:
                    changes.setdefault(symbol, None)
        for symbol in ("d_f", "d_r"):
            if "d_e" in changes and getattr(self, symbol, None) == self.d_e:
                changes.setdefault(symbol, None)
        if changes.get("positions", "relative") != "relative" and getattr(self, "d_r", None) is not None:
            changes.setdefault("d_r", None)
        unknown = changes.keys() - {each.name for each in fields(self)}
        if unknown:
            raise ValueError(f"{min(unknown)}: Algorithm {self.algorithm} has no such hyperparameter{_close(min(unknown), self)}")
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it; see `from_dict`."""
        return {"kind": type(self).__name__} | asdict(self)

    def _one_of(self, name: str, *choices: str) -> None:
        self._require(name, getattr(self, name) in choices, " or ".join(choices))

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ValueError(f"{name}: expected {expected}, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class DHyper(Hyper):
    """Algorithm 10, the decoder-only transformer: GPT-2, GPT-3, Gopher."""

    algorithm: ClassVar[int] = 10

    L: int = size("layers")
    norm_first: bool = departure(True, "norms before the sub-layers, as in Algorithm 10, or behind them, as in Algorithm 9")
    positions: str = departure("learned", Hyper.doc("positions") + "; relative, as in Transformer-XL")
    d_r: int | None = size("length of a relative position's sinusoid; d_e unless given", optional=True)
    band: int | None = departure(None, "layers 2, 4, 6, … attend to the token and the band − 1 before it")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("band", self.band is None or (_whole(self.band) and self.band >= 1), "a width of at least 1, or None")
        if self.positions == "relative":
            self._require("band", self.band is None, "None with positions=relative, which needs every distance")
            if self.d_r is None:
                object.__setattr__(self, "d_r", self.d_e)
            self._require("d_r", (self.d_r or 0) % 2 == 0, "an even number, for sinusoids come as pairs of sine and cosine")
        else:
            self._require("d_r", self.d_r is None, f"None with positions={self.positions}; it belongs to positions=relative")

    @classmethod
    def position_schemes(cls) -> tuple[str, ...]:
        return (*super().position_schemes(), "relative")

    def banded(self, l: int) -> int | None:
        """The width of layer l's band, counted from 0; None for a dense layer."""
        return self.band if l % 2 else None


@dataclass(frozen=True, kw_only=True)
class EHyper(Hyper):
    """Algorithm 9, the encoder-only transformer: BERT."""

    algorithm: ClassVar[int] = 9

    L: int = size("layers")
    d_f: int | None = size("width of the final projection; d_e unless given", optional=True)
    segments: int = departure(0, "how many segments have an embedding W_s[:,s] of their own")
    embedding_norm: bool = departure(False, "a norm behind the embeddings")
    output_bias: bool = departure(False, "P = softmax(W_u X + b_u 1ᵀ)")
    mask_split: tuple[float, float, float] = departure(
        (1.0, 0.0, 0.0), "of the tokens to predict: masked, replaced by a random token, kept"
    )
    p_mask: float = departure(0.15, "probability that training masks a token")

    def __post_init__(self) -> None:
        if self.d_f is None:
            object.__setattr__(self, "d_f", self.d_e)
        super().__post_init__()
        self._require("segments", _whole(self.segments) and self.segments >= 0, "a whole number, 0 or more")
        self._require("embedding_norm", isinstance(self.embedding_norm, bool), "True or False")
        self._require("output_bias", isinstance(self.output_bias, bool), "True or False")
        self._require("p_mask", _real(self.p_mask) and 0 < self.p_mask < 1, "a number in (0, 1)")
        split = self.mask_split
        shares = isinstance(split, tuple) and len(split) == 3 and all(_real(share) and share >= 0 for share in split)
        self._require("mask_split", shares and abs(sum(split) - 1) < 1e-9, "three shares that add up to 1")
        if self.tied:
            self._require("d_f", self.d_f == self.d_e, f"d_e = {self.d_e}, for tied=True shares W_e with W_u")


@dataclass(frozen=True, kw_only=True)
class ClassifierHyper(EHyper):
    """Classification (§3) with the encoder of Algorithm 9."""

    N_C: int = size("classes")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tied", "output_bias"):
            self._require(name, not getattr(self, name), "False, for a classifier has no W_u")


@dataclass(frozen=True, kw_only=True)
class EDHyper(Hyper):
    """Algorithm 8, the encoder–decoder transformer of Vaswani et al."""

    algorithm: ClassVar[int] = 8

    L_enc: int = size("layers of the encoder")
    L_dec: int = size("layers of the decoder")
    activation: Activation = departure("ReLU", Hyper.doc("activation"))


def from_dict(data: dict[str, Any]) -> Any:
    """Hyperparameters from their `to_dict`."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (DHyper, EHyper, ClassifierHyper, EDHyper)}
    given = dict(data)
    kind = kinds.get(given.pop("kind", ""))
    if kind is None:
        raise ValueError(f"kind: expected {', '.join(kinds)}, got {data.get('kind')!r}")
    unknown = given.keys() - {each.name for each in fields(kind)}
    if unknown:
        raise ValueError(f"{min(unknown)}: Algorithm {kind.algorithm} has no such hyperparameter")
    if isinstance(given.get("special"), dict):
        given["special"] = SpecialTokens(**given["special"])
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _close(name: str, hyper: Hyper) -> str:
    close = get_close_matches(name, [each.name for each in fields(hyper)], n=1)
    return f"; did you mean {close[0]}?" if close else ""
