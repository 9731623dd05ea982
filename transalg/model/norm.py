"""Norms: how each is computed, and the formal component it equals. Their parameters and costs: `hyper/norm.py`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from transalg import formal
from transalg.formal.norm import RMSnorm, RMSnorm_1p, affine, running
from transalg.formal.norm import batch_norm as formal_batch_norm
from transalg.formal.theta import SomeTheta
from transalg.hyper.norm import NORMS as NORM_PARAMETERS
from transalg.model.parameters import ParameterModule

Vector = Float[Tensor, "d"]
Rows = Float[Tensor, "*T d"]
MOMENTUM = 0.1  # μ, what the last batch counts in running statistics


@dataclass(frozen=True)
class Norm:
    """A norm of every row of X, and its formal counterpart."""

    compute: Callable[[Tensor, Tensor, Tensor | None, float], Tensor]
    formal: Callable[..., Tensor]
    literal: ClassVar[bool] = True  # whether Algorithms 8–10 have it in their own lines, as a norm of each token
    over_tokens: ClassVar[bool] = False  # whether a token's norm depends on other tokens in training

    @property
    def formal_in_training(self) -> Callable[..., Tensor]:
        """The same where training computes something else."""
        return self.formal

    def acting(self, theta: SomeTheta, eps: float, *, training: bool) -> SomeTheta:
        """θ as the formal component takes it."""
        return theta

    def register(self, module: ParameterModule, names: Iterable[str]) -> None:
        """Give a module what its norms, those with a γ among these names, have beside parameters."""

    def apply(self, module: ParameterModule, X: Rows, gamma: str, eps: float) -> Rows:
        """With the γ of this name in a module, and the β that belongs to it, if there is one."""
        parameters = module._parameters
        return self.compute(X, parameters[gamma], parameters.get(gamma.replace("gamma", "beta")), eps)  # type: ignore[arg-type]


def layer_norm(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """Algorithm 6 for every row of X."""
    return torch.layer_norm(X, gamma.shape, gamma, beta, eps)


def rms_norm(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """RMSnorm for every row of X."""
    wanted = torch.is_grad_enabled() and (X.requires_grad or gamma.requires_grad)
    if wanted and X.device.type == "cpu" and X.dtype == gamma.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling():
        Y: Tensor = _RMSNorm.apply(X, gamma, eps)  # type: ignore[no-untyped-call]
        return Y
    return torch.rms_norm(X, gamma.shape, gamma, eps)


def rms_norm_1p(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """RMSnorm_1p for every row of X."""
    return rms_norm(X, 1 + gamma, beta, eps)


class _RMSNorm(torch.autograd.Function):
    """RMSnorm with its gradient written out: on CPUs torch has no kernel for it, and puts it together from three times as many operations."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, gamma: Tensor, eps: float) -> Tensor:
        r = torch.linalg.vector_norm(X, dim=-1, keepdim=True).square_().div_(X.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(X, gamma, r)
        return torch.mul(X, r).mul_(gamma)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, Tensor, None]:
        """With N = r X, ∂loss/∂γ = Σ G ⊙ N over the rows, and ∂loss/∂X = r (G ⊙ γ − N · mean(G ⊙ γ ⊙ N)) of each."""
        X, gamma, r = ctx.saved_tensors
        N = X * r
        P = G * N
        mean = torch.matmul(P, gamma).div_(X.shape[-1]).unsqueeze(-1)
        return torch.mul(G, gamma).addcmul_(N, mean, value=-1).mul_(r), P.flatten(0, -2).sum(dim=0), None


def batch_norm(X: Rows, gamma: Vector, beta: Vector | None, eps: float) -> Rows:
    """batch_norm in training: m and v of each feature over all rows of X."""
    return torch.batch_norm(X, gamma, beta, None, None, True, 0.0, eps, torch.backends.cudnn.enabled)


class BatchNorm(Norm):
    """Over all tokens of a batch in training, which changes the running statistics; with these otherwise."""

    literal = False
    over_tokens = True

    @property
    def formal_in_training(self) -> Callable[..., Tensor]:
        return formal_batch_norm

    def acting(self, theta: SomeTheta, eps: float, *, training: bool) -> SomeTheta:
        return replace(theta, statistics=None) if training else running(theta, eps)

    def register(self, module: ParameterModule, names: Iterable[str]) -> None:
        for gamma in names:
            if gamma.startswith("gamma"):
                m, v = NORM_PARAMETERS["batch_norm"].statistics(gamma)
                like = module.get_parameter(gamma).detach()
                module.register_buffer(m, torch.zeros_like(like))
                module.register_buffer(v, torch.ones_like(like))

    def apply(self, module: ParameterModule, X: Rows, gamma: str, eps: float) -> Rows:
        m, v = (module.get_buffer(name) for name in NORM_PARAMETERS["batch_norm"].statistics(gamma))
        scale, offset = module.get_parameter(gamma), module.get_parameter(gamma.replace("gamma", "beta"))
        if not module.training:
            return torch.batch_norm(X, scale, offset, m, v, False, 0.0, eps, torch.backends.cudnn.enabled)
        if torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1:  # not when a backward pass computes it again
            with torch.no_grad():
                variance, mean = torch.var_mean(X.detach(), dim=0, correction=0)
                m.lerp_(mean.to(m), MOMENTUM)
                v.lerp_(variance.to(v), MOMENTUM)
        return self.compute(X, scale, offset, eps)


NORMS: dict[str, Norm] = {
    "layer_norm": Norm(layer_norm, formal.layer_norm),
    "RMSnorm": Norm(rms_norm, RMSnorm),
    "RMSnorm_1p": Norm(rms_norm_1p, RMSnorm_1p),
    "batch_norm": BatchNorm(batch_norm, affine),
}
