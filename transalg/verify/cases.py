"""What `transalg verify` looks at: the paper's architectures, every departure alone, and every preset shrunk to a small size."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import nn

from transalg.hyper import PRESETS, ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.hyper.hyper import TRAINING, AnyHyper, Value
from transalg.hyper.positions import POSITIONS
from transalg.model import MODELS, build
from transalg.verify.batches import draw
from transalg.verify.laws import errors, invariances

AnyModel = TypeVar("AnyModel", bound=nn.Module)
BOUND = 1e-10  # in float64, of P, of gradients, and of what has to stay the same
SMALL: dict[str, int] = {"N_V": 23, "ell_max": 7, "H": 2, "d_e": 10, "d_mlp": 13, "d_attn": 3, "d_mid": 5}
MORE: dict[type[Hyper], dict[str, int]] = {
    DHyper: {"L": 2},
    GatoHyper: {"L": 2, "N_loc": 17, "N_grid": 11, "C": 2, "C_r": 6, "G": 3, "sigma": 8},
    EHyper: {"L": 2, "d_f": 11},
    ClassifierHyper: {"L": 2, "d_f": 11, "N_C": 4},
    EDHyper: {"L_enc": 2, "L_dec": 1},
}
EXAMPLES: dict[str, tuple[Value, ...]] = {
    "eps": (0.1,),
    "band": (3,),
    "band_pattern": ("1",),
    "segments": (3,),
    "shared": (2,),
    "H_kv": (2,),
    "rotary_base": (50.0,),
    "rotary_scaling": ((3.0,), (3.0, 0.5, 2.0, 7.0)),
}  # of fields that are neither choices nor flags
NEEDS: dict[tuple[str, Value], dict[str, Value]] = {  # other fields that an example takes
    ("band", 3): {"ell_max": 37},  # more than one block of the kernel
    ("H_kv", 2): {"H": 6},  # groups of three
    ("band_pattern", "1"): {"band": 3, "ell_max": 37},
    ("positions", "relative"): {"d_r": 4},
    ("positions", "rotary"): {"d_attn": 6, "d_rot": 4},
    ("head", "none"): {"d_f": SMALL["d_e"]},
    ("rotary_base", 50.0): {"positions": "rotary", "d_attn": 6},
    ("rotary_scaling", (3.0,)): {"positions": "rotary", "d_attn": 6},
    ("rotary_scaling", (3.0, 0.5, 2.0, 7.0)): {"positions": "rotary", "d_attn": 6},
}
REFUSED: dict[type[Hyper], tuple[str, ...]] = {ClassifierHyper: ("tied", "output_bias")}  # it has no unembedding


def refused(kind: type[Hyper]) -> tuple[str, ...]:
    """The fields that models of this kind have no use for."""
    schemes = [scheme for name, scheme in POSITIONS.items() if name not in kind.position_schemes()]
    return (*REFUSED.get(kind, ()), *(name for scheme in schemes for name in scheme.fields))


def departures(kind: type[Hyper]) -> dict[str, dict[str, Value]]:
    """The paper, and every departure alone: every choice of every unit, every flag, an example of every other field. P depends on all of them."""
    result: dict[str, dict[str, Value]] = {"as in the paper": {}}
    for each in fields(kind):
        if each.metadata.get("size") or each.name in (*TRAINING, "special", *refused(kind)):
            continue
        paper = kind.paper(each.name)
        for value in _values(kind, each.name, each.metadata.get("choices", ()), paper):
            if value != paper:
                tied = {"d_f": SMALL["d_e"]} if each.name == "tied" and issubclass(kind, EHyper) else {}
                result[f"{each.name}={value}"] = {each.name: value} | NEEDS.get((each.name, value), {}) | tied
    return result


def _values(kind: type[Hyper], name: str, choices: tuple[str, ...], paper: Value) -> tuple[Value, ...]:
    if choices:
        return kind.position_schemes() if name == "positions" else choices
    if isinstance(paper, bool):
        return (True, False)
    if name not in EXAMPLES:
        raise ValueError(f"{name}: this departure has no example in verify/cases.py")
    return EXAMPLES[name]


DEPARTURES: dict[type[Hyper], dict[str, dict[str, Value]]] = {kind: departures(kind) for kind in MODELS}


@dataclass(frozen=True)
class Case:
    architecture: str
    variant: str
    hyper: Hyper


@dataclass(frozen=True)
class Verdict:
    """How far a case is from what it has to be."""

    case: Case
    of_P: float
    of_gradients: float
    laws: dict[str, float]

    @property
    def holds(self) -> bool:
        return max(self.of_P, self.of_gradients, *self.laws.values()) <= BOUND


def small(kind: type[AnyHyper], **changes: Value) -> AnyHyper:
    """Hyperparameters of this kind, all sizes small and different."""
    return kind(**SMALL | MORE[kind] | changes)  # type: ignore[arg-type]


def shrunk(hyper: AnyHyper) -> AnyHyper:
    """A preset with all its departures and small sizes."""
    published = {name: value for name, value in hyper.departures().items() if name not in SMALL}
    changes: dict[str, Value] = {name: EXAMPLES[name][0] for name in ("band", "H_kv") if name in published}
    for name, value in (published | changes).items():
        changes |= NEEDS.get((name, value), {})
    changes |= {"d_f": SMALL["d_e"]} if isinstance(hyper, EHyper) else {}
    return small(type(hyper), **published | changes)


def cases() -> Iterator[Case]:
    for kind, variants in DEPARTURES.items():
        for variant, changes in variants.items():
            yield Case(MODELS[kind].__name__, variant, small(kind, **changes))
    for name, preset in PRESETS.items():
        yield Case(MODELS[type(preset.hyper)].__name__, name, shrunk(preset.hyper))


def verify(case: Case, seed: int = 0) -> Verdict:
    """Compare a random model of the case with the formal algorithm on a random ragged batch, in float64."""
    generator = torch.Generator().manual_seed(seed)
    model = randomised(build(case.hyper, dtype=torch.float64), generator).eval()
    batch = draw(case.hyper, generator)
    of_P, _, of_gradients = errors(model, batch, generator)
    return Verdict(case, of_P, of_gradients, invariances(model, batch, generator))


@torch.no_grad()
def randomised(model: AnyModel, generator: torch.Generator) -> AnyModel:
    """Every parameter and running statistic random: a bias or a γ at its initial value would hide mistakes."""
    for parameter in model.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    for buffer in model.buffers():  # running means and variances, which have to be positive
        buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator, dtype=torch.float64))
    return model
