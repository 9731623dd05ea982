"""Norms: how each is computed, and the formal component it equals. Their parameters and costs: `hyper/norm.py`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transalg import formal
from transalg.formal.norm import RMSnorm
from transalg.model.parameters import ParameterModule

Vector = Float[Tensor, "d"]
Rows = Float[Tensor, "*T d"]


@dataclass(frozen=True)
class Norm:
    """A norm of every row of X, and its formal counterpart."""

    compute: Callable[[Tensor, Tensor, Tensor | None, float], Tensor]
    formal: Callable[..., Tensor]

    def apply(self, module: ParameterModule, X: Rows, gamma: str, eps: float) -> Rows:
        """With the γ of this name in a module, and the β that belongs to it, if there is one."""
        parameters = module._parameters
        return self.compute(X, parameters[gamma], parameters.get(gamma.replace("gamma", "beta")), eps)  # type: ignore[arg-type]


def layer_norm(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """Algorithm 6 for every row of X."""
    return torch.layer_norm(X, gamma.shape, gamma, beta, eps)


def rms_norm(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """RMSnorm for every row of X."""
    return torch.rms_norm(X, gamma.shape, gamma, eps)


NORMS: dict[str, Norm] = {
    "layer_norm": Norm(layer_norm, formal.layer_norm),
    "RMSnorm": Norm(rms_norm, RMSnorm),
}
