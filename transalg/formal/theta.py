"""θ: the "Parameters:" blocks of the paper as frozen dataclasses. Every field says its shape, once."""

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from .tree import Device, Theta

Special = tuple[int | None, int | None, int | None]  # the IDs of mask_token, bos_token and eos_token
SPECIAL = ("mask_token", "bos_token", "eos_token")


@dataclass(frozen=True, eq=False)
class Statistics:
    """The running mean m̄ and variance v̄ of each batch_norm, by the name of its γ. No gradient trains them."""

    m: dict[str, Tensor]
    v: dict[str, Tensor]


AnyTransformerTheta = TypeVar("AnyTransformerTheta", bound="TransformerTheta")


@dataclass(frozen=True, eq=False, repr=False)
class AttentionTheta(Theta):
    """𝒲_qkv: the parameters of one attention head (Algorithms 3 and 4)."""

    W_q: Float[Tensor, "d_attn d_x"]
    b_q: Float[Tensor, "d_attn"]
    W_k: Float[Tensor, "d_attn d_z"]
    b_k: Float[Tensor, "d_attn"]
    W_v: Float[Tensor, "d_out d_z"]
    b_v: Float[Tensor, "d_out"]

    @property
    def d_attn(self) -> int:
        return self.W_q.shape[0]


@dataclass(frozen=True, eq=False, repr=False)
class MHAttentionTheta(Theta):
    """𝒲: the parameters of a multi-head attention layer (Algorithm 5), its H heads stacked."""

    W_q: Float[Tensor, "H d_attn d_x"]
    b_q: Float[Tensor, "H d_attn"]
    W_k: Float[Tensor, "H d_attn d_z"]
    b_k: Float[Tensor, "H d_attn"]
    W_v: Float[Tensor, "H d_mid d_z"]
    b_v: Float[Tensor, "H d_mid"]
    W_o: Float[Tensor, "d_out H*d_mid"]
    b_o: Float[Tensor, "d_out"]

    head: ClassVar[type[AttentionTheta]] = AttentionTheta  # the kind of 𝒲_qkv^h

    @property
    def W_qkv(self) -> list[AttentionTheta]:
        """𝒲_qkv^h for h ∈ [H]. Every part but W_o and b_o belongs to the heads."""
        names = [part.name for part in fields(self) if part.name not in ("W_o", "b_o")]
        heads = zip(*(getattr(self, name) for name in names), strict=True)
        return [self.head(**dict(zip(names, parts, strict=True))) for parts in heads]


@dataclass(frozen=True, eq=False, repr=False)
class MLPTheta(Theta):
    """𝒲_mlp: the parameters of the multi-layer perceptron of a layer."""

    W_mlp1: Float[Tensor, "d_mlp d_e"]
    b_mlp1: Float[Tensor, "d_mlp"]
    W_mlp2: Float[Tensor, "d_e d_mlp"]
    b_mlp2: Float[Tensor, "d_e"]


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Theta):
    """A layer of Algorithms 9 and 10, and of the encoder of Algorithm 8."""

    W: MHAttentionTheta
    gamma1: Float[Tensor, "d_e"]
    beta1: Float[Tensor, "d_e"]
    gamma2: Float[Tensor, "d_e"]
    beta2: Float[Tensor, "d_e"]
    W_mlp1: Float[Tensor, "d_mlp d_e"]
    b_mlp1: Float[Tensor, "d_mlp"]
    W_mlp2: Float[Tensor, "d_e d_mlp"]
    b_mlp2: Float[Tensor, "d_e"]

    @property
    def mlp(self) -> MLPTheta:
        """𝒲_mlp of this layer."""
        return MLPTheta(self.W_mlp1, self.b_mlp1, self.W_mlp2, self.b_mlp2)


@dataclass(frozen=True, eq=False, repr=False)
class DecoderLayer(Theta):
    """A layer of the decoder of Algorithm 8."""

    W_dec: MHAttentionTheta
    W_ed: MHAttentionTheta
    gamma3: Float[Tensor, "d_e"]
    beta3: Float[Tensor, "d_e"]
    gamma4: Float[Tensor, "d_e"]
    beta4: Float[Tensor, "d_e"]
    gamma5: Float[Tensor, "d_e"]
    beta5: Float[Tensor, "d_e"]
    W_mlp3: Float[Tensor, "d_mlp d_e"]
    b_mlp3: Float[Tensor, "d_mlp"]
    W_mlp4: Float[Tensor, "d_e d_mlp"]
    b_mlp4: Float[Tensor, "d_e"]

    @property
    def mlp(self) -> MLPTheta:
        """𝒲_mlp of this layer: W_mlp3, b_mlp3, W_mlp4 and b_mlp4."""
        return MLPTheta(self.W_mlp3, self.b_mlp3, self.W_mlp4, self.b_mlp4)


@dataclass(frozen=True, eq=False, repr=False)
class TransformerTheta(Theta):
    """What the θ of all transformers share: the embeddings, and with them the vocabulary (§4).

    `special` has the IDs of mask_token, bos_token and eos_token, None for one that the vocabulary does not
    have. Without it they are the last three, as in the paper. `statistics` are those of batch_norm.
    """

    W_e: Float[Tensor, "d_e N_V"]
    W_p: Float[Tensor, "d_e ell_max"]
    special: Special | None = field(default=None, kw_only=True)
    statistics: Statistics | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.special is None:
            return
        ids = [v for v in self.special if v is not None]
        inside = all(isinstance(v, int) and 0 <= v < self.N_V for v in ids)
        if len(self.special) != len(SPECIAL) or not inside:
            expected = f"three token IDs below N_V = {self.N_V}, or None for one that is missing"
            raise ValueError(f"special: expected {expected}, got {self.special}")

    @property
    def N_V(self) -> int:
        return self.W_e.shape[1]

    @property
    def ell_max(self) -> int:
        return self.W_p.shape[1]

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens of the vocabulary by their names."""
        ids = self.special or (self.N_V - 3, self.N_V - 2, self.N_V - 1)
        return {name: v for name, v in zip(SPECIAL, ids, strict=True) if v is not None}

    @property
    def mask_token(self) -> int:
        return self._token("mask_token")

    @property
    def bos_token(self) -> int:
        return self._token("bos_token")

    @property
    def eos_token(self) -> int:
        return self._token("eos_token")

    def _token(self, name: str) -> int:
        if name not in self.special_tokens:
            raise ValueError(
                f"{name}: expected one in the vocabulary of θ, got none: special = {self.special}"
            )
        return self.special_tokens[name]

    @classmethod
    def from_named(
        cls: type[AnyTransformerTheta], named: dict[str, Tensor], special: Special | None = None
    ) -> AnyTransformerTheta:
        """The θ with this `named()` and these special tokens."""
        theta: AnyTransformerTheta = super().from_named(named)
        return replace(theta, special=special)

    @classmethod
    def init(
        cls: type[AnyTransformerTheta],
        *,
        special: Special | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: Device | None = None,
        **sizes: int,
    ) -> AnyTransformerTheta:
        """A random θ, see `draw`. Its sizes are those that its declarations name, see `symbols`.

        d_attn and d_mid are d_e / H unless given.
        """
        symbols = cls.symbols()
        if unknown := sizes.keys() - set(symbols):
            raise ValueError(
                f"{min(unknown)}: expected a size of {cls.__name__}, {', '.join(symbols)}, got another"
            )
        for symbol in symbols:
            if symbol not in sizes and symbol not in ("d_attn", "d_mid"):
                raise ValueError(f"{symbol}: expected this size for a {cls.__name__}, got none")
        for symbol, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{symbol}: expected a positive integer, got {size!r}")
        d_e, H = sizes["d_e"], sizes["H"]
        if {"d_attn", "d_mid"} - sizes.keys() and d_e % H:
            reason = "since d_attn and d_mid are d_e / H unless given"
            raise ValueError(f"H: expected a divisor of d_e = {d_e}, {reason}, got {H}")
        sizes = {"d_attn": d_e // H, "d_mid": d_e // H} | sizes
        return replace(cls.draw(sizes, generator, dtype, device), special=special)


SomeTheta = TypeVar("SomeTheta", bound=TransformerTheta)


@dataclass(frozen=True, eq=False, repr=False)
class DTheta(TransformerTheta):
    """θ of the decoder-only transformer (Algorithm 10)."""

    layers: tuple[Layer, ...]
    gamma: Float[Tensor, "d_e"]
    beta: Float[Tensor, "d_e"]
    W_u: Float[Tensor, "N_V d_e"]


@dataclass(frozen=True, eq=False, repr=False)
class EncoderTheta(TransformerTheta):
    """θ of the encoder-only transformer up to its last line."""

    layers: tuple[Layer, ...]
    W_f: Float[Tensor, "d_f d_e"]
    b_f: Float[Tensor, "d_f"]
    gamma: Float[Tensor, "d_f"]
    beta: Float[Tensor, "d_f"]


@dataclass(frozen=True, eq=False, repr=False)
class ETheta(EncoderTheta):
    """θ of the encoder-only transformer (Algorithm 9), whose line 10 leaves X with d_f rows."""

    W_u: Float[Tensor, "N_V d_f"]


@dataclass(frozen=True, eq=False, repr=False)
class EDTheta(TransformerTheta):
    """θ of the encoder–decoder transformer (Algorithm 8)."""

    enc: tuple[Layer, ...]
    dec: tuple[DecoderLayer, ...]
    W_u: Float[Tensor, "N_V d_e"]
