"""The keyword options of `Run.generate` and `Run.predict` as types, for their overloads. The methods document them."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from transalg.inference.samplers import Sampler

TooLong = Literal["cut", "error"]


class SamplingOptions(TypedDict, total=False):
    """How to continue a prompt."""

    ell_gen: int
    tau: float
    top_k: int | None
    top_p: float | None
    repetition_penalty: float
    samplers: Sequence[Sampler] | None
    stop: str | Sequence[str]
    seed: int | None
    truncate: bool


class PredictionOptions(TypedDict, total=False):
    """How to turn a text into another."""

    beams: int
    alpha: float
    ell_gen: int | None
    tau: float
    top_k: int | None
    top_p: float | None
    repetition_penalty: float
    seed: int | None
    too_long: TooLong
