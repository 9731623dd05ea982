"""One model of every kind with many departures, and what to give it."""

from typing import Any

from tests.strategies import rng
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.verify.batches import draw
from transalg.verify.cases import MODELS, small

KINDS = (DHyper, EHyper, ClassifierHyper, EDHyper)
RICH: dict[type, dict[str, Any]] = {
    DHyper: {"band": 3, "ell_max": 37, "tied": True},
    EHyper: {"segments": 2, "embedding_norm": True, "output_bias": True},
    ClassifierHyper: {"norm_first": True},
    EDHyper: {"positions": "sinusoids", "scaled": True},
}


def make(kind: type, **options: Any) -> Any:
    return MODELS[kind](small(kind, **RICH[kind]), generator=rng(0), **options).eval()


def inputs(kind: type, full: bool = True) -> tuple[Any, ...]:
    batch = draw(small(kind, **RICH[kind]), rng(1))
    ids = (batch.z, batch.x) if kind is EDHyper else (batch.x,)
    return ids if full else (*ids, *([batch.z_lengths] if kind is EDHyper else []), batch.x_lengths)
