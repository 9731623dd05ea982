"""What one pass of a model gives for a text: tokens for its masks, its class, its embedding, its log-probability."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from transalg.checks import integer
from transalg.cpu import pack
from transalg.data.files import Progress, no_progress
from transalg.formal.domains import refuse
from transalg.hyper import Hyper
from transalg.inference.decoding import by_length, padded
from transalg.inference.ensemble import as_models, common_ell_max
from transalg.inference.results import numbers
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.model.layout import Layout
from transalg.model.pooling import POOLINGS
from transalg.model.transformer import Transformer
from transalg.tasks.predictions import (
    Predictions,
    class_log_probabilities,
    log_probabilities,
    masked_tokens,
    next_tokens,
    next_tokens_of_pairs,
    vocabulary_logits,
)

TokenRows = Sequence[Sequence[int]]
ROWS = 32  # in one pass
TOKENS = 4096  # in one pass, at most, unless one row has more
OF_ONE_LENGTH = 512  # tokens, from which on rows of another length are another pass
WORTH = 1024  # tokens, from which on packing a model for one pass over them costs less time than it saves
Pooling = Literal["mean", "first", "max"]


@torch.inference_mode()
def fill(models: Sequence[ETransformer], rows: TokenRows, k: int, progress: Progress = no_progress) -> list[list[list[tuple[int, float]]]]:
    """For every row, for each of its masks: the k most probable tokens and their P̂."""
    integer("k", k, 1)
    mask, results = models[0].hyper.mask_token, [list[list[tuple[int, float]]]() for _ in rows]
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        predictions = [masked_tokens(model, ids, ids, ids == mask, lengths) for model in models]
        P = numbers(torch.softmax(vocabulary_logits(models, [each.X[: each.count] for each in predictions]), dim=1))
        best = P.topk(min(k, P.shape[1]), dim=1)
        row_of_mask = [i for i in index for token in rows[i] if token == mask]
        for i, tokens, probabilities in zip(row_of_mask, best.indices.tolist(), best.values.tolist(), strict=True):
            results[i].append(list(zip(tokens, probabilities, strict=True)))
        progress(len(index))
    return results


@torch.inference_mode()
def classify(models: Sequence[Classifier], rows: TokenRows, progress: Progress = no_progress, block: range | None = None) -> Tensor:
    """P̂ of every class, for every row; with a block, of its classes alone."""
    P = torch.zeros(len(rows), len(block or range(models[0].hyper.N_C)), dtype=torch.float64)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        P[index] = class_log_probabilities(models, ids, lengths, block).exp().cpu()
        progress(len(index))
    return numbers(P)


@torch.inference_mode()
def embed(model: Transformer[Hyper], rows: TokenRows, pooling: Pooling = "mean", progress: Progress = no_progress) -> Tensor:
    """A vector for every row, from the last layer (of the encoder, if there is one): mean or maximum over its tokens, or the first token's."""
    if pooling not in get_args(Pooling):
        raise refuse("pooling", "mean, first or max", pooling)
    copies = Counter(map(tuple, rows))  # what occurs twice is computed once
    distinct = list(copies)
    model = pack(model) if sum(map(len, distinct)) >= WORTH else model
    vectors = torch.zeros(len(distinct), model.hyper.d_e)
    for index in passes(distinct):
        ids, lengths = padded([distinct[i] for i in index], model.device)
        X, layout = _last_layer(model, ids, lengths)
        pooled = {"first": POOLINGS["bos"], "mean": POOLINGS["mean"], "max": POOLINGS["max"]}[pooling]
        vectors[index] = pooled.compute(_as_they_are, X, layout).float().cpu()
        progress(sum(copies[distinct[i]] for i in index))
    places = {row: i for i, row in enumerate(distinct)}
    return numbers(vectors)[[places[tuple(row)] for row in rows]]


def passes(rows: TokenRows) -> Iterator[list[int]]:
    """The indices of the rows in passes of about as many tokens, sorted by length; of one length where there are enough of it.

    Rows of one length need no mask, and are copied neither into a padded batch nor back.
    """
    some, tokens = list[int](), 0
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        length = len(rows[i])
        if some and (tokens + length > TOKENS or (tokens >= OF_ONE_LENGTH and length > len(rows[some[-1]]))):
            yield some
            some, tokens = [], 0
        some.append(i)
        tokens += length
    if some:
        yield some


def _as_they_are(X: Tensor, picked: Tensor | slice | None = None) -> Tensor:
    """The head of a pooling that takes the vectors of the last layer."""
    return X if picked is None else X[picked]


def _last_layer(model: Transformer[Hyper], ids: Tensor, lengths: list[int] | None) -> tuple[Tensor, Layout]:
    if isinstance(model, DTransformer):
        return model.features(ids, lengths)
    if isinstance(model, ETransformer | Classifier | EDTransformer):
        return model.encode(ids, lengths)
    raise refuse("model", "one that embeds", type(model).__name__)


@torch.inference_mode()
def score(
    models: Sequence[Transformer[Hyper]], rows: TokenRows, z: TokenRows | None = None, progress: Progress = no_progress
) -> list[list[float]]:
    """For every row, log P̂ of each token but the first, given those before it (and z). An encoder gives it given all other tokens.

    Beyond ℓ_max tokens the context of a token is at least the ℓ_max/2 before it.
    """
    if isinstance(models[0], ETransformer):
        encoders = as_models(models, ETransformer)
        return [_pseudo(encoders, row, progress) for row in rows]
    ell_max = common_ell_max(models)
    results = [[0.0] * (len(row) - 1) for row in rows]
    pieces = [piece for i, row in enumerate(rows) if len(row) > 1 for piece in _pieces(i, len(row), ell_max)]
    if z is not None and len(pieces) > len(rows):
        raise refuse("x", f"at most ℓ_max = {ell_max} tokens", max(map(len, rows)))
    for index in by_length([rows[row][first:end] for row, first, end, _ in pieces], ROWS):
        batch = [pieces[i] for i in index]
        ids, lengths = padded([rows[row][first:end] for row, first, end, _ in batch], models[0].device)
        of_z = None if z is None else padded([z[row] for row, *_ in batch], models[0].device)
        predictions = [_predictions(model, ids, lengths, of_z) for model in models]
        log_p = numbers(log_probabilities(models, predictions)[0])
        for (row, first, end, new), values in zip(batch, predictions[0].layout.pad(log_p[:, None])[:, :, 0].tolist(), strict=True):
            results[row][end - 1 - new : end - 1] = values[end - 1 - first - new : end - 1 - first]
        progress(sum(end == len(rows[row]) for row, _, end, _ in batch))
    return results


def _predictions(
    model: Transformer[Hyper], ids: Tensor, lengths: list[int] | None, z: tuple[Tensor, list[int] | None] | None
) -> Predictions:
    if isinstance(model, DTransformer) and z is None:
        return next_tokens(model, ids, lengths)
    if isinstance(model, EDTransformer) and z is not None:
        return next_tokens_of_pairs(model, z[0], ids, z[1], lengths)
    raise refuse("model", "a DTransformer, or an EDTransformer with z", type(model).__name__)


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
    """Pseudo-log-likelihood: log P̂ of each token that is not special, where it alone is masked."""
    hyper, x = models[0].hyper, torch.tensor(row, device=models[0].device)
    ordinary = [t for t, token in enumerate(row) if token not in hyper.special_tokens]
    results: list[float] = []
    for i in range(0, len(ordinary), ROWS):
        places = torch.tensor(ordinary[i : i + ROWS], device=x.device)
        ids = x.expand(len(places), -1)
        chosen = torch.zeros_like(ids, dtype=torch.bool).scatter(1, places[:, None], True)
        masked = ids.where(~chosen, hyper.mask_token)
        log_p, _ = log_probabilities(models, [masked_tokens(model, ids, masked, chosen) for model in models])
        results += numbers(log_p).tolist()
    progress(1)
    return results
