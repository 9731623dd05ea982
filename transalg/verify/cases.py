"""What `transalg verify` looks at: the paper's architectures, every departure alone, and every preset shrunk to a small size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from transalg.hyper import PRESETS, ClassifierHyper, DHyper, EDHyper, EHyper, Hyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.verify.batches import draw
from transalg.verify.laws import errors, invariances

MODELS: dict[type[Hyper], Any] = {DHyper: DTransformer, EHyper: ETransformer, ClassifierHyper: Classifier, EDHyper: EDTransformer}
BOUND = 1e-10  # in float64, of P, of gradients, and of what has to stay the same
SMALL: dict[str, int] = {"N_V": 23, "ell_max": 7, "H": 2, "d_e": 10, "d_mlp": 13, "d_attn": 3, "d_mid": 5}
DEPARTURES: dict[type[Hyper], dict[str, dict[str, Any]]] = {
    DHyper: {
        "as in the paper": {},
        "post-norm": {"norm_first": False},
        "RMSnorm": {"norm": "RMSnorm"},
        "ReLU": {"activation": "ReLU"},
        "tanh-GELU": {"activation": "tanh_GELU"},
        "sinusoids": {"positions": "sinusoids"},
        "the paper's sinusoids": {"positions": "paper_sinusoids"},
        "relative positions": {"positions": "relative", "d_r": 4},
        "a band of 3": {"band": 3, "ell_max": 37},  # more than one block of the kernel
        "tied": {"tied": True},
        "scaled embeddings": {"scaled": True},
    },
    EHyper: {
        "as in the paper": {},
        "pre-norm": {"norm_first": True},
        "segments": {"segments": 3},
        "embedding norm": {"embedding_norm": True},
        "output bias": {"output_bias": True},
        "tied": {"tied": True, "d_f": 10},
    },
    ClassifierHyper: {
        "as in the paper": {},
        "pre-norm": {"norm_first": True},
        "BERT's embeddings": {"segments": 2, "embedding_norm": True},
    },
    EDHyper: {
        "as in the paper": {},
        "pre-norm": {"norm_first": True},
        "GELU": {"activation": "GELU"},
        "RMSnorm": {"norm": "RMSnorm"},
    },
}


@dataclass(frozen=True)
class Case:
    architecture: str
    variant: str
    hyper: Any


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


def small(kind: type[Hyper], **departures: Any) -> Any:
    """Hyperparameters of this kind, all sizes small and different."""
    more: dict[type[Hyper], dict[str, int]] = {
        DHyper: {"L": 2},
        EHyper: {"L": 2, "d_f": 11},
        ClassifierHyper: {"L": 2, "d_f": 11, "N_C": 4},
        EDHyper: {"L_enc": 2, "L_dec": 1},
    }
    return kind(**SMALL | more[kind] | departures)


def shrunk(hyper: Any) -> Any:
    """A preset with all its departures and small sizes."""
    departures = {name: value for name, value in hyper.departures().items() if name not in SMALL}
    changes: dict[str, Any] = {"band": 3, "ell_max": 37} if departures.get("band") else {}
    changes |= {"d_r": 4} if departures.get("positions") == "relative" else {}
    changes |= {"d_f": SMALL["d_e"]} if isinstance(hyper, EHyper) else {}
    return small(type(hyper), **departures | changes)


def cases() -> Iterator[Case]:
    for kind, variants in DEPARTURES.items():
        for variant, departures in variants.items():
            yield Case(MODELS[kind].__name__, variant, small(kind, **departures))
    for name, preset in PRESETS.items():
        yield Case(MODELS[type(preset.hyper)].__name__, name, shrunk(preset.hyper))


def verify(case: Case, seed: int = 0) -> Verdict:
    """Compare a random model of the case with the formal algorithm on a random ragged batch, in float64."""
    generator = torch.Generator().manual_seed(seed)
    model = randomised(MODELS[type(case.hyper)](case.hyper, dtype=torch.float64), generator).eval()
    batch = draw(case.hyper, generator)
    of_P, _, of_gradients = errors(model, batch, generator)
    return Verdict(case, of_P, of_gradients, invariances(model, batch, generator))


@torch.no_grad()
def randomised(model: Any, generator: torch.Generator) -> Any:
    """Every parameter random: a bias or a γ at its initial value would hide mistakes."""
    for parameter in model.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model
