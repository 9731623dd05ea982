"""What models predict in a batch: X before the unembedding, the target of each prediction, and log P̂ of it, a chunk of logits at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.hyper import Hyper
from transalg.hyper.cost import LOGITS
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer, Gato, MixedBatch
from transalg.model.checks import Lengths, row_lengths, token_ids
from transalg.model.layout import Layout
from transalg.model.transformer import Transformer


@dataclass(frozen=True)
class Predictions:
    """A row of X and a target for each prediction.

    If there is nothing to predict, X and targets have one row that does not count: every parameter still gets its gradient, 0, as DDP and
    FSDP2 expect.
    """

    X: Tensor  # what the unembedding takes
    targets: Tensor
    count: int
    layout: Layout  # where each row of X stands in the batch, for next tokens
    m: Tensor | None = None  # the weight of each prediction in the loss, if they are not all 1

    @property
    def total(self) -> float:
        """The weight of all of them together."""
        return self.count if self.m is None or not self.count else float(self.m.sum(dtype=torch.float64))


def next_tokens(model: DTransformer, x: Tensor, lengths: Lengths = None) -> Predictions:
    """Every token of x but the first, predicted from those before it."""
    shifted = _shift(x, lengths, model.hyper.ell_max)
    X, layout = model.features(shifted.inputs, shifted.lengths)
    return Predictions(X, layout.unpad(shifted.targets), shifted.count, layout)


def next_tokens_of_pairs(model: EDTransformer, z: Tensor, x: Tensor, z_lengths: Lengths = None, x_lengths: Lengths = None) -> Predictions:
    """Every token of x but the first, predicted from those before it and from z."""
    shifted = _shift(x, x_lengths, model.hyper.ell_max)
    all_lengths = row_lengths("z_lengths", z_lengths, tuple(z.shape))
    lengths = None if all_lengths is None else [all_lengths[row] for row in shifted.rows.tolist()]
    X, layout = model.features(z[shifted.rows], shifted.inputs, lengths, shifted.lengths)
    return Predictions(X, layout.unpad(shifted.targets), shifted.count, layout)


def next_mixed_tokens(model: Gato, batch: MixedBatch) -> Predictions:
    """The tokens of all modalities that the loss looks at, each predicted from those before it."""
    m, following = batch.next_weights(), F.pad(batch.ids[:, 1:], (0, 1))
    X, layout = model.features(batch, m > 0)
    m, targets = (layout.unpad(each)[layout.unpad(m > 0)] for each in (m, following))
    count = len(targets)
    return Predictions(X, targets.long() if count else X.new_zeros(1, dtype=torch.long), count, layout, m if count else X.new_zeros(1))


def masked_tokens(
    model: ETransformer, x: Tensor, x_tilde: Tensor, chosen: Tensor, lengths: Lengths = None, segments: Tensor | None = None
) -> Predictions:
    """The chosen tokens of x, predicted from all of x̃."""
    X, layout = model.features(x_tilde, lengths, segments, chosen)
    targets = layout.unpad(x)[layout.unpad(chosen)]
    return Predictions(X, targets if len(targets) else targets.new_zeros(1), len(targets), layout)


@torch.no_grad()
def log_probabilities(models: Sequence[Transformer[Hyper]], predictions: Sequence[Predictions]) -> tuple[Tensor, Tensor]:
    """log P̂ of every target, in float64, and whether it is the most probable token. Each model of an ensemble has its predictions.

    The logits are computed for some rows at a time.
    """
    count, targets = predictions[0].count, predictions[0].targets
    size = max(1, LOGITS // (2 * models[0].hyper.N_V * len(models)))  # in float64 a number takes twice the memory that it takes in training
    log_p = torch.zeros(count, dtype=torch.float64, device=targets.device)
    most_probable = torch.zeros(count, dtype=torch.bool, device=targets.device)
    for start in range(0, count, size):
        chunk = slice(start, min(start + size, count))
        logits = vocabulary_logits(models, [each.X[chunk] for each in predictions])
        log_p[chunk] = token_log_probability(logits, targets[chunk])
        most_probable[chunk] = logits.argmax(dim=1) == targets[chunk]
    return log_p, most_probable


def vocabulary_logits(models: Sequence[Transformer[Hyper]], Xs: Sequence[Tensor]) -> Tensor:
    """The ensemble's logits of every token of the vocabulary, in float64. Each model has its X, and a row of X is a row of the result."""
    return ensemble_logits([model.logits(X).double() for model, X in zip(models, Xs, strict=True)])


@torch.no_grad()
def class_log_probabilities(models: Sequence[Classifier], x: Tensor, lengths: Lengths = None, block: range | None = None) -> Tensor:
    """log P̂ of every class, for every row of a batch; in float64. With a block, of its classes given that the class is one of them."""
    block = block or range(models[0].hyper.N_C)
    return torch.log_softmax(ensemble_logits([model(x, lengths)[:, block.start : block.stop].double() for model in models]), dim=1)


@torch.no_grad()
def block_log_probabilities(models: Sequence[Classifier], x: Tensor, c: Tensor, blocks: Sequence[range], lengths: Lengths = None) -> Tensor:
    """log P̂ of every class, in float64, given that the class is in the same block as c, for each row; −∞ for classes of other blocks."""
    classes = torch.arange(models[0].hyper.N_C, device=c.device)
    starts = torch.tensor([block.start for block in blocks], device=c.device)
    same = torch.bucketize(classes, starts, right=True) == torch.bucketize(c, starts, right=True)[:, None]
    return torch.log_softmax(ensemble_logits([model(x, lengths).double().masked_fill(~same, -torch.inf) for model in models]), dim=1)


def mean_log_probability(log_P: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of several distributions."""
    return log_P[0] if len(log_P) == 1 else torch.logsumexp(torch.stack(list(log_P)), dim=0) - log(len(log_P))


def ensemble_logits(logits: Sequence[Tensor]) -> Tensor:
    """The logits of one model unchanged; of several, the logarithm of their mean P̂, in float64."""
    return logits[0] if len(logits) == 1 else mean_log_probability([torch.log_softmax(each.double(), dim=-1) for each in logits])


def token_log_probability(logits: Tensor, tokens: Tensor) -> Tensor:
    """log P̂ of one token for each row of logits."""
    return logits.gather(1, tokens[:, None])[:, 0] - torch.logsumexp(logits, dim=1)


@dataclass(frozen=True)
class _Shifted:
    rows: Tensor  # those with a token to predict; row 0 if there are none
    inputs: Tensor  # of these rows, all tokens but the last
    targets: Tensor  # all but the first
    lengths: list[int]  # of the inputs
    count: int  # of targets


def _shift(x: Tensor, lengths: Lengths, ell_max: int) -> _Shifted:
    """The next-token shift. A row may have ℓ_max + 1 tokens: ℓ_max to read, and the one after the last of them."""
    x = token_ids("x", x, ell_max + 1)
    all_lengths = row_lengths("lengths", lengths, tuple(x.shape)) or [x.shape[1]] * len(x)
    longer = [row for row, length in enumerate(all_lengths) if length > 1]
    if not longer:
        return _Shifted(torch.zeros(1, dtype=torch.long, device=x.device), x[:1, :1], x[:1, :1], [1], 0)
    width = max(all_lengths) - 1
    rows = torch.tensor(longer, dtype=torch.long, device=x.device)
    inputs = [all_lengths[row] - 1 for row in longer]
    return _Shifted(rows, x[rows, :width], x[rows, 1 : width + 1], inputs, sum(inputs))
