"""A family: models of others that have one config.json and one set of names, in our terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from transalg.hyper import Hyper
from transalg.hyper.hyper import Value
from transalg.interop.names import Sources
from transalg.interop.settings import Settings

ACTIVATIONS = {  # theirs and ours
    "gelu": "GELU",
    "gelu_new": "tanh_GELU",
    "gelu_pytorch_tanh": "tanh_GELU",
    "relu": "ReLU",
    "silu": "SiLU",
    "swish": "SiLU",
}
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
Fields = dict[str, Value]


@dataclass(frozen=True)
class Family:
    """A model type of Hugging Face's with one head."""

    model_type: str
    architectures: tuple[str, ...]  # the classes that have these names; the first is what we write
    hyper: Callable[[Settings], Hyper]
    config: Callable[[Any], dict[str, Any]]  # the reverse of it, up to what config.json of every family has
    sources: Sources
    marker: str  # a name that tells the family, where config.json does not
    prefix: str = ""  # of names, which files of a model without its head leave out
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names that some files have in the place of others
    copies: Mapping[str, str] = field(default_factory=dict)  # names that repeat another tensor where weights are tied
    repeated: Mapping[str, str] = field(default_factory=dict)  # names that have to repeat another tensor in every file
    second_names: Mapping[str, str] = field(default_factory=dict)  # names under which readers may look for another tensor
    constants: tuple[str, ...] = ()  # patterns of names that are no parameters: masks, angles, positions
    tables: Mapping[str, Callable[[Any], Tensor]] = field(default_factory=dict)  # names of what hyper determines
    unused: tuple[str, ...] = ()  # patterns of names of parts that this model does not need, such as another head


def initialisation(config: Settings, name: str = "initializer_range") -> Fields:
    """Standard deviation of initial weights, if it is said."""
    return {"init_std": config.number(name)} if config.has(name) and config.number(name) > 0 else {}
