"""What one pass of a model says about a text: what belongs where a mask is, its class, its embedding, how probable it is."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.inference.decoding import by_length, padded
from transalg.model import DTransformer
from transalg.model.architectures import Encoder
from transalg.tasks.predictions import (
    class_log_probabilities,
    features_at,
    log_probabilities,
    next_tokens,
    next_tokens_of_pairs,
    vocabulary_log_probabilities,
)

Rows = Sequence[Sequence[int]]
ROWS = 32  # in one pass
Pooling = Literal["mean", "first"]


@torch.inference_mode()
def fill(models: Sequence[Any], rows: Rows, k: int) -> list[list[list[tuple[int, float]]]]:
    """For every row, for each of its masks: the k most probable tokens and their P̂."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise refuse("k", "1 or more", k)
    mask, results = models[0].hyper.mask_token, [list[list[tuple[int, float]]]() for _ in rows]
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        features = [features_at(model, ids, ids == mask, lengths) for model in models]
        P = vocabulary_log_probabilities(models, [X for X, _ in features]).exp()
        best = P.topk(min(k, P.shape[1]), dim=1)
        for place, tokens, shares in zip(features[0][1].tolist(), best.indices.tolist(), best.values.tolist(), strict=True):
            results[index[place // ids.shape[1]]].append(list(zip(tokens, shares, strict=True)))
    return results


@torch.inference_mode()
def classify(models: Sequence[Any], rows: Rows) -> Tensor:
    """P̂ of every class, for every row."""
    P = torch.zeros(len(rows), models[0].hyper.N_C, dtype=torch.float64)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        P[index] = class_log_probabilities(models, ids, lengths).exp().cpu()
    return P


@torch.inference_mode()
def embed(model: Any, rows: Rows, pooling: Pooling = "mean") -> Tensor:
    """A vector for every row: the mean over its tokens of what the last layer (of the encoder, if there is one) gives, or its first token's."""
    if pooling not in ("mean", "first"):
        raise refuse("pooling", "mean or first", pooling)
    vectors = torch.zeros(len(rows), model.hyper.d_e)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], model.device)
        X, where = model.features(ids, lengths) if isinstance(model, DTransformer) else model.encode(ids, lengths)
        if pooling == "first":
            vectors[index] = X[where.firsts].float().cpu()
            continue
        count = torch.tensor(lengths or [ids.shape[1]] * len(ids), device=X.device)
        vectors[index] = (where.unpack(X).sum(dim=1) / count[:, None]).float().cpu()
    return vectors


@torch.inference_mode()
def score(models: Sequence[Any], rows: Rows, z: Rows | None = None) -> list[list[float]]:
    """For every row, log P̂ of each of its tokens but the first, given those before it (and z); for an encoder, given all of the others.

    Beyond ℓ_max tokens each has at least the ℓ_max/2 before it as its context.
    """
    if isinstance(models[0], Encoder):
        return [_pseudo(models, row) for row in rows]
    ell_max = min(model.hyper.ell_max for model in models)
    results = [[0.0] * (len(row) - 1) for row in rows]
    pieces = [piece for i, row in enumerate(rows) if len(row) > 1 for piece in _pieces(i, len(row), ell_max)]
    if z is not None and len(pieces) > len(rows):
        raise refuse("x", f"at most ℓ_max = {ell_max} tokens", max(map(len, rows)))
    for index in by_length([rows[row][first:end] for row, first, end, _ in pieces], ROWS):
        cut = [pieces[i] for i in index]
        ids, lengths = padded([rows[row][first:end] for row, first, end, _ in cut], models[0].device)
        if z is None:
            predictions = [next_tokens(model, ids, lengths) for model in models]
        else:
            of_z, z_lengths = padded([z[row] for row, *_ in cut], models[0].device)
            predictions = [next_tokens_of_pairs(model, of_z, ids, z_lengths, lengths) for model in models]
        log_p = predictions[0].layout.unpack(log_probabilities(models, predictions)[0][:, None])[:, :, 0].tolist()
        for (row, first, end, new), values in zip(cut, log_p, strict=True):
            results[row][end - 1 - new : end - 1] = values[end - 1 - first - new : end - 1 - first]
    return results


def _pieces(row: int, length: int, ell_max: int) -> list[tuple[int, int, int, int]]:
    """(row, from, to, how many of its last tokens are new) of what one pass can take: ℓ_max tokens, and the one after them."""
    end = min(length, ell_max + 1)
    pieces = [(row, 0, end, end - 1)]
    while end < length:
        new = min(max(1, ell_max // 2), length - end)
        end += new
        pieces.append((row, end - ell_max - 1, end, new))
    return pieces


def _pseudo(models: Sequence[Any], row: Sequence[int]) -> list[float]:
    """log P̂ of each token between bos and eos where it alone is masked."""
    hyper = models[0].hyper
    masked = [[*row[:t], hyper.mask_token, *row[t + 1 :]] for t in range(1, len(row) - 1)]
    log_p: list[float] = []
    for i in range(0, len(masked), ROWS):
        ids, _ = padded(masked[i : i + ROWS], models[0].device)
        places = torch.arange(i + 1, i + 1 + len(ids), device=ids.device)
        chosen = torch.zeros_like(ids, dtype=torch.bool).scatter(1, places[:, None], True)
        log_P = vocabulary_log_probabilities(models, [features_at(model, ids, chosen)[0] for model in models])
        log_p += log_P[range(len(ids)), [row[t] for t in places.tolist()]].tolist()
    return log_p
