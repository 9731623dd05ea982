"""Positions: how each scheme is computed, decoded with the cache, and which formal component it equals.

A scheme may add a table to the embeddings (`table`), turn queries and keys (`rotate`), or compute the scores itself (`attend`, `decode`). What it
learns and what it costs: `hyper/positions.py`. Its statement: `formal/positions.py`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch._guards import detect_fake_mode

from transalg.formal import MHAttention, MHAttentionTheta
from transalg.formal.components import MultiHead
from transalg.formal.positions import RelativeAttention, RelativeMHAttentionTheta, paper_sinusoids, sinusoids
from transalg.hyper import Hyper
from transalg.model import kernels
from transalg.model.cache import Cache, Step
from transalg.model.heads import PerHead
from transalg.model.kernels import K, Q, V, Y
from transalg.model.parameters import ParameterModule

if TYPE_CHECKING:
    from transalg.model.attention import Attention

Table = Float[Tensor, "ell_max d_e"]


@runtime_checkable
class HasPositions(Protocol):
    """A layout of a batch, or a step of decoding."""

    def all_positions(self, device: torch.device) -> Int[Tensor, "T"]:
        """Of every token in its sequence."""


class NoPositions:
    """Nothing tells positions apart but a causal mask; and what every other scheme does unless it says otherwise."""

    formal_attention: MultiHead = staticmethod(MHAttention)
    attention_theta: type[MHAttentionTheta] = MHAttentionTheta

    def table(self, model: ParameterModule, hyper: Hyper) -> Table | None:
        """What is added to the embeddings, a row for every position; None for nothing."""
        return None

    def rotate(self, q: PerHead, k: PerHead, tokens: HasPositions) -> tuple[PerHead, PerHead]:
        """Queries and keys, turned by their positions."""
        return q, k

    def attend(self, attention: "Attention", q: Q, k: K, v: V, padding: Tensor | None, dropout: float) -> Y:
        """Self-attention of whole sequences."""
        return attention.masked(q, k, v, padding, dropout)

    def decode(self, attention: "Attention", q: Q, k: K, v: V, visible: Tensor | None, cache: Cache, l: int, step: Step) -> Y:
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

    formal_attention = staticmethod(partial(MHAttention, Attention=RelativeAttention))
    attention_theta = RelativeMHAttentionTheta

    def attend(self, attention: "Attention", q: Q, k: K, v: V, padding: Tensor | None, dropout: float) -> Y:
        R = self._projected(attention, q.shape[2], q)
        return kernels.relative(q, k, v, R, attention.get_parameter("u"), attention.get_parameter("w"), dropout=dropout)

    def decode(self, attention: "Attention", q: Q, k: K, v: V, visible: Tensor | None, cache: Cache, l: int, step: Step) -> Y:
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


POSITIONS: dict[str, NoPositions] = {
    "learned": Learned(),
    "sinusoids": Sinusoids(sinusoids),
    "paper_sinusoids": Sinusoids(paper_sinusoids),
    "none": NoPositions(),
    "relative": Relative(),
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
