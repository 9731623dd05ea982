"""θ: the "Parameters:" blocks of the paper as frozen dataclasses. Every field says its shape, once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .tree import Own, Theta


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

    @property
    def W_qkv(self) -> Sequence[AttentionTheta]:
        """𝒲_qkv^h for h ∈ [H]."""
        return [AttentionTheta(*head) for head in zip(self.W_q, self.b_q, self.W_k, self.b_k, self.W_v, self.b_v, strict=True)]


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


@dataclass(frozen=True, eq=False, repr=False)
class TransformerTheta(Theta):
    """What the θ of all transformers share: the embeddings, and with them the vocabulary and its special tokens (§4)."""

    W_e: Float[Tensor, "d_e N_V"]
    W_p: Float[Tensor, "d_e ell_max"]

    @property
    def N_V(self) -> int:
        return self.W_e.shape[1]

    @property
    def ell_max(self) -> int:
        return self.W_p.shape[1]

    @property
    def mask_token(self) -> int:
        return self.N_V - 3

    @property
    def bos_token(self) -> int:
        return self.N_V - 2

    @property
    def eos_token(self) -> int:
        return self.N_V - 1

    @classmethod
    def _init(cls: type[Own], *, generator: torch.Generator | None, dtype: torch.dtype, device: torch.device | str | None, **sizes: int | None) -> Own:
        for symbol, size in sizes.items():
            if size is not None and (not isinstance(size, int) or size < 1):
                raise ValueError(f"{symbol}: expected a positive integer, got {size!r}")
        given = {symbol: size for symbol, size in sizes.items() if size is not None}
        if {"d_attn", "d_mid"} - given.keys() and given["d_e"] % given["H"]:
            raise ValueError(f"H: expected a divisor of d_e = {given['d_e']}, since d_attn and d_mid are d_e / H unless given, got {given['H']}")
        return cls.draw(dict.fromkeys(("d_attn", "d_mid"), given["d_e"] // given["H"]) | given, generator, dtype, device)


@dataclass(frozen=True, eq=False, repr=False)
class DTheta(TransformerTheta):
    """θ of the decoder-only transformer (Algorithm 10)."""

    layers: tuple[Layer, ...]
    gamma: Float[Tensor, "d_e"]
    beta: Float[Tensor, "d_e"]
    W_u: Float[Tensor, "N_V d_e"]

    @classmethod
    def init(
        cls, *, N_V: int, ell_max: int, L: int, H: int, d_e: int, d_mlp: int, d_attn: int | None = None, d_mid: int | None = None,
        generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None,
    ) -> "DTheta":  # fmt: skip
        """A random θ, see `draw`; d_attn and d_mid are d_e / H unless given."""
        return cls._init(N_V=N_V, ell_max=ell_max, L=L, H=H, d_e=d_e, d_mlp=d_mlp, d_attn=d_attn, d_mid=d_mid, generator=generator, dtype=dtype, device=device)


@dataclass(frozen=True, eq=False, repr=False)
class ETheta(TransformerTheta):
    """θ of the encoder-only transformer (Algorithm 9). W_u ∈ ℝ^{N_V×d_f}, for line 10 leaves X with d_f rows."""

    layers: tuple[Layer, ...]
    W_f: Float[Tensor, "d_f d_e"]
    b_f: Float[Tensor, "d_f"]
    gamma: Float[Tensor, "d_f"]
    beta: Float[Tensor, "d_f"]
    W_u: Float[Tensor, "N_V d_f"]

    @classmethod
    def init(
        cls, *, N_V: int, ell_max: int, L: int, H: int, d_e: int, d_mlp: int, d_f: int, d_attn: int | None = None, d_mid: int | None = None,
        generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None,
    ) -> "ETheta":  # fmt: skip
        """A random θ, see `draw`; d_attn and d_mid are d_e / H unless given."""
        return cls._init(N_V=N_V, ell_max=ell_max, L=L, H=H, d_e=d_e, d_mlp=d_mlp, d_f=d_f, d_attn=d_attn, d_mid=d_mid, generator=generator, dtype=dtype, device=device)


@dataclass(frozen=True, eq=False, repr=False)
class EDTheta(TransformerTheta):
    """θ of the encoder–decoder transformer (Algorithm 8)."""

    enc: tuple[Layer, ...]
    dec: tuple[DecoderLayer, ...]
    W_u: Float[Tensor, "N_V d_e"]

    @classmethod
    def init(
        cls, *, N_V: int, ell_max: int, L_enc: int, L_dec: int, H: int, d_e: int, d_mlp: int, d_attn: int | None = None, d_mid: int | None = None,
        generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None,
    ) -> "EDTheta":  # fmt: skip
        """A random θ, see `draw`; d_attn and d_mid are d_e / H unless given."""
        return cls._init(N_V=N_V, ell_max=ell_max, L_enc=L_enc, L_dec=L_dec, H=H, d_e=d_e, d_mlp=d_mlp, d_attn=d_attn, d_mid=d_mid, generator=generator, dtype=dtype, device=device)
