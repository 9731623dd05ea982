"""What one pass of a model gives for a text: tokens for its masks, its class, its embedding, its log-probability."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from transalg.checks import integer
from transalg.formal.domains import refuse
from transalg.hyper.cost import LOGITS
from transalg.inference.decoding import by_length, padded
from transalg.inference.ensemble import as_models, common_ell_max, ensemble_logits, mean_log_probability, token_log_probability
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.model.architectures import Transformer
from transalg.model.layout import Rows

TokenRows = Sequence[Sequence[int]]
Progress = Callable[[int], object]  # called with the number of rows that have been finished since the last call
ROWS = 32  # in one pass
Pooling = Literal["mean", "first"]


def _ignore(_: int) -> None:
    """No progress is shown."""


@torch.inference_mode()
def fill(models: Sequence[ETransformer], rows: TokenRows, k: int, progress: Progress = _ignore) -> list[list[list[tuple[int, float]]]]:
    """For every row, for each of its masks: the k most probable tokens and their P̂."""
    integer("k", k, 1)
    mask, results = models[0].hyper.mask_token, [list[list[tuple[int, float]]]() for _ in rows]
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        masks = [(i, t) for i, row in enumerate(index) for t, token in enumerate(rows[row]) if token == mask]
        if masks:
            P = mean_log_probability([_log_P_at(model, ids, lengths, masks) for model in models]).exp()
            best = P.topk(min(k, P.shape[1]), dim=1)
            for (i, _), tokens, probabilities in zip(masks, best.indices.tolist(), best.values.tolist(), strict=True):
                results[index[i]].append(list(zip(tokens, probabilities, strict=True)))
        progress(len(index))
    return results


def _log_P_at(model: ETransformer, ids: Tensor, lengths: list[int] | None, places: list[tuple[int, int]]) -> Tensor:
    """log P̂ of every token of the vocabulary, at these places (row, position) of the batch."""
    X, layout = model.encode(ids, lengths)
    rows, positions = (list(each) for each in zip(*places, strict=True))
    return torch.log_softmax(model.logits(model.head(layout.unpack(X)[rows, positions])).double(), dim=1)


@torch.inference_mode()
def classify(models: Sequence[Classifier], rows: TokenRows, progress: Progress = _ignore) -> Tensor:
    """P̂ of every class, for every row."""
    P = torch.zeros(len(rows), models[0].hyper.N_C, dtype=torch.float64)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        P[index] = mean_log_probability([torch.log_softmax(model(ids, lengths).double(), dim=1) for model in models]).exp().cpu()
        progress(len(index))
    return P


@torch.inference_mode()
def embed(model: Transformer, rows: TokenRows, pooling: Pooling = "mean", progress: Progress = _ignore) -> Tensor:
    """A vector for every row, from the last layer (of the encoder, if there is one): the mean over its tokens, or the first token's."""
    if pooling not in ("mean", "first"):
        raise refuse("pooling", "mean or first", pooling)
    vectors = torch.zeros(len(rows), model.hyper.d_e)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], model.device)
        X, layout = _last_layer(model, ids, lengths)
        if pooling == "first":
            vectors[index] = X[layout.firsts].float().cpu()
        else:
            count = torch.tensor(lengths or [ids.shape[1]] * len(ids), device=X.device)
            vectors[index] = (layout.unpack(X).sum(dim=1) / count[:, None]).float().cpu()
        progress(len(index))
    return vectors


def _last_layer(model: Transformer, ids: Tensor, lengths: list[int] | None) -> tuple[Tensor, Rows]:
    if isinstance(model, DTransformer):
        return model.features(ids, lengths)
    if isinstance(model, ETransformer | Classifier | EDTransformer):
        return model.encode(ids, lengths)
    raise refuse("model", "one that embeds", type(model).__name__)


@torch.inference_mode()
def score(models: Sequence[Transformer], rows: TokenRows, z: TokenRows | None = None, progress: Progress = _ignore) -> list[list[float]]:
    """For every row, log P̂ of each token but the first, given those before it (and z). An encoder gives it given all other tokens.

    Beyond ℓ_max tokens the context of a token is at least the ℓ_max/2 before it.
    """
    if isinstance(models[0], ETransformer):
        encoders = as_models(models, ETransformer)
        return [_pseudo(encoders, row, progress) for row in rows]
    ell_max = common_ell_max(models)
    results = [[0.0] * (len(row) - 1) for row in rows]
    pieces = [piece for i, row in enumerate(rows) for piece in _pieces(i, len(row), ell_max)]
    if z is not None and len(pieces) > len(rows):
        raise refuse("x", f"at most ℓ_max = {ell_max} tokens", max(map(len, rows)))
    for index in by_length([rows[row][first:end] for row, first, end, _ in pieces], ROWS):
        batch = [pieces[i] for i in index]
        ids, lengths = padded([rows[row][first : end - 1] for row, first, end, _ in batch], models[0].device)
        targets, _ = padded([rows[row][first + 1 : end] for row, first, end, _ in batch], models[0].device)
        of_z = None if z is None else padded([z[row] for row, *_ in batch], models[0].device)
        features = [_features(model, ids, lengths, of_z) for model in models]
        layout = features[0][1]
        log_p, _ = target_log_probabilities(models, [X for X, _ in features], layout.pack(targets))
        for (row, first, end, new), values in zip(batch, layout.unpack(log_p[:, None])[:, :, 0].tolist(), strict=True):
            results[row][end - 1 - new : end - 1] = values[end - 1 - first - new : end - 1 - first]
        progress(sum(end == len(rows[row]) for row, _, end, _ in batch))
    return results


def _features(model: Transformer, ids: Tensor, lengths: list[int] | None, z: tuple[Tensor, list[int] | None] | None) -> tuple[Tensor, Rows]:
    """X before the unembedding."""
    if isinstance(model, DTransformer) and z is None:
        return model.features(ids, lengths)
    if isinstance(model, EDTransformer) and z is not None:
        return model.features(z[0], ids, z[1], lengths)
    raise refuse("model", "a DTransformer, or an EDTransformer with z", type(model).__name__)


def target_log_probabilities(models: Sequence[Transformer], Xs: Sequence[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """log P̂ of one token for each row of X, in float64, and whether it is the most probable one. Each model has its X.

    The logits are computed for some rows at a time.
    """
    size = max(1, LOGITS // models[0].hyper.N_V // len(models))
    log_p, best = [targets.new_zeros(0, dtype=torch.float64)], [targets.new_zeros(0, dtype=torch.bool)]
    for i in range(0, len(targets), size):
        chunk = targets[i : i + size]
        logits = ensemble_logits([model.logits(X[i : i + size]).double() for model, X in zip(models, Xs, strict=True)])
        log_p.append(token_log_probability(logits, chunk))
        best.append(logits.argmax(dim=1) == chunk)
    return torch.cat(log_p), torch.cat(best)


def _pieces(row: int, length: int, ell_max: int) -> list[tuple[int, int, int, int]]:
    """Windows that one pass can take, of ℓ_max tokens and the one after them: (row, from, to, how many of the last tokens are new)."""
    end = min(length, ell_max + 1)
    pieces = [(row, 0, end, end - 1)]
    while end < length:
        new = min(max(1, ell_max // 2), length - end)
        end += new
        pieces.append((row, end - ell_max - 1, end, new))
    return pieces


def _pseudo(models: Sequence[ETransformer], row: Sequence[int], progress: Progress) -> list[float]:
    """Pseudo-log-likelihood: log P̂ of each token between bos and eos where it alone is masked."""
    mask = models[0].hyper.mask_token
    masked = [[*row[:t], mask, *row[t + 1 :]] for t in range(1, len(row) - 1)]
    results: list[float] = []
    for i in range(0, len(masked), ROWS):
        ids, _ = padded(masked[i : i + ROWS], models[0].device)
        places = list(enumerate(range(i + 1, i + 1 + len(ids))))
        log_P = mean_log_probability([_log_P_at(model, ids, None, places) for model in models])
        results += log_P[range(len(ids)), [row[t] for _, t in places]].tolist()
    progress(1)
    return results
