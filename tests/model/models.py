"""Models of every kind with every unit, and what to give them."""

from typing import Any

from tests.strategies import rng
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.model import build
from transalg.verify.batches import draw, draw_mixed
from transalg.verify.cases import DEPARTURES, small

KINDS = (DHyper, EHyper, ClassifierHyper, EDHyper)
RICH: dict[type, dict[str, Any]] = {
    DHyper: {"band": 3, "ell_max": 37, "tied": True},
    EHyper: {"segments": 2, "embedding_norm": True, "output_bias": True},
    ClassifierHyper: {"norm_first": True, "head": "tanh"},
    EDHyper: {"positions": "sinusoids", "scaled": True, "output_bias": True},
}
# of Gato, which is a decoder with another line 2, those that meet line 2 and one for each kind of block
MEETING = ("as in the paper", "norm=batch_norm", "activation=GEGLU", "bias=none", "positions=relative", "tied=True", "scaled=True")
# every unit alone, in every architecture that can have it
UNITS: dict[str, Hyper] = {
    f"{kind.__name__}-{name}": small(kind, **fixed)
    for kind, variants in DEPARTURES.items()
    for name, fixed in variants.items()
    if kind is not GatoHyper or name in MEETING
}


def make(kind: type, **options: Any) -> Any:
    return build(small(kind, **RICH[kind]), generator=rng(0), **options).eval()


def inputs(kind: type, full: bool = True) -> tuple[Any, ...]:
    return inputs_of(small(kind, **RICH[kind]), full)


def inputs_of(hyper: Hyper, full: bool = True) -> tuple[Any, ...]:
    batch = draw(hyper, rng(1))
    if batch.mixed is not None:
        lengths = (batch.x.shape[1],) * len(batch.x)
        return (draw_mixed(hyper, batch.x, lengths, rng(1)) if full else batch.mixed,)
    pairs = isinstance(hyper, EDHyper)
    ids = (batch.z, batch.x) if pairs else (batch.x,)
    return ids if full else (*ids, *([batch.z_lengths] if pairs else []), batch.x_lengths)
