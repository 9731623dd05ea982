"""Positions: how a model knows where a token stands. What a scheme learns, what it needs and what it costs.

`model/positions.py` computes each of them, `formal/positions.py` states it. A new scheme is a row of `POSITIONS` here and one there.
"""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from transalg.checks import is_real
from transalg.hyper.heads import Shapes
from transalg.hyper.mask import Causal

if TYPE_CHECKING:
    from transalg.hyper.hyper import Hyper


@dataclass(frozen=True)
class Positions:
    """A scheme that learns nothing, needs nothing and costs nothing beyond the model's matrices."""

    doc: str
    algorithms: tuple[int, ...] | None = None  # those that may have it; None for all
    every_distance: bool = False  # its scores need every key before a query: no mask but the causal one

    @property
    def fields(self) -> tuple[str, ...]:
        """The hyperparameters that belong to this scheme alone, and are None with any other."""
        return ()

    def default(self, hyper: "Hyper", name: str) -> float | None:
        """The value of one of them unless it is given."""
        raise KeyError(name)

    def check(self, hyper: "Hyper") -> None:
        """Refuse hyperparameters that do not go with this scheme."""
        masks = {type(hyper.mask(stack, l)) for stack, count in hyper.stacks.items() for l in range(count)}
        if self.every_distance:
            hyper.require("band", masks == {Causal}, f"None with positions={hyper.positions}, which needs every distance")
            alone = f"with positions={hyper.positions}, whose scores take the queries and keys of each head as they are"
            hyper.require("H_kv", hyper.heads.H_kv == hyper.H, f"None {alone}")
            hyper.require("qk_norm", not getattr(hyper, "qk_norm", False), f"False {alone}")

    def shapes(self, hyper: "Hyper") -> Shapes:
        """The parameters of the model that belong to it."""
        return {}

    def attention_shapes(self, hyper: "Hyper") -> Shapes:
        """The parameters that it adds to every self-attention."""
        return {}

    def flops(self, hyper: "Hyper", keys: float, batch: int) -> float:
        """What it adds to the arithmetic for one token that sees so many keys, in all layers together."""
        return 0.0

    def activations(self, hyper: "Hyper", ell: int) -> int:
        """Numbers that it adds to what a training step keeps of one token in one layer."""
        return 0


@dataclass(frozen=True)
class Learned(Positions):
    """W_p is a parameter."""

    def shapes(self, hyper: "Hyper") -> Shapes:
        return {"W_p": (hyper.ell_max, hyper.d_e)}


@dataclass(frozen=True)
class Sinusoids(Positions):
    """W_p is a table of sines and cosines."""

    def check(self, hyper: "Hyper") -> None:
        even = f"an even number, for positions={hyper.positions} come as pairs of sine and cosine"
        hyper.require("d_e", hyper.d_e % 2 == 0, even)


@dataclass(frozen=True)
class Relative(Positions):
    """Scores depend on the distance between query and key, through a projection W_r of its sinusoid and two biases u, w."""

    @property
    def fields(self) -> tuple[str, ...]:
        return ("d_r",)

    def default(self, hyper: "Hyper", name: str) -> float | None:
        return {"d_r": hyper.d_e}[name]

    def check(self, hyper: "Hyper") -> None:
        super().check(hyper)
        hyper.require("d_r", _d_r(hyper) % 2 == 0, "an even number, for sinusoids come as pairs of sine and cosine")

    def attention_shapes(self, hyper: "Hyper") -> Shapes:
        heads = hyper.heads
        return {"W_r": (heads.H * heads.d_attn, _d_r(hyper)), "u": (heads.H, heads.d_attn), "w": (heads.H, heads.d_attn)}

    def flops(self, hyper: "Hyper", keys: float, batch: int) -> float:
        heads = hyper.heads
        projection = hyper.sizes()["L"] * heads.H * heads.d_attn * _d_r(hyper)  # of the ℓ distances, not of the tokens, once for a batch
        return 2 * projection * (1 / batch - 1) + 2 * keys * heads.H * heads.d_attn  # scores of distances are as many as those of keys

    def activations(self, hyper: "Hyper", ell: int) -> int:
        heads = hyper.heads
        return heads.H * ell + 3 * heads.H * heads.d_attn


@dataclass(frozen=True)
class Rotary(Positions):
    """Queries and keys turn with their position, so that scores depend on distances. Nothing is learned."""

    @property
    def fields(self) -> tuple[str, ...]:
        return ("d_rot", "rotary_base", "rotary_scaling")

    def default(self, hyper: "Hyper", name: str) -> float | None:
        return {"d_rot": hyper.heads.d_attn // 2 * 2, "rotary_base": 10000.0, "rotary_scaling": None}[name]

    def check(self, hyper: "Hyper") -> None:
        super().check(hyper)
        d_rot, d_attn = hyper.sizes()["d_rot"], hyper.heads.d_attn
        expected = f"an even number of at most d_attn = {d_attn}, for components turn in pairs"
        hyper.require("d_rot", d_rot % 2 == 0 and 2 <= d_rot <= d_attn, expected)
        hyper.require("rotary_base", is_real(hyper.rotary_base) and 0 < (hyper.rotary_base or 0) < inf, "a number in (0, ∞)")
        scaling = hyper.rotary_scaling
        numbers = scaling is None or (
            isinstance(scaling, tuple) and len(scaling) in (1, 4) and all(is_real(number) and 0 < number < inf for number in scaling)
        )
        expected = "one number in (0, ∞), a factor, or four, Llama 3's factor, low, high and first ℓ_max, or None"
        hyper.require("rotary_scaling", numbers, expected)
        if scaling is not None and len(scaling) == 4:
            hyper.require("rotary_scaling", scaling[1] < scaling[2], "low < high, the second and third of four numbers")

    def activations(self, hyper: "Hyper", ell: int) -> int:
        heads = hyper.heads
        if getattr(hyper, "qk_norm", False):
            return 0  # what turns is the norm's output, which nobody else needs
        return (heads.H + heads.H_kv) * heads.d_attn


def _d_r(hyper: "Hyper") -> int:
    d_r: int = hyper.sizes()["d_r"]
    return d_r


POSITIONS: dict[str, Positions] = {
    "learned": Learned("W_p is learned"),
    "sinusoids": Sinusoids("W_p is that of Vaswani et al."),
    "paper_sinusoids": Sinusoids("W_p is as §5 has it"),
    "split_sinusoids": Sinusoids("the same as sinusoids, all sines before all cosines (Marian)"),
    "none": Positions("no positions: W_p = 0"),
    "relative": Relative("distances, as in Transformer-XL", algorithms=(10,), every_distance=True),
    "rotary": Rotary("queries and keys turn with their position (RoFormer, Llama)"),
}
