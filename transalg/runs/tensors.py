"""What the tensors of a checkpoint have to be: exactly those of a model with its hyperparameters, and finite numbers."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from transalg.hyper import Hyper
from transalg.hyper.shapes import shapes
from transalg.model import build
from transalg.optimisation.muon import Muon
from transalg.reading import shown

MODEL, OPTIMISER = "model.", "optimiser."  # prefixes of names
DTYPES = {"F32": torch.float32, "F64": torch.float64}  # that a model may have, by safetensors' names
FEW = 3  # names in a message


@dataclass(frozen=True)
class Kind:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype | str  # a name where torch is not to be used

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"


Kinds = Mapping[str, Kind]


def model_kinds(hyper: Hyper, found: Kinds, where: Path) -> dict[str, Kind]:
    """Those of the parameters: all in float32, or all in float64, as the first that is found."""
    if sum(map(hyper.parameter_sets, hyper.stacks)) > len(found):
        raise ValueError(f"{where}: expected the tensors of {sum(hyper.stacks.values())} layers, got {len(found)} tensors")
    dtype = torch.float64 if any(kind.dtype == torch.float64 for kind in found.values()) else torch.float32
    for name, shape in shapes(hyper).items():  # before anything is made of sizes that no file has
        if name in found and found[name].shape != tuple(shape):
            raise _other_kind(where, name, Kind(tuple(shape), dtype), found[name], "its model")
    try:
        model = build(hyper, device="meta", dtype=dtype)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{where}: hyper: expected sizes that a model can have; restore the file from a copy") from error
    return {name: Kind(tuple(tensor.shape), tensor.dtype) for name, tensor in model.state_dict().items()}


def optimiser_kinds(parameters: Mapping[str, Tensor], optimisers: Iterable[Optimizer], found: Kinds) -> dict[str, Kind]:
    """Those of the optimisers' state after a step, under the names of the parameters and the state's own.

    What is found is taken for the state of an optimiser that is not one of the package's.
    """
    names, result = {parameter: name for name, parameter in parameters.items()}, dict[str, Kind]()
    for optimiser in optimisers:
        trained = [each for group in optimiser.param_groups for each in group["params"]]
        if type(optimiser) not in _STATE:
            own = {f"{OPTIMISER}{names[parameter]}" for parameter in trained}
            result |= {name: kind for name, kind in found.items() if name.rpartition(".")[0] in own}
            continue
        scalars, alike = _STATE[type(optimiser)]
        for parameter in trained:
            result |= {f"{OPTIMISER}{names[parameter]}.{symbol}": Kind((), torch.float32) for symbol in scalars}
            result |= {f"{OPTIMISER}{names[parameter]}.{symbol}": Kind(tuple(parameter.shape), parameter.dtype) for symbol in alike}
    return result


_STATE: dict[type[Optimizer], tuple[tuple[str, ...], tuple[str, ...]]] = {  # scalars; tensors like the parameter
    AdamW: (("step",), ("exp_avg", "exp_avg_sq")),
    Muon: ((), ("momentum",)),
    SGD: ((), ()),
}


def compare(found: Kinds, expected: Kinds, where: Path, whose: str) -> None:
    """A ValueError unless names, shapes and dtypes are equal; it names a few that are not."""
    for words, names in (
        (f"lacks tensors of {whose}", [name for name in expected if name not in found]),
        (f"has tensors that {whose} does not have", [name for name in found if name not in expected]),
    ):
        if names:
            raise ValueError(f"{where}: {words}: {_few(names)}; restore the file from a copy")
    for name, kind in expected.items():
        if found[name] != kind:
            raise _other_kind(where, name, kind, found[name], whose)


def _other_kind(where: Path, name: str, expected: Kind, found: Kind, whose: str) -> ValueError:
    return ValueError(f"{where}: {name}: expected {expected} for {whose}, got {found}; restore the file from a copy")


def require_finite(tensors: Mapping[str, Tensor], where: Path) -> None:
    """A ValueError that names the first tensor with a NaN or an infinite number. One pass, without a copy."""
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.is_floating_point():
            least, most = (float(value) for value in torch.aminmax(tensor.detach()))
            if not (math.isfinite(least) and math.isfinite(most)):
                wrong = "NaN" if math.isnan(least) or math.isnan(most) else "an infinite number"
                raise ValueError(f"{where}: {name}: {wrong} among the weights; use another checkpoint")


def _few(names: list[str]) -> str:
    """Some names, in bounded length.

    >>> _few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - FEW:,} more" if len(names) > FEW else ""
    return ", ".join(shown(name)[1:-1] for name in names[:FEW]) + more
