"""The log loss of many tokens without all their logits: a chunk of tokens at a time."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.hyper.cost import LOGITS
from transalg.model.checks import within


def log_loss(
    X: Tensor,
    W_u: Tensor,
    targets: Tensor,
    b_u: Tensor | None = None,
    *,
    label_smoothing: float = 0.0,
    weight: float = 1.0,
    m: Tensor | None = None,
) -> Float[Tensor, ""]:
    """−weight · Σ_t m[t] log softmax(W_u X[t] + b_u)[targets[t]], X a row for each token; in float32 at least. m is 1 unless given.

    With label smoothing s, a target is 1 − s of the token and s of the uniform distribution. Where gradients are wanted they are computed
    on the way, while a chunk's logits exist, so that those are made once and at most LOGITS of them are held at a time.
    """
    if X.ndim != 2 or targets.shape != X.shape[:1]:
        raise refuse("targets", f"a token for each row of X, {tuple(X.shape)}", f"the shape {tuple(targets.shape)}")
    if m is not None and m.shape != targets.shape:
        raise refuse("m", f"a weight for each row of X, {tuple(X.shape)}", f"the shape {tuple(m.shape)}")
    within("targets", targets, len(W_u))
    device = X.device.type
    if torch.is_autocast_enabled(device):
        low = torch.get_autocast_dtype(device)
        X, W_u, b_u = X.to(low), W_u.to(low), None if b_u is None else b_u.to(low)
        with torch.autocast(device, enabled=False):
            return log_loss(X, W_u, targets, b_u, label_smoothing=label_smoothing, weight=weight, m=m)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (X, W_u, b_u)):
        loss: Tensor = _LogLoss.apply(X, W_u, b_u, targets, m, label_smoothing, weight)  # type: ignore[no-untyped-call]
        return loss
    return _run(X, W_u, b_u, targets, m, label_smoothing, weight, None)


class _LogLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, X: Tensor, W_u: Tensor, b_u: Tensor | None, targets: Tensor, m: Tensor | None, smoothing: float, weight: float
    ) -> Tensor:
        of_X, of_W, of_b = ctx.needs_input_grad[:3]
        ctx.gradients = (
            torch.empty_like(X) if of_X else None,
            torch.zeros_like(W_u) if of_W and not len(X) else torch.empty_like(W_u) if of_W else None,
            torch.zeros_like(b_u) if of_b and b_u is not None else None,
        )
        return _run(X, W_u, b_u, targets, m, smoothing, weight, ctx.gradients)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("log_loss: backward a second time; the first one frees its gradients")
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place: one of them is as large as W_u
        if not (scale.device.type == "cpu" and scale == 1):
            gradients = [None if gradient is None else gradient.mul_(scale) for gradient in gradients]
        return *gradients, None, None, None, None


def _run(
    X: Tensor,
    W_u: Tensor,
    b_u: Tensor | None,
    targets: Tensor,
    m: Tensor | None,
    smoothing: float,
    weight: float,
    gradients: tuple[Tensor | None, Tensor | None, Tensor | None] | None,
) -> Tensor:
    """The loss; and its gradients by X, W_u and b_u, written where given."""
    N_V = len(W_u)
    chunks = max(1, -(-len(X) * N_V // LOGITS))
    size = max(1, -(-len(X) // chunks))
    room = X.new_empty(size, N_V)
    precise = torch.promote_types(X.dtype, torch.float32)
    loss = X.new_zeros((), dtype=precise)
    for start in range(0, len(X), size):
        x, target = X[start : start + size], targets[start : start + size, None]
        logits = torch.mm(x, W_u.T, out=room[: len(x)]).to(precise)
        if b_u is not None:
            logits += b_u
        most, at = logits.max(dim=1, keepdim=True)
        of_target = logits.gather(1, target).to(precise)
        total = logits.sum(dim=1, keepdim=True, dtype=precise) if smoothing else 0.0
        P = torch.softmax(logits, dim=1, out=logits)
        log_sum = (
            most.to(precise) - P.gather(1, at).to(precise).log()
        )  # of the exponentials of the logits; P at its largest does not underflow
        of_rows = log_sum - (1 - smoothing) * of_target - smoothing / N_V * total
        importance = None if m is None else m[start : start + size, None].to(precise)
        loss += (of_rows if importance is None else importance * of_rows).sum()
        if gradients is not None:
            dX, dW, db = gradients
            error = P.sub_(smoothing / N_V) if smoothing else P  # ∂loss/∂logits = P − target
            error = error.scatter_add_(1, target, error.new_full(target.shape, smoothing - 1))
            error = (error if importance is None else error.mul_(importance)).to(X.dtype)
            if dX is not None:
                torch.mm(error, W_u, out=dX[start : start + size])
            if dW is not None:
                torch.addmm(dW, error.T, weight * x, beta=float(start > 0), out=dW)  # the first chunk writes, the others add
            if db is not None:
                db.add_(error.sum(dim=0), alpha=weight)
    if gradients is not None and gradients[0] is not None:
        gradients[0].mul_(weight)
    return loss * weight
