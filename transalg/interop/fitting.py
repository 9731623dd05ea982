"""Which of several architectures of others a model is, and what keeps it from being one: the departures that a format does not know."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TypeVar

from transalg.hyper import Hyper
from transalg.hyper.hyper import TRAINING

LINES = {  # of Algorithms 8, 9 and 10, where a hyperparameter acts
    8: {
        "positions": "2, 11", "scaled": "2, 11", "norm": "6, 8, 15, 17, 19", "norm_first": "5–8, 14–19", "eps": "6, 8, 15, 17, 19",
        "activation": "7, 18", "bias": "5, 7, 14, 16, 18", "d_attn": "5, 14, 16", "d_mid": "5, 14, 16", "tied": "21", "output_bias": "21",
        "shared": "5–8, 14–19", "d_rot": "5, 14, 16", "rotary_base": "5, 14, 16", "rotary_scaling": "5, 14, 16",
    },
    9: {
        "positions": "2", "scaled": "2", "segments": "2", "embedding_norm": "3", "norm": "6, 8, 11", "norm_first": "5–8", "eps": "6, 8, 11",
        "activation": "7, 10", "bias": "5, 7", "d_attn": "5", "d_mid": "5", "d_f": "10", "head": "10, 11", "pooling": "12", "tied": "12",
        "output_bias": "12", "shared": "5–8", "d_rot": "5", "rotary_base": "5", "rotary_scaling": "5",
    },
    10: {
        "positions": "2", "scaled": "2", "norm": "5, 7, 10", "norm_first": "5–8", "eps": "5, 7, 10", "H_kv": "6", "qk_norm": "6", "band": "6",
        "band_pattern": "6", "d_rot": "6", "rotary_base": "6", "rotary_scaling": "6", "d_attn": "6", "d_mid": "6", "activation": "8",
        "parallel": "6, 8", "bias": "6, 8", "tied": "11", "shared": "5–8",
    },
}  # fmt: skip
Kind = TypeVar("Kind")


def differences(hyper: Hyper, other: Hyper | None) -> dict[str, object]:
    """The fields on which P depends, in which a model is not what an architecture makes of it; with the model's values."""
    if other is None or type(other) is not type(hyper):
        return {"architecture": type(hyper).__name__}
    names = [each.name for each in fields(hyper) if each.name not in (*TRAINING, "special")]
    if getattr(hyper, "band", None) is None and getattr(other, "band", None) is None:
        names = [name for name in names if name != "band_pattern"]
    return {name: getattr(hyper, name) for name in names if getattr(hyper, name) != getattr(other, name)}


def fit(
    hyper: Hyper, format_name: str, kinds: Iterable[Kind], name: Callable[[Kind], str], understood: Callable[[Kind], Hyper | None]
) -> Kind:
    """The first kind of architecture that has all that the model has; a ValueError that says what the closest one lacks."""
    closest: tuple[dict[str, object], str, Hyper] | None = None
    for kind in kinds:
        try:
            other = understood(kind)
            missing = differences(hyper, other)
        except ValueError:
            continue
        if not missing:
            return kind
        if other is not None and "architecture" not in missing and (closest is None or len(missing) < len(closest[0])):
            closest = missing, name(kind), other
    if closest is None:
        raise ValueError(f"{format_name} has no architecture for a model of Algorithm {hyper.algorithm} of this kind")
    missing, closest_name, other = closest
    lines = LINES[hyper.algorithm]
    listed = ", ".join(f"{one}={value}" + (f" (line {lines[one]})" if one in lines else "") for one, value in missing.items())
    theirs = ", ".join(f"{one}={value}" for one in missing if (value := getattr(other, one)) is not None)
    has = f", which has {theirs}" if theirs else ""
    raise ValueError(f"{format_name} does not know {listed}; the closest that it knows is {closest_name}{has}")
