"""Optimisers: one table of them. No torch at import: the command line's choices and help come from here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from transalg.hyper.embedding import TABLES

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from transalg.hyper import Hyper
    from transalg.model.transformer import Transformer

FACTOR = "factor"  # of the learning rate, in a group of parameters
WIDTH = 128  # of the residual stream: default learning rates are for models of at most this width


@dataclass(frozen=True)
class Coefficients:
    """What an optimiser may use besides the learning rate."""

    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    bfloat16: bool = False  # whether training computes in it, so that an optimiser's products may


@dataclass(frozen=True)
class OptimiserKind:
    """A row of the table."""

    build: "Callable[[Transformer[Hyper], float, Coefficients], list[Optimizer]]"
    help: str
    eta: float  # the default learning rate, unless the task has another
    shrinks: bool = True  # for wider models, the default η is smaller by √(width / WIDTH)

    def default_eta(self, d_e: int, of_task: float | None = None) -> float:
        """The learning rate of a model of this width, if none is chosen."""
        return (of_task or self.eta) * (sqrt(WIDTH / max(WIDTH, d_e)) if self.shrinks else 1)


def optimisers(
    model: "Transformer[Hyper]",
    kind: str,
    eta: float,
    *,
    weight_decay: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.95,
    bfloat16: bool = False,
) -> "list[Optimizer]":
    """The optimisers that together train all of a model. Matrices decay; embeddings, norms and biases do not."""
    if kind not in OPTIMISERS:
        raise ValueError(f"optimizer: expected {', '.join(OPTIMISERS)}, got {kind!r}")
    return OPTIMISERS[kind].build(model, eta, Coefficients(weight_decay, beta1, beta2, bfloat16))


def scale_eta(optimisers: "Iterable[Optimizer]", factor: float, parameters: "Iterable[nn.Parameter]") -> None:
    """Some parameters get this factor of the learning rate: a group that has others as well is divided in two."""
    scaled = {id(parameter) for parameter in parameters}
    for optimiser in optimisers:
        for group in list(optimiser.param_groups):
            chosen = [parameter for parameter in group["params"] if id(parameter) in scaled]
            others = [parameter for parameter in group["params"] if id(parameter) not in scaled]
            if chosen and others:
                group["params"] = others
                optimiser.add_param_group(
                    {name: value for name, value in group.items() if name != "params"} | {"params": chosen, FACTOR: factor}
                )
            elif chosen:
                group[FACTOR] = factor


def set_eta(optimisers: "Iterable[Optimizer]", eta: float) -> None:
    """The learning rate of a step, for all parameters, with their factors."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = eta * group.get(FACTOR, 1.0)


def _muon(model: "Transformer[Hyper]", eta: float, coefficients: Coefficients) -> "list[Optimizer]":
    from transalg.optimisation.muon import Muon, hidden_matrices

    matrices = hidden_matrices(model)
    rest = {name: parameter for name, parameter in _trained(model).items() if name not in matrices}
    muon: list[Optimizer] = []
    if matrices:
        muon = [Muon(matrices.values(), lr=eta, weight_decay=coefficients.weight_decay, bfloat16=coefficients.bfloat16)]
    return [*muon, *_adamw_of(rest, eta, coefficients)]


def _adamw(model: "Transformer[Hyper]", eta: float, coefficients: Coefficients) -> "list[Optimizer]":
    return _adamw_of(_trained(model), eta, coefficients)


def _sgd(model: "Transformer[Hyper]", eta: float, coefficients: Coefficients) -> "list[Optimizer]":
    from torch.optim import SGD

    return [SGD(model.parameters(), lr=eta)]


OPTIMISERS: dict[str, OptimiserKind] = {
    "muon": OptimiserKind(_muon, "Muon for hidden matrices with AdamW for the rest", 0.005),
    "adamw": OptimiserKind(_adamw, "AdamW for all parameters", 0.001),
    "sgd": OptimiserKind(_sgd, "plain SGD, as in the paper", 0.1, shrinks=False),
}


def _adamw_of(parameters: "dict[str, nn.Parameter]", eta: float, coefficients: Coefficients) -> "list[Optimizer]":
    from torch.optim import AdamW

    decayed = [parameter for name, parameter in parameters.items() if _decays(name)]
    constant = [parameter for name, parameter in parameters.items() if not _decays(name)]
    groups = [{"params": decayed, "weight_decay": coefficients.weight_decay}, {"params": constant, "weight_decay": 0.0}]
    betas = coefficients.beta1, coefficients.beta2
    return [AdamW([group for group in groups if group["params"]], lr=eta, betas=betas, fused=_has_fused(parameters.values()))]


def _trained(model: "Transformer[Hyper]") -> "dict[str, nn.Parameter]":
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _decays(name: str) -> bool:
    symbol = name.rpartition(".")[2]
    return symbol.startswith(("W_", "K_")) and symbol not in TABLES


def _has_fused(parameters: "Iterable[Tensor]") -> bool:
    """Torch's fused AdamW has kernels for these devices."""
    return all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
