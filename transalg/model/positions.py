"""Positions: how each scheme is computed, decoded with the cache, and which formal component it equals.

A scheme may add a table to the embeddings (`table`), turn queries and keys (`rotate`), or compute the scores itself (`attend`, `decode`). What it
learns and what it costs: `hyper/positions.py`. Its statement: `formal/positions.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch._guards import detect_fake_mode

from transalg.formal import Attention as formal_attention
from transalg.formal import MHAttentionTheta
from transalg.formal.components import Head, MultiHead
from transalg.formal.heads import Rotation, no_rotation
from transalg.formal.positions import (
    RelativeAttention,
    RelativeMHAttentionTheta,
    RotaryAttention,
    linear_scaling,
    llama3_scaling,
    paper_sinusoids,
    rotary_frequencies,
    rotate,
    sinusoids,
    split_sinusoids,
)
from transalg.hyper import Hyper
from transalg.model import kernels
from transalg.model.cache import Cache, Step
from transalg.model.kernels import GroupK, GroupV, Q, Y
from transalg.model.parameters import ParameterModule

if TYPE_CHECKING:
    from transalg.model.attention import Attention

Table = Float[Tensor, "ell_max d_e"]
Angles = Float[Tensor, "T d_rot"]


@runtime_checkable
class HasPositions(Protocol):
    """A layout of a batch, or a step of decoding."""

    @property
    def memo(self) -> dict[str, tuple[Tensor, Tensor]]:
        """What all layers compute alike from the positions."""

    def all_positions(self, device: torch.device) -> Int[Tensor, "T"]:
        """Of every token in its sequence."""


class NoPositions:
    """Nothing tells positions apart but a causal mask; and what every other scheme does unless it says otherwise."""

    attention_theta: type[MHAttentionTheta] | None = None  # if it adds parameters to every attention
    formal_attention: MultiHead | None = None  # the formal component of all heads, if it is not that of each head by itself

    def formal_head(self, hyper: Hyper) -> Head:
        """The formal component that a head is."""
        return formal_attention

    def formal_rotation(self, hyper: Hyper) -> Rotation:
        """What it does to a query or a key before they meet."""
        return no_rotation

    def table(self, model: ParameterModule, hyper: Hyper) -> Table | None:
        """What is added to the embeddings, a row for every position; None for nothing."""
        return None

    def table_of_angles(self, hyper: Hyper) -> "RotaryTable | None":
        """By which queries and keys turn, if they do; an attention has it from the start."""
        return None

    def rotate(self, attention: "Attention", x: Float[Tensor, "T heads d_attn"], tokens: HasPositions) -> Float[Tensor, "T heads d_attn"]:
        """The queries or the keys of these tokens, turned by their positions."""
        return x

    def attend(self, attention: "Attention", q: Q, k: GroupK, v: GroupV, padding: Tensor | None, dropout: float) -> Y:
        """Self-attention of whole sequences."""
        return attention.masked(q, k, v, padding, dropout)

    def decode(self, attention: "Attention", q: Q, k: GroupK, v: GroupV, visible: Tensor | None, cache: Cache, l: int, step: Step) -> Y:
        """Self-attention of new tokens to the keys and values in the cache."""
        return kernels.decoding(q, k, v, visible)

    def formal_table(self, hyper: Hyper) -> Float[Tensor, "d_e ell_max"] | None:
        """The paper's W_p as it acts; None if it is learned."""
        return torch.zeros(hyper.d_e, hyper.ell_max)


class Learned(NoPositions):
    """W_p is a parameter."""

    def table(self, model: ParameterModule, hyper: Hyper) -> Table | None:
        return model.get_parameter("W_p")

    def formal_table(self, hyper: Hyper) -> Float[Tensor, "d_e ell_max"] | None:
        return None


class Sinusoids(NoPositions):
    """W_p is a table that hyper determines."""

    def __init__(self, waves: Callable[[int, int], Tensor]) -> None:
        self.waves = waves

    def table(self, model: ParameterModule, hyper: Hyper) -> Table | None:
        return waves(self.waves, hyper.ell_max, hyper.d_e, model.device, model.dtype)

    def formal_table(self, hyper: Hyper) -> Float[Tensor, "d_e ell_max"] | None:
        return self.waves(hyper.d_e, hyper.ell_max)


class Relative(NoPositions):
    """Transformer-XL's: scores by distance."""

    attention_theta = RelativeMHAttentionTheta

    def formal_head(self, hyper: Hyper) -> Head:
        return RelativeAttention

    def attend(self, attention: "Attention", q: Q, k: GroupK, v: GroupV, padding: Tensor | None, dropout: float) -> Y:
        R = self._projected(attention, q.shape[2], q)
        return kernels.relative(q, k, v, R, attention.get_parameter("u"), attention.get_parameter("w"), dropout=dropout)

    def decode(self, attention: "Attention", q: Q, k: GroupK, v: GroupV, visible: Tensor | None, cache: Cache, l: int, step: Step) -> Y:
        B, H, width, _ = q.shape
        distances = (step.positions[..., None] - torch.arange(step.end, device=q.device)).clamp(min=0)  # of every key from every query
        distances = distances.view(-1, 1, width, step.end).expand(B, H, width, step.end)
        if l not in cache.projections:
            cache.projections[l] = self._projected(attention, cache.ell, q)
        u, w = attention.get_parameter("u"), attention.get_parameter("w")
        by_distance = (q + w[:, None]) @ cache.projections[l][:, : step.end].mT
        seen = visible if visible is not None else distances >= 0
        return kernels.scored(q + u[:, None], k, v, by_distance.gather(3, distances), seen)

    @staticmethod
    def _projected(attention: "Attention", ell: int, like: Tensor) -> Float[Tensor, "H ell d_attn"]:
        """W_r r(δ) for δ = 0, …, ℓ − 1."""
        W_r = attention.get_parameter("W_r")
        r = waves(sinusoids, attention.ell_max, W_r.shape[1], like.device, like.dtype)[:ell]
        return F.linear(r, W_r).view(ell, attention.heads.H, -1).transpose(0, 1)


class Rotary(NoPositions):
    """RoFormer's: the pairs (i, i + n) of every query and key turn by an angle that grows with the position."""

    def formal_head(self, hyper: Hyper) -> Head:
        return partial(RotaryAttention, omega=frequencies(hyper))

    def formal_rotation(self, hyper: Hyper) -> Rotation:
        return partial(rotate, omega=frequencies(hyper))

    def table_of_angles(self, hyper: Hyper) -> "RotaryTable | None":
        assert hyper.rotary_base is not None
        return RotaryTable(hyper.ell_max, hyper.sizes()["d_rot"], hyper.rotary_base, hyper.rotary_scaling)

    def rotate(self, attention: "Attention", x: Float[Tensor, "T heads d_attn"], tokens: HasPositions) -> Float[Tensor, "T heads d_attn"]:
        name = f"rotary {x.dtype}"
        if name not in tokens.memo:
            assert attention.angles is not None
            cos, sin = attention.angles.at(tokens.all_positions(x.device), x.dtype)
            tokens.memo[name] = cos.unsqueeze(1), sin.unsqueeze(1)
        return turned(x, *tokens.memo[name])


def turned(
    x: Float[Tensor, "*T heads d_attn"], cos: Float[Tensor, "*T1 d_rot"], sin: Float[Tensor, "*T1 d_rot"]
) -> Float[Tensor, "*T heads d_attn"]:
    """[a; b; c] to [a cos φ − b sin φ; a sin φ + b cos φ; c]: x ⊙ [cos; cos] + [b; a] ⊙ [−sin; sin]."""
    n, d_rot = cos.shape[-1] // 2, cos.shape[-1]
    part = x if d_rot == x.shape[-1] else x[..., :d_rot]
    result = torch.addcmul(part * cos, part.roll(n, dims=-1), sin)
    return result if part is x else torch.cat([result, x[..., d_rot:]], dim=-1)


def frequencies(hyper: Hyper) -> Float[Tensor, "half"]:
    """ω of rotary positions."""
    assert hyper.rotary_base is not None
    return _frequencies(hyper.sizes()["d_rot"], hyper.rotary_base, hyper.rotary_scaling)


def _frequencies(d_rot: int, base: float, scaling: tuple[float, ...] | None) -> Float[Tensor, "half"]:
    omega = rotary_frequencies(d_rot, base)
    if scaling is None:
        return omega
    return linear_scaling(omega, *scaling) if len(scaling) == 1 else llama3_scaling(omega, *scaling)


@dataclass(frozen=True)
class RotaryTable:
    """Cosines and sines of all positions. As a function of d = 2 d_rot and ℓ, a column [cos φ; cos φ; −sin φ; sin φ] for every position."""

    ell_max: int
    d_rot: int
    base: float
    scaling: tuple[float, ...] | None

    def __call__(self, d: int, ell: int) -> Float[Tensor, "d ell"]:
        phi = torch.outer(_frequencies(self.d_rot, self.base, self.scaling), torch.arange(ell, dtype=torch.float64))
        return torch.cat([phi.cos(), phi.cos(), -phi.sin(), phi.sin()])

    def at(self, positions: Int[Tensor, "T"], dtype: torch.dtype) -> tuple[Angles, Angles]:
        """Cosines and sines, signed, at these positions."""
        table = waves(self, self.ell_max, 2 * self.d_rot, positions.device, dtype)
        cos, sin = F.embedding(positions, table).chunk(2, dim=1)
        return cos, sin


POSITIONS: dict[str, NoPositions] = {
    "learned": Learned(),
    "sinusoids": Sinusoids(sinusoids),
    "paper_sinusoids": Sinusoids(paper_sinusoids),
    "split_sinusoids": Sinusoids(split_sinusoids),
    "none": NoPositions(),
    "relative": Relative(),
    "rotary": Rotary(),
}


def waves(scheme: Callable[[int, int], Tensor], ell: int, d: int, device: torch.device, dtype: torch.dtype) -> Table:
    """A row for every position 0, …, ℓ−1, the transpose of the formal function; made once for each device and dtype."""
    if detect_fake_mode() is not None:  # while exporting; what is made then must not be kept
        return scheme(d, ell).T.contiguous().to(device, dtype)
    return _waves(scheme, ell, d, device, dtype)


# what torch.compiler.assume_constant_result does, which would import the compiler, 0.7 s, for those who compile nothing
waves._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache(maxsize=32)
def _waves(scheme: Callable[[int, int], Tensor], ell: int, d: int, device: torch.device, dtype: torch.dtype) -> Table:
    with torch.inference_mode(False):  # what is made here may take part in a gradient later
        return scheme(d, ell).T.contiguous().to(device, dtype)
