"""Muon: momentum whose matrices are made orthogonal before each step."""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from transalg.hyper import Hyper
from transalg.model.transformer import Transformer

Coefficients = Sequence[tuple[float, float, float]]  # (a, b, c) of each Newton–Schulz step
# The odd polynomial of degree 5 that brings [0.01, 1] nearest to 1, the one that does so for what the first leaves, and a third (Amsel et al.
# 2025): singular values from 0.01 to 1 end between 0.73 and 1.27.
COEFFICIENTS: Coefficients = ((8.0934, -23.6204, 17.4462), (3.6366, -2.7219, 0.5365), (2.6613, -1.9772, 0.4526))
WIDE = 1.5  # columns for each row from which the smaller matrix is the cheaper one to carry


def hidden_matrices(model: Transformer[Hyper]) -> dict[str, tuple[nn.Parameter, tuple[int, ...]]]:
    """The matrices between the residual stream and itself, by name, and the rows of the matrices that each of them is made of."""
    rows, matrices = {symbol: tuple(parts.values()) for symbol, parts in model.hyper.matrices.items()}, {}
    for name, parameter in model.named_parameters():
        stack, _, symbol = name.rpartition(".")
        if stack and symbol.startswith("W_") and parameter.requires_grad:
            matrices[name] = parameter, rows.get(symbol.removeprefix("W_"), (len(parameter),))
    return matrices


class Muon(torch.optim.Optimizer):
    """M ← μM + G; W ← (1 − ηλ) W − η · 0.2 √max(n, m) · UVᵀ, where USVᵀ is the decomposition of G + μM (Jordan et al. 2024).

    UVᵀ by three Newton–Schulz steps, which bring the singular values near 1. Matrices of one shape are one batch of products, in
    float32 or the parameters' precision if that is higher; in bfloat16 if training computes in it. The factor makes an update as
    large as AdamW's, so that one learning rate serves both (Liu et al. 2025).
    """

    def __init__(
        self,
        matrices: Iterable[tuple[nn.Parameter, tuple[int, ...]]],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        coefficients: Coefficients = COEFFICIENTS,
        bfloat16: bool = False,
    ) -> None:
        pairs, self.coefficients, self.bfloat16 = list(matrices), coefficients, bfloat16
        self.rows = dict(pairs)  # by parameter: groups may be divided
        super().__init__([parameter for parameter, _ in pairs], {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            eta, mu = group["lr"], group["momentum"]
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not parameters:
                continue
            gradients = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                if not self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            M = [self.state[parameter]["momentum"] for parameter in parameters]
            torch._foreach_mul_(M, mu)
            torch._foreach_add_(M, gradients)
            updates = [each.full_tensor() if isinstance(each, DTensor) else each for each in torch._foreach_add(gradients, M, alpha=mu)]
            batches: dict[tuple[int, int], list[Tensor]] = {}
            for parameter, update in zip(parameters, updates, strict=True):
                for G in torch.split(update, list(self.rows[parameter])):
                    batches.setdefault((len(G), G.shape[1]), []).append(G)
            for (n, m), matrices in batches.items():
                directions = orthogonalised(torch.stack(matrices), self.coefficients, bfloat16=self.bfloat16).mul_(sqrt(max(n, m)))
                torch._foreach_copy_(matrices, list(directions))  # parts of the updates
            torch._foreach_mul_(parameters, 1 - eta * group["weight_decay"])
            local = [_sharded_like(update, parameter) for parameter, update in zip(parameters, updates, strict=True)]
            torch._foreach_add_(parameters, local, alpha=-0.2 * eta)
        return loss


def _sharded_like(full: Tensor, parameter: Tensor) -> Tensor:
    """This process's part of what every process has, if the parameter is sharded."""
    if not isinstance(parameter, DTensor):
        return full
    return distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)


def orthogonalised(G: Tensor, coefficients: Coefficients = COEFFICIENTS, *, bfloat16: bool = False) -> Tensor:
    """About UVᵀ for each matrix USVᵀ of a batch: X ← aX + (bA + cA²)X with A = XXᵀ, the singular values pulled towards 1.

    X starts with ‖XXᵀ‖_F = 1. That is at least the square of its largest singular value, and far nearer to it than ‖X‖_F² is. Where X is wide,
    the smaller A is carried from step to step instead of X: X ← PX is A ← PAP, since P is a polynomial in A, and all P are multiplied with X
    at the end.
    """
    X = G.to(torch.bfloat16 if bfloat16 else torch.promote_types(G.dtype, torch.float32))
    tall = X.shape[1] > X.shape[2]
    X = X.mT if tall else X
    A = X @ X.mT
    square = A.flatten(1).norm(dim=1).clamp(min=1e-14)[:, None, None]
    A, scale = A / square, square.rsqrt()
    if X.shape[2] > WIDE * X.shape[1]:
        all_P = None
        for step, (a, b, c) in enumerate(coefficients, 1):
            P = torch.baddbmm(A, A, A, beta=b, alpha=c)
            P.diagonal(dim1=1, dim2=2).add_(a)
            all_P = P if all_P is None else P @ all_P
            if step < len(coefficients):
                A = P @ (A @ P)
        X = X * scale if all_P is None else (all_P * scale) @ X
    else:
        X = X * scale
        for step, (a, b, c) in enumerate(coefficients):
            A = X @ X.mT if step else A
            X = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return (X.mT if tall else X).to(G.dtype)
