"""The losses of Algorithms 11–13 and of the classifier, for minibatches.

Each is weight · Σ −log P̂ over what is to be predicted. The paper's is the sum, weight = 1; unless given, the weight is 1 / how many
are predicted, so that a learning rate does not depend on the size of a batch. Label smoothing is what the model's hyperparameters say
unless given: to validate, 0.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transalg.formal.domains import refuse
from transalg.hyper import EHyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer, log_loss
from transalg.model.checks import row_lengths, token_ids

Lengths = Tensor | Sequence[int] | None


def D_loss(
    model: DTransformer, x: Tensor, lengths: Lengths = None, *, weight: float | None = None, label_smoothing: float | None = None
) -> Tensor:
    """Algorithm 13: −Σ_t log P[x[t+1], t]."""
    rows, given, targets, left = _next_tokens("x", x, lengths, model.hyper.ell_max + 1)
    if not len(rows):
        return _nothing(model)
    X, where = model.features(given[rows], left)
    return _log_loss(model, X, where.unpad(targets[rows]), weight, label_smoothing)


def ED_loss(
    model: EDTransformer,
    z: Tensor,
    x: Tensor,
    z_lengths: Lengths = None,
    x_lengths: Lengths = None,
    *,
    weight: float | None = None,
    label_smoothing: float | None = None,
) -> Tensor:
    """Algorithm 11: −Σ_t log P[x[t+1], t], given z."""
    rows, given, targets, left = _next_tokens("x", x, x_lengths, model.hyper.ell_max + 1)
    if not len(rows):
        return _nothing(model)
    of_z = row_lengths("z_lengths", z_lengths, tuple(z.shape))
    kept = None if of_z is None else [of_z[row] for row in rows.tolist()]
    X, where = model.features(z[rows], given[rows], kept, left)
    return _log_loss(model, X, where.unpad(targets[rows]), weight, label_smoothing)


def E_loss(
    model: ETransformer,
    x: Tensor,
    x_tilde: Tensor,
    chosen: Tensor,
    lengths: Lengths = None,
    segments: Tensor | None = None,
    *,
    weight: float | None = None,
    label_smoothing: float | None = None,
) -> Tensor:
    """Algorithm 12: −Σ_{t∈T̃} log P[x[t], t] of the chosen tokens T̃, P from x̃; see `mask`. No token chosen is a loss of 0."""
    X, where = model.encode(x_tilde, lengths, segments)
    picked = where.unpad(chosen).nonzero()[:, 0]
    if not len(picked):  # every parameter still has its gradient, 0, as DDP and FSDP2 expect
        return _log_loss(model, model.head(X[:1]), where.unpad(x)[:1], 0.0, label_smoothing)
    return _log_loss(model, model.head(X[picked]), where.unpad(x)[picked], weight, label_smoothing)


def C_loss(
    model: Classifier,
    x: Tensor,
    c: Tensor,
    lengths: Lengths = None,
    segments: Tensor | None = None,
    *,
    weight: float | None = None,
    label_smoothing: float | None = None,
) -> Tensor:
    """The classifier's: −Σ log p[c]."""
    if c.shape != x.shape[:1] or c.is_floating_point():
        raise refuse("c", f"a class for each of the {len(x)} rows", f"{c.dtype} of shape {tuple(c.shape)}")
    logits = model(x, lengths, segments)
    if int(c.min()) < 0 or int(c.max()) >= model.hyper.N_C:
        raise refuse("c", f"classes from 0 to N_C−1 with N_C = {model.hyper.N_C}", int(c.min() if c.min() < 0 else c.max()))
    smoothing = model.hyper.label_smoothing if label_smoothing is None else label_smoothing
    total = F.cross_entropy(logits, c.long(), label_smoothing=smoothing, reduction="sum")
    return total * (1 / len(c) if weight is None else weight)


class Objective(nn.Module):
    """A model and its loss as one module, so that DDP and FSDP2, which act on `forward`, see both: `DDP(Objective(model))(x, lengths)`."""

    def __init__(self, model: DTransformer | EDTransformer | ETransformer | Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Any, hits: bool = False, **options: Any) -> Tensor:
        """D_loss, ED_loss, E_loss or C_loss of the batch, by what the model is; with hits the sum, and how many classes were right."""
        if hits and isinstance(self.model, Classifier):
            x, c, lengths = batch
            logits = self.model(x, lengths)
            return torch.stack([F.cross_entropy(logits, c, reduction="sum"), (logits.argmax(dim=1) == c).sum()])
        loss = LOSSES[type(self.model)](self.model, *batch, **options)
        return torch.stack([loss, torch.zeros_like(loss)]) if hits else loss


LOSSES: dict[type[nn.Module], Callable[..., Tensor]] = {
    DTransformer: D_loss,
    EDTransformer: ED_loss,
    ETransformer: E_loss,
    Classifier: C_loss,
}


def mask(x: Tensor, hyper: EHyper, lengths: Lengths = None, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Lines 4–7 of Algorithm 12 for a batch: x̃, and which tokens T̃ are to be predicted.

    Every ordinary token is chosen with probability p_mask, bos and eos never. Of the chosen, the shares of `mask_split` become mask_token, become
    a random ordinary token, stay: (1, 0, 0) in the paper, (0.8, 0.1, 0.1) in BERT.
    """
    x = token_ids("x", x, hyper.ell_max)
    there = row_lengths("lengths", lengths, tuple(x.shape))
    ordinary = x < hyper.mask_token
    if there is not None:
        ordinary &= torch.arange(x.shape[1], device=x.device) < torch.tensor(there, device=x.device)[:, None]
    device = generator.device if generator else x.device
    drawn = torch.rand(2, *x.shape, generator=generator, device=device).to(x.device)
    other = torch.randint(max(1, hyper.mask_token), x.shape, generator=generator, device=device).to(x.device)
    chosen = ordinary & (drawn[0] < hyper.p_mask)
    masked, replaced, _ = hyper.mask_split
    x_tilde = x.where(~(chosen & (drawn[1] < masked)), hyper.mask_token)
    x_tilde = x_tilde.where(~(chosen & (drawn[1] >= masked) & (drawn[1] < masked + replaced)), other)
    return x_tilde, chosen


def _next_tokens(symbol: str, x: Tensor, lengths: Lengths, longest: int) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """The rows with a token to predict; all but the last token; all but the first; how many are left of each row kept."""
    x = token_ids(symbol, x, longest)
    have = row_lengths("lengths", lengths, tuple(x.shape)) or [x.shape[1]] * len(x)
    rows = [row for row, length in enumerate(have) if length > 1]
    widest = max(have) - 1
    return torch.tensor(rows, dtype=torch.long, device=x.device), x[:, :widest], x[:, 1 : widest + 1], [have[row] - 1 for row in rows]


def _log_loss(
    model: DTransformer | ETransformer | EDTransformer, X: Tensor, targets: Tensor, weight: float | None, label_smoothing: float | None
) -> Tensor:
    smoothing = model.hyper.label_smoothing if label_smoothing is None else label_smoothing
    return log_loss(
        X,
        model.unembedding,
        targets,
        model.optional("b_u"),
        label_smoothing=smoothing,
        weight=1 / len(targets) if weight is None else weight,
    )


def _nothing(model: torch.nn.Module) -> Tensor:
    """A loss of 0 on which every parameter has the gradient 0."""
    return 0.0 * torch.stack([parameter.sum() for parameter in model.parameters()]).sum()
