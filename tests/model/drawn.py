"""Random hyperparameters and models: prime and distinct sizes, any departures that go together."""

from dataclasses import fields, replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.strategies import PRIMES, rng
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper
from transalg.model import build
from transalg.verify.batches import Batch, draw, draw_mixed
from transalg.verify.cases import DEPARTURES, randomised

EVEN = (4, 6, 10, 14)  # where sines and cosines come in pairs
SIZES = ("ell_max", "H", "d_attn", "d_r", "d_rot", "d_f")  # which some departures take with them
MORE_VALUES: dict[str, tuple[Any, ...]] = {
    "eps": (1e-12,),
    "band": (1, 2, 5),
    "segments": (1,),
    "shared": (3,),
    "H_kv": (1, 3),
    "band_pattern": ("100",),
}
KINDS = (DHyper, EHyper, ClassifierHyper, EDHyper)


@st.composite
def hypers(drawing: st.DrawFn, kind: type, **fixed: Any) -> Any:
    """Hyperparameters of this kind with the departures given, and no others."""
    names = ["N_V", "ell_max", "d_e", "d_mlp", "d_attn", "d_mid"]
    names += ["d_f"] if issubclass(kind, EHyper) else []
    names += ["N_C"] if kind is ClassifierHyper else []
    sizes = dict(zip(names, drawing(st.permutations(PRIMES)), strict=False))
    if kind is GatoHyper:
        groups, channels = drawing(st.sampled_from(((1, 3), (3, 1), (2, 2))))  # of the block, and in each group
        sizes |= {"N_loc": 23, "N_grid": 29, "C": drawing(st.sampled_from((1, 3))), "C_r": groups * channels, "G": groups}
        sizes["sigma"] = drawing(st.sampled_from((4, 8)))
    sizes["N_V"] = max(sizes["N_V"], 5)
    sizes["H"] = drawing(st.sampled_from((1, 2, 3)))
    for depth in ("L_enc", "L_dec") if kind is EDHyper else ("L",):
        sizes[depth] = drawing(st.integers(1, 2)) + (bool(fixed.get("band")) or fixed.get("shared", 1) > 1)
    if "ell_max" in fixed:
        sizes["ell_max"] = fixed["ell_max"]
    if "sinusoids" in fixed.get("positions", ""):
        sizes["d_e"] = drawing(st.sampled_from(EVEN))
    if fixed.get("positions") == "relative":
        sizes["d_r"] = drawing(st.sampled_from(EVEN))
    if fixed.get("positions") == "rotary":
        sizes["d_rot"] = drawing(st.sampled_from((2, 4)))
        sizes["d_attn"] = sizes["d_rot"] + drawing(st.integers(0, 3))  # all components turn, or some
    if fixed.get("H_kv"):
        sizes["H"] = fixed["H_kv"] * drawing(st.integers(1, 3))
    if (fixed.get("tied") or fixed.get("head") == "none") and "d_f" in sizes:
        sizes["d_f"] = sizes["d_e"]
    return kind(**sizes | {name: value for name, value in fixed.items() if name not in SIZES})


@st.composite
def departures(drawing: st.DrawFn, kind: type) -> dict[str, Any]:
    """Any departures that go together: of every field on which P depends, the paper's value or another."""
    values: dict[str, Any] = {}
    for field in fields(kind):
        variants = [fixed for fixed in DEPARTURES[kind].values() if field.name in fixed and field.name not in SIZES]
        others = [fixed[field.name] for fixed in variants]
        if others:
            values[field.name] = drawing(st.sampled_from([kind.paper(field.name), *others, *MORE_VALUES.get(field.name, ())]))
    if values.get("positions") == "relative":
        for name in ("band", "H_kv", "qk_norm"):
            values.pop(name, None)
    if values.get("positions") != "rotary":
        for name in ("rotary_base", "rotary_scaling"):
            values.pop(name, None)
    if values.get("norm") == "batch_norm":
        values.pop("qk_norm", None)
    if not values.get("norm_first", kind.paper("norm_first")):
        values.pop("parallel", None)
    if values.get("band") or values.get("norm") == "batch_norm":
        values.pop("shared")
    return values


@st.composite
def models(drawing: st.DrawFn, kind: type, fixed: dict[str, Any] | None = None) -> tuple[Any, Batch, torch.Generator]:
    """A random model in float64, a ragged batch for it, and a generator."""
    chosen = drawing(departures(kind)) if fixed is None else fixed
    hyper = drawing(hypers(kind, **chosen))
    generator = rng(drawing(st.integers(0, 2**16)))
    model = randomised(build(hyper, dtype=torch.float64), generator).eval()
    if hyper.norm == "batch_norm":  # in evaluation it does not bound X, and log P of large weights would be −∞
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.1)
    batch = draw(hyper, generator, rows=drawing(st.integers(1, 4)), longest=drawing(st.integers(1, 11)))
    if drawing(st.integers(0, 3)) == 0:  # one in four is not ragged, which is treated on its own
        full = {name: (ids.shape[1],) * len(ids) for name, ids in (("x_lengths", batch.x), ("z_lengths", batch.z)) if ids is not None}
        mixed = None if batch.mixed is None else draw_mixed(hyper, batch.x, full["x_lengths"], generator)
        batch = replace(batch, **full, mixed=mixed)
    return model, batch, generator
