"""Random θ and sequences whose dimensions are prime and pairwise distinct, so that any mixed-up axis breaks."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from transalg.formal import AttentionTheta, DTheta, EDTheta, ETheta, MHAttentionTheta
from transalg.formal.classification import ECTheta
from transalg.formal.tree import Theta

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def fill(theta: Any, seed: int, scale: float = 0.5) -> Any:
    """Every parameter random: a bias or a γ left at its initial value would hide mistakes."""
    generator = rng(seed)
    return pytree.tree_map(lambda part: scale * torch.randn(part.shape, generator=generator, dtype=part.dtype), theta)


@st.composite
def sizes(draw: st.DrawFn, *symbols: str, **within: st.SearchStrategy[int]) -> dict[str, int]:
    """A size for every symbol: distinct primes for those named, the given strategies for the rest."""
    primes = draw(st.permutations(PRIMES))
    return dict(zip(symbols, primes, strict=False)) | {symbol: draw(strategy) for symbol, strategy in within.items()}


def random_attention(seed: int, *, d_attn: int, d_x: int, d_z: int, d_out: int) -> AttentionTheta:
    shapes = (d_attn, d_x), (d_attn,), (d_attn, d_z), (d_attn,), (d_out, d_z), (d_out,)
    return AttentionTheta(*(normal(seed + i, *shape) for i, shape in enumerate(shapes)))


def random_heads(seed: int, *, H: int, d_attn: int, d_mid: int, d_x: int, d_z: int, d_out: int) -> MHAttentionTheta:
    shapes = (
        (H, d_attn, d_x),
        (H, d_attn),
        (H, d_attn, d_z),
        (H, d_attn),
        (H, d_mid, d_z),
        (H, d_mid),
        (d_out, H * d_mid),
        (d_out,),
    )
    return MHAttentionTheta(*(normal(seed + i, *shape) for i, shape in enumerate(shapes)))


D = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}


def theta_d(seed: int = 0, L: int = 2) -> DTheta:
    return fill(DTheta.init(**D, L=L, d_attn=5, d_mid=3), seed)


KINDS: dict[type[Theta], tuple[str, ...]] = {
    DTheta: (),
    ETheta: ("d_f",),
    EDTheta: (),
    ECTheta: ("d_f", "N_C"),
}


@st.composite
def thetas(draw: st.DrawFn, kind: type[Any]) -> Any:
    """A θ of this kind with prime and distinct N_V, ℓ_max, d_e, d_mlp, d_attn, d_mid (and d_f, N_C)."""
    depth = ("L_enc", "L_dec") if kind is EDTheta else ("L",)
    free = ("N_V", "ell_max", "d_e", "d_mlp", "d_attn", "d_mid", *KINDS[kind])
    chosen = draw(sizes(*free, **dict.fromkeys(depth, st.integers(1, 2))))
    chosen["H"] = draw(st.sampled_from([h for h in (1, 2, 3) if h not in chosen.values() or h == 1]))
    if chosen["N_V"] < 5:  # room for two ordinary tokens and the three special ones
        chosen["N_V"] = 23
    return fill(kind.init(**chosen), draw(st.integers(0, 2**16)))


@st.composite
def sequences(draw: st.DrawFn, theta: Any, *, least: int = 1, special: bool = True) -> list[int]:
    top = theta.N_V if special else theta.N_V - 3
    return draw(st.lists(st.integers(0, top - 1), min_size=min(least, theta.ell_max), max_size=min(theta.ell_max, 6)))
