"""Random hyperparameters and models: prime and distinct sizes, any departures that go together."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.strategies import PRIMES, rng
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.verify.batches import Batch, draw
from transalg.verify.cases import MODELS, randomised

EVEN = (4, 6, 10, 14)  # where sines and cosines come in pairs
KINDS = (DHyper, EHyper, ClassifierHyper, EDHyper)


@st.composite
def hypers(drawing: st.DrawFn, kind: type, **fixed: Any) -> Any:
    """Hyperparameters of this kind with the departures given, and no others."""
    names = ["N_V", "ell_max", "d_e", "d_mlp", "d_attn", "d_mid"]
    names += ["d_f"] if issubclass(kind, EHyper) else []
    names += ["N_C"] if kind is ClassifierHyper else []
    sizes = dict(zip(names, drawing(st.permutations(PRIMES)), strict=False))
    sizes["N_V"] = max(sizes["N_V"], 5)
    sizes["H"] = drawing(st.sampled_from((1, 2, 3)))
    for depth in ("L_enc", "L_dec") if kind is EDHyper else ("L",):
        sizes[depth] = drawing(st.integers(1, 2)) + bool(fixed.get("band") and sizes.get("L", 1) == 1)
    if "sinusoids" in fixed.get("positions", ""):
        sizes["d_e"] = drawing(st.sampled_from(EVEN))
    if fixed.get("positions") == "relative":
        sizes["d_r"] = drawing(st.sampled_from(EVEN))
    if fixed.get("tied") and "d_f" in sizes:
        sizes["d_f"] = sizes["d_e"]
    return kind(**sizes | {name: value for name, value in fixed.items() if name not in ("d_r", "d_f")})


@st.composite
def departures(drawing: st.DrawFn, kind: type) -> dict[str, Any]:
    """Any departures that go together."""
    flag = st.booleans()
    found: dict[str, Any] = {
        "norm": drawing(st.sampled_from(("layer_norm", "RMSnorm"))),
        "norm_first": drawing(flag),
        "activation": drawing(st.sampled_from(("ReLU", "GELU", "tanh_GELU"))),
        "positions": drawing(st.sampled_from(kind.position_schemes())),
        "scaled": drawing(flag),
        "eps": drawing(st.sampled_from((1e-5, 1e-12, 0.1))),
    }
    if kind is not ClassifierHyper:
        found["tied"] = drawing(flag)
    if kind is DHyper and found["positions"] != "relative":
        found["band"] = drawing(st.sampled_from((None, 1, 2, 3, 5)))
    if issubclass(kind, EHyper):
        found |= {"segments": drawing(st.sampled_from((0, 1, 3))), "embedding_norm": drawing(flag)}
    if kind is EHyper:
        found["output_bias"] = drawing(flag)
    return found


@st.composite
def models(drawing: st.DrawFn, kind: type, fixed: dict[str, Any] | None = None) -> tuple[Any, Batch, torch.Generator]:
    """A random model in float64, a ragged batch for it, and a generator."""
    chosen = drawing(departures(kind)) if fixed is None else fixed
    hyper = drawing(hypers(kind, **chosen))
    generator = rng(drawing(st.integers(0, 2**16)))
    model = randomised(MODELS[kind](hyper, dtype=torch.float64), generator).eval()
    batch = draw(hyper, generator, rows=drawing(st.integers(1, 4)), longest=drawing(st.integers(1, 11)))
    if drawing(st.integers(0, 3)) == 0:  # one in four is not ragged, which is treated on its own
        full = {name: (ids.shape[1],) * len(ids) for name, ids in (("x_lengths", batch.x), ("z_lengths", batch.z)) if ids is not None}
        batch = replace(batch, **full)
    return model, batch, generator
