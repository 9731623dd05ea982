"""The losses of Algorithms 11–13 and of the classifier, for minibatches.

Each is weight · Σ −log P̂ over what is to be predicted. The paper's is the sum, weight = 1; unless given, the weight is 1 / the number of
predictions, or of their own weights m, so that a learning rate does not depend on the size of a batch. Label smoothing is what the model's hyperparameters say unless
given: to validate, 0.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transalg.formal.domains import refuse
from transalg.hyper import Hyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer, Gato, MixedBatch, log_loss
from transalg.model.checks import Lengths
from transalg.model.transformer import Transformer
from transalg.tasks.adversarial import adversarial_loss
from transalg.tasks.predictions import Predictions, masked_tokens, next_mixed_tokens, next_tokens, next_tokens_of_pairs
from transalg.tasks.task import Task


def D_loss(
    model: DTransformer, x: Tensor, lengths: Lengths = None, *, weight: float | None = None, label_smoothing: float | None = None
) -> Tensor:
    """Algorithm 13: −Σ_t log P[x[t+1], t]."""
    return _log_loss(model, next_tokens(model, x, lengths), weight, label_smoothing)


def Gato_loss(model: Gato, batch: MixedBatch, *, weight: float | None = None, label_smoothing: float | None = None) -> Tensor:
    """GatoTraining: −Σ_t m[t+1] log P[x[t+1], t], m the weights of text and actions; see `MixedBatch.drawn` for places of patches."""
    return _log_loss(model, next_mixed_tokens(model, batch), weight, label_smoothing)


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
    return _log_loss(model, next_tokens_of_pairs(model, z, x, z_lengths, x_lengths), weight, label_smoothing)


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
    """Algorithm 12: −Σ_{t∈T̃} log P[x[t], t] of the chosen tokens T̃, P from x̃; see `transalg.tasks.masking`."""
    return _log_loss(model, masked_tokens(model, x, x_tilde, chosen, lengths, segments), weight, label_smoothing)


def C_loss(
    model: Classifier,
    x: Tensor,
    c: Tensor,
    lengths: Lengths = None,
    segments: Tensor | None = None,
    *,
    blocks: Sequence[range] = (),
    weight: float | None = None,
    label_smoothing: float | None = None,
) -> Tensor:
    """The classifier's: −Σ log p[c]. With blocks of classes, the heads of several data sets, p of a row is over the block that c is in."""
    if c.shape != x.shape[:1] or c.is_floating_point():
        raise refuse("c", f"a class for each of the {len(x)} rows", f"{c.dtype} of shape {tuple(c.shape)}")
    logits = model(x, lengths, segments)
    if int(c.min()) < 0 or int(c.max()) >= model.hyper.N_C:
        raise refuse("c", f"classes from 0 to N_C−1 with N_C = {model.hyper.N_C}", int(c.min() if c.min() < 0 else c.max()))
    smoothing = model.hyper.label_smoothing if label_smoothing is None else label_smoothing
    parts = of_blocks(logits, c.long(), blocks) if blocks else [(logits, c.long())]
    total = torch.stack([F.cross_entropy(scores, true, label_smoothing=smoothing, reduction="sum") for scores, true in parts]).sum()
    return total * (1 / len(c) if weight is None else weight)


def of_blocks(logits: Tensor, c: Tensor, blocks: Sequence[range]) -> list[tuple[Tensor, Tensor]]:
    """For each block of classes: the logits of its classes, and the class counted from its first, of the rows whose class is one of them."""
    rows = [((c >= block.start) & (c < block.stop)).nonzero()[:, 0] for block in blocks]
    return [(logits[which, block.start : block.stop], c[which] - block.start) for which, block in zip(rows, blocks, strict=True)]


class Objective(nn.Module):
    """A model and its task's loss as one module, so that DDP and FSDP2, which act on `forward`, see both."""

    def __init__(self, task: Task[Any], model: Transformer[Hyper], adversarial: float = 0.0) -> None:
        super().__init__()
        self.task, self.model, self.adversarial = task, model, adversarial

    def forward(self, *inputs: Any, weight: float | None = None, figures: bool = False) -> Tensor:
        """The loss of a batch; or the figures of validation, each as a sum over the batch."""
        if figures:
            return self.task.figure_sums(self.model, inputs)

        def loss() -> Tensor:
            return self.task.loss(self.model, inputs, weight=weight)

        return adversarial_loss(self.model, loss, self.adversarial) if self.adversarial else loss()


def _log_loss(model: Transformer[Hyper], predictions: Predictions, weight: float | None, label_smoothing: float | None) -> Tensor:
    smoothing = model.hyper.label_smoothing if label_smoothing is None else label_smoothing
    if not predictions.count:
        weight = 0.0
    return log_loss(
        predictions.X,
        model.unembedding,
        predictions.targets,
        model.optional("b_u"),
        label_smoothing=smoothing,
        weight=1 / predictions.total if weight is None else weight,
        m=predictions.m,
    )
