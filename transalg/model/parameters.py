"""Modules whose parameters are those of `hyper.shapes`, under the paper's names, and their initial values."""

from collections.abc import Callable
from math import sqrt
from typing import TypedDict, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transalg.hyper import GatoHyper, Hyper
from transalg.hyper.embedding import PATCHES
from transalg.hyper.heads import Shapes
from transalg.hyper.modalities import BINS
from transalg.hyper.norm import NORMS

Device = torch.device | str | None


class Made(TypedDict, total=False):
    """Where parameters are made, and of which dtype."""

    device: Device
    dtype: torch.dtype | None


RESIDUAL = ("W_o", "W_mlp2", "W_mlp4")  # the matrices that write to the residual stream


class ParameterModule(nn.Module):
    """A module with a parameter for every name without a dot; the others belong to its children.

    It multiplies by a matrix through `linear` alone, and looks up rows of one through `rows` alone: whoever has a faster way overrides these.
    """

    def __init__(self, shapes: Shapes, **made: Unpack[Made]) -> None:
        super().__init__()
        for name, shape in shapes.items():
            if "." not in name:
                self.register_parameter(name, nn.Parameter(torch.empty(shape, **made)))

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of what it computes with."""
        return next(self.parameters()).dtype

    def optional(self, name: str) -> nn.Parameter | None:
        """The parameter of this name, None if this model has none."""
        return self._parameters.get(name)

    def linear(self, X: Float[Tensor, "T n"], W: str, b: str, activation: Callable[[Tensor], Tensor] | None = None) -> Float[Tensor, "T m"]:
        """X Wᵀ + b with the matrix and the vector of these names, b only if the module has it; then the activation."""
        Y = F.linear(X, self._parameters[W], self._parameters.get(b))  # type: ignore[arg-type]
        return Y if activation is None else activation(Y)

    def rows(self, W: str, ids: Int[Tensor, "T"]) -> Float[Tensor, "T d"]:
        """Some rows of the matrix of this name."""
        return F.embedding(ids, self._parameters[W])  # type: ignore[arg-type]

    def matrices(self) -> dict[str, Tensor]:
        """Every parameter as it acts, by its name."""
        return {name: unsharded(parameter.detach()) for name, parameter in self.named_parameters()}


def is_sharded(parameter: Tensor) -> bool:
    """Whether a tensor is a DTensor, spread over processes; importing that class takes 0.8 s, which only those who shard should wait for."""
    return hasattr(parameter, "full_tensor")


def unsharded(parameter: Tensor) -> Tensor:
    """A tensor that is sharded over processes, in full."""
    full: Tensor = parameter.full_tensor() if is_sharded(parameter) else parameter  # type: ignore[attr-defined]
    return full


def local_part(parameter: Tensor) -> Tensor:
    """What this process has of a tensor: all of it unless it is sharded."""
    part: Tensor = parameter.to_local() if is_sharded(parameter) else parameter  # type: ignore[attr-defined]
    return part


@torch.no_grad()
def initialise(module: nn.Module, hyper: Hyper, generator: torch.Generator | None = None) -> None:
    """γ = 1 (0 where the scale is 1 + γ), biases and β = 0, running statistics 0 and 1, all else drawn: W ∼ 𝒩(0, σ²).

    σ = 1/√d unless hyper says otherwise, d being the length of what W multiplies (of what it yields for embeddings).
    """
    for name, buffer in module.named_buffers():  # running statistics: mean 0, variance 1
        buffer.fill_(float(name.rpartition(".")[2].startswith("v")))
    for name, parameter in module.named_parameters():
        stack, _, symbol = name.rpartition(".")
        if symbol.startswith("gamma"):
            parameter.fill_(1.0 if stack == PATCHES else NORMS[hyper.norm].initial)
        elif symbol.startswith(("b_", "beta")):
            parameter.zero_()
        else:
            sigma = hyper.init_std or 1 / sqrt(parameter.shape[-1])
            if stack == PATCHES:
                sigma = _of_patches(symbol, parameter, hyper)
            if hyper.init_residual and symbol in RESIDUAL:
                sigma /= sqrt(hyper.sublayers(stack.split(".")[0]))
            # drawn where the generator is, so that one seed gives the same numbers on every device
            device = generator.device if generator else parameter.device
            drawn = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype, device=device)
            if symbol == "W_e" and isinstance(hyper, GatoHyper) and hyper.init_smooth and hyper.N_V > BINS + 1:
                bins = slice(hyper.N_V - 1 - BINS, hyper.N_V - 1)
                drawn[bins] = _smooth(drawn[bins], hyper.init_smooth)
            if is_sharded(parameter):  # each process takes its part of the same numbers
                from torch.distributed.tensor import distribute_tensor

                drawn = distribute_tensor(drawn, parameter.device_mesh, parameter.placements)  # type: ignore[attr-defined]
            parameter.copy_(sigma * drawn)


def _smooth(drawn: Float[Tensor, "n d"], width: float) -> Float[Tensor, "n d"]:
    """White noise along the rows, as large as before, but alike in neighbours: a model then takes near values for near before it has seen both."""
    i = torch.arange(len(drawn), dtype=drawn.dtype, device=drawn.device)
    weights = torch.exp(-((i[:, None] - i) ** 2) / (2 * width**2))
    smooth: Tensor = weights / weights.norm(dim=1, keepdim=True) @ drawn
    return smooth


def _of_patches(symbol: str, parameter: Tensor, hyper: Hyper) -> float:
    """σ in the ResNet block: kernels keep the size of what they take, and W_z makes vectors as large as those of tokens."""
    d = parameter[0].numel()
    return 1 / sqrt(d) if symbol.startswith("K") else (hyper.init_std or 1 / sqrt(hyper.d_e)) / sqrt(d)
