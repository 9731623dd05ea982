"""Modules whose parameters are those of `transalg.hyper.shapes`, under the paper's names, and their initial values."""

from collections.abc import Callable
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transalg.hyper import Hyper
from transalg.hyper.shapes import Shapes


def below(shapes: Shapes, name: str) -> Shapes:
    """The shapes of the part with this name."""
    return {key.removeprefix(f"{name}."): shape for key, shape in shapes.items() if key.startswith(f"{name}.")}


class Part(nn.Module):
    """A module with a parameter for every name without a dot; the others belong to its children."""

    def __init__(self, shapes: Shapes, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        super().__init__()
        for name, shape in shapes.items():
            if "." not in name:
                self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))

    def optional(self, name: str) -> nn.Parameter | None:
        """The parameter of this name, None if this model has none."""
        return self._parameters.get(name)

    def linear(self, X: Tensor, W: str, b: str) -> Tensor:
        """X Wᵀ + b, with the matrix of this name, or what stands in for it, and the vector of this name, if there is one."""
        stand_in = self._modules.get(W)
        if isinstance(stand_in, LinearKernel):
            return stand_in.multiply(X)
        return F.linear(X, self._parameters[W], self._parameters.get(b))  # type: ignore[arg-type]

    def for_one(self, W: str, b: str) -> Callable[[Tensor], Tensor]:
        """The same as a function of one row, found once."""
        stand_in = self._modules.get(W)
        if isinstance(stand_in, LinearKernel):
            return stand_in.for_one()
        matrix, vector = self._parameters[W], self._parameters.get(b)
        return lambda X: F.linear(X, matrix, vector)  # type: ignore[arg-type]

    def for_one_into(self, W: str, b: str) -> Callable[[Tensor, Tensor], object]:
        """The same, into memory that is there."""
        stand_in = self._modules.get(W)
        if isinstance(stand_in, LinearKernel):
            return stand_in.for_one_into()
        one = self.for_one(W, b)
        return lambda X, Y: Y.copy_(one(X))

    def stand_ins(self) -> dict[str, "LinearKernel"]:
        """Those of all parts, by the names of the matrices."""
        return {name: module for name, module in self.named_modules() if isinstance(module, LinearKernel)}


class LinearKernel(nn.Module):
    """A matrix W with its b in another form, under W's name in a part: as a kernel likes it, or in fewer bits."""

    device: torch.device
    dtype: torch.dtype  # of what it multiplies

    def multiply(self, X: Tensor) -> Tensor:
        """X Wᵀ + b."""
        raise NotImplementedError

    def for_one(self) -> Callable[[Tensor], Tensor]:
        """The same for one row."""
        return self.multiply

    def for_one_into(self) -> Callable[[Tensor, Tensor], object]:
        """The same, into memory that is there."""
        one = self.for_one()
        return lambda X, Y: Y.copy_(one(X))

    def fused(self, X: Tensor, activation: str) -> Tensor | None:
        """The activation of this name of X Wᵀ + b, where one kernel does both; otherwise None."""
        return None

    def rows(self, ids: Tensor) -> Tensor:
        """Some rows of W, as an embedding takes them."""
        raise NotImplementedError

    def matrix(self) -> Tensor:
        """W as it acts."""
        raise NotImplementedError


def is_sharded(part: Tensor) -> bool:
    """Whether a tensor is spread over processes, a DTensor; importing that class takes 0.8 s, which nobody has to wait for who has none."""
    return hasattr(part, "full_tensor")


@torch.no_grad()
def initialise(module: nn.Module, hyper: Hyper, generator: torch.Generator | None = None) -> None:
    """W ∼ 𝒩(0, σ²), σ = 1/√d unless hyper says otherwise, d the length of what W multiplies (of what it yields for embeddings), γ = 1, all else 0."""
    for name, parameter in module.named_parameters():
        stack, _, symbol = name.rpartition(".")
        if symbol.startswith("gamma"):
            parameter.fill_(1)
        elif symbol.startswith(("W", "u", "w")):
            sigma = hyper.init_std or 1 / sqrt(parameter.shape[-1])
            if hyper.init_residual and symbol in ("W_o", "W_mlp2", "W_mlp4"):
                sigma /= sqrt(_sublayers(hyper, stack.split(".")[0]))
            # drawn where the generator is, so that one seed gives the same numbers on every device
            drawn = torch.randn(
                parameter.shape, generator=generator, dtype=parameter.dtype, device=generator.device if generator else parameter.device
            )
            if is_sharded(parameter):  # each process keeps its part of the same numbers
                from torch.distributed.tensor import distribute_tensor

                drawn = distribute_tensor(drawn, parameter.device_mesh, parameter.placements)  # type: ignore[attr-defined]
            parameter.copy_(sigma * drawn)
        else:
            parameter.zero_()


def _sublayers(hyper: Hyper, stack: str) -> int:
    """How many sub-layers add to the residual stream of a stack of layers."""
    sizes = hyper.sizes()
    return {"layers": 2 * sizes.get("L", 0), "enc": 2 * sizes.get("L_enc", 0), "dec": 3 * sizes.get("L_dec", 0)}[stack]
