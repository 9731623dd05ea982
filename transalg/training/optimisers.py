"""Optimisers: SGD, AdamW, and Muon for the hidden matrices with AdamW for the rest; what each parameter is, its name says."""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from transalg.model.architectures import Transformer

Kind = Literal["muon", "adamw", "sgd"]
KINDS: tuple[Kind, ...] = ("muon", "adamw", "sgd")


def optimisers(
    model: Transformer, kind: Kind, eta: float, *, weight_decay: float = 0.0, beta1: float = 0.9, beta2: float = 0.95
) -> list[torch.optim.Optimizer]:
    """The optimisers that together train all of a model. Matrices decay; embeddings, norms, biases do not."""
    if kind not in KINDS:
        raise ValueError(f"optimizer: expected {', '.join(KINDS)}, got {kind!r}")
    if kind == "sgd":
        return [torch.optim.SGD(model.parameters(), lr=eta)]
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    hidden = hidden_matrices(model) if kind == "muon" else {}
    rest = {name: parameter for name, parameter in named.items() if name not in hidden}
    decayed = [parameter for name, parameter in rest.items() if _decays(name)]
    kept = [parameter for name, parameter in rest.items() if not _decays(name)]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW([group for group in groups if group["params"]], lr=eta, betas=(beta1, beta2), fused=_fused(named.values()))
    return [Muon(hidden.values(), lr=eta, weight_decay=weight_decay), adamw] if hidden else [adamw]


def hidden_matrices(model: Transformer) -> dict[str, tuple[nn.Parameter, tuple[int, ...]]]:
    """The matrices between the residual stream and itself, by name, and the rows of the matrices that each of them is made of."""
    H, d_attn, d_mid = model.hyper.heads
    rows = {"q": H * d_attn, "k": H * d_attn, "v": H * d_mid}
    found = {}
    for name, parameter in model.named_parameters():
        stack, _, symbol = name.rpartition(".")
        if stack and symbol.startswith("W_") and parameter.requires_grad:
            of = symbol.removeprefix("W_")
            found[name] = parameter, tuple(rows[one] for one in of) if of in ("qkv", "kv") else (len(parameter),)
    return found


def _decays(name: str) -> bool:
    symbol = name.rpartition(".")[2]
    return symbol.startswith("W_") and symbol not in ("W_e", "W_p", "W_s")


def _fused(parameters: Iterable[Tensor]) -> bool:
    """Torch's fused AdamW has kernels for these devices."""
    return all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)


class Muon(torch.optim.Optimizer):
    """M ← μM + G; W ← (1 − ηλ) W − η · 0.2 √max(n, m) · UVᵀ, where USVᵀ is the decomposition of G + μM (Jordan et al. 2024).

    UVᵀ by five Newton–Schulz steps, which bring every singular value near 1. Matrices of one shape are one batch of products, in
    float32 or the parameters' own precision if that is higher: on CPUs bfloat16 products are many times slower. The factor makes an
    update as large as AdamW's, so that one learning rate serves both (Liu et al. 2025).
    """

    def __init__(
        self, matrices: Iterable[tuple[nn.Parameter, tuple[int, ...]]], lr: float, weight_decay: float = 0.0, momentum: float = 0.95
    ) -> None:
        given = list(matrices)
        self.parts = [rows for _, rows in given]
        super().__init__([parameter for parameter, _ in given], {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rows = dict(zip((parameter for group in self.param_groups for parameter in group["params"]), self.parts, strict=True))
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
                for G in torch.split(update, list(rows[parameter])):
                    batches.setdefault((len(G), G.shape[1]), []).append(G)
            for (n, m), matrices in batches.items():
                directions = orthogonalised(torch.stack(matrices)).mul_(sqrt(max(n, m)))
                torch._foreach_copy_(matrices, list(directions))  # parts of the updates
            torch._foreach_mul_(parameters, 1 - eta * group["weight_decay"])
            own = [_sharded_like(update, parameter) for parameter, update in zip(parameters, updates, strict=True)]
            torch._foreach_add_(parameters, own, alpha=-0.2 * eta)
        return loss


def _sharded_like(full: Tensor, parameter: Tensor) -> Tensor:
    """This process's part of what every process has, if the parameter is sharded."""
    if not isinstance(parameter, DTensor):
        return full
    return distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)


def orthogonalised(G: Tensor, steps: int = 5) -> Tensor:
    """About UVᵀ for each matrix USVᵀ of a batch: X ← aX + (bA + cA²)X with A = XXᵀ, the singular values pulled towards 1.

    Where X is at least twice as wide as it is high, the smaller A is carried from step to step instead of X: X ← PX is A ← PAP, since P is a
    polynomial in A, and all P are multiplied with X at the end.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    precise = torch.promote_types(G.dtype, torch.float32)
    X = G.to(precise)
    tall = X.shape[1] > X.shape[2]
    X = X.mT if tall else X
    X = X / X.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    if X.shape[2] >= 2 * X.shape[1]:
        A, all_P = X @ X.mT, None
        for step in range(steps):
            P = torch.baddbmm(A, A, A, beta=b, alpha=c)
            P.diagonal(dim1=1, dim2=2).add_(a)
            all_P = P if all_P is None else P @ all_P
            if step < steps - 1:
                A = P @ (A @ P)
        X = X if all_P is None else all_P @ X
    else:
        for _ in range(steps):
            A = X @ X.mT
            X = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return (X.mT if tall else X).to(G.dtype)
