"""What one pass of a model says about a text: what belongs where a mask is, its class, its embedding, how probable it is."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.hyper.cost import LOGITS
from transalg.inference.decoding import by_length, padded
from transalg.inference.ensemble import averaged
from transalg.model import DTransformer
from transalg.model.architectures import Encoder

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
        places = [(i, t) for i, row in enumerate(index) for t, token in enumerate(rows[row]) if token == mask]
        if not places:
            continue
        which, where = (list(each) for each in zip(*places, strict=True))
        P = averaged([_log_P(model, _at(model.encode(ids, lengths), which, where)) for model in models]).exp()
        best = P.topk(min(k, P.shape[1]), dim=1)
        for (i, _), tokens, shares in zip(places, best.indices.tolist(), best.values.tolist(), strict=True):
            results[index[i]].append(list(zip(tokens, shares, strict=True)))
    return results


def _at(encoded: tuple[Tensor, Any], which: list[int], where: list[int]) -> Tensor:
    """The rows of X for these tokens of the batch."""
    X, rows = encoded
    found: Tensor = rows.pad(X)[which, where]
    return found


def _log_P(model: Any, X: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(model.head(X)).double(), dim=1)


@torch.inference_mode()
def classify(models: Sequence[Any], rows: Rows) -> Tensor:
    """P̂ of every class, for every row."""
    P = torch.zeros(len(rows), models[0].hyper.N_C, dtype=torch.float64)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], models[0].device)
        P[index] = averaged([torch.log_softmax(model(ids, lengths).double(), dim=1) for model in models]).exp().cpu()
    return P


@torch.inference_mode()
def embed(model: Any, rows: Rows, pooling: Pooling = "mean") -> Tensor:
    """A vector for every row: the mean over its tokens of what the last layer (of the encoder, if there is one) gives, or its first token's."""
    if pooling not in ("mean", "first"):
        raise refuse("pooling", "mean or first", pooling)
    found = torch.zeros(len(rows), model.hyper.d_e)
    for index in by_length(rows, ROWS):
        ids, lengths = padded([rows[i] for i in index], model.device)
        X, where = model.features(ids, lengths) if isinstance(model, DTransformer) else model.encode(ids, lengths)
        if pooling == "first":
            found[index] = X[where.first_tokens].float().cpu()
            continue
        count = torch.tensor(lengths or [ids.shape[1]] * len(ids), device=X.device)
        found[index] = (where.pad(X).sum(dim=1) / count[:, None]).float().cpu()
    return found


@torch.inference_mode()
def score(models: Sequence[Any], rows: Rows, z: Rows | None = None) -> list[list[float]]:
    """For every row, log P̂ of each of its tokens but the first, given those before it (and z); for an encoder, given all of the others.

    Beyond ℓ_max tokens each has at least the ℓ_max/2 before it as its context.
    """
    if isinstance(models[0], Encoder):
        return [_pseudo(models, row) for row in rows]
    ell_max = min(model.hyper.ell_max for model in models)
    results = [[0.0] * (len(row) - 1) for row in rows]
    pieces = [piece for i, row in enumerate(rows) for piece in _pieces(i, len(row), ell_max)]
    if z is not None and len(pieces) > len(rows):
        raise refuse("x", f"at most ℓ_max = {ell_max} tokens", max(map(len, rows)))
    for index in by_length([rows[row][first:end] for row, first, end, _ in pieces], ROWS):
        cut = [pieces[i] for i in index]
        ids, lengths = padded([rows[row][first : end - 1] for row, first, end, _ in cut], models[0].device)
        given: tuple[Any, ...] = (ids, lengths)
        if z is not None:
            of_z, z_lengths = padded([z[row] for row, *_ in cut], models[0].device)
            given = (of_z, ids, z_lengths, lengths)
        targets, _ = padded([rows[row][first + 1 : end] for row, first, end, _ in cut], models[0].device)
        found = [model.features(*given) for model in models]
        where = found[0][1]
        log_p = where.pad(_of_targets(models, [X for X, _ in found], where.unpad(targets))[:, None])[:, :, 0].tolist()
        for (row, first, end, new), values in zip(cut, log_p, strict=True):
            results[row][end - 1 - new : end - 1] = values[end - 1 - first - new : end - 1 - first]
    return results


def _of_targets(models: Sequence[Any], Xs: list[Tensor], targets: Tensor) -> Tensor:
    size = max(1, LOGITS // models[0].hyper.N_V)
    parts = []
    for i in range(0, len(targets), size):
        logits = [model.logits(X[i : i + size]).double() for model, X in zip(models, Xs, strict=True)]
        parts.append(averaged([torch.log_softmax(each, dim=1) for each in logits]).gather(1, targets[i : i + size, None])[:, 0])
    return torch.cat(parts)


def _pieces(row: int, length: int, ell_max: int) -> list[tuple[int, int, int, int]]:
    """(row, from, to, how many of its last tokens are new) of what one pass can take: ℓ_max tokens, and the one behind them."""
    end = min(length, ell_max + 1)
    found = [(row, 0, end, end - 1)]
    while end < length:
        new = min(max(1, ell_max // 2), length - end)
        end += new
        found.append((row, end - ell_max - 1, end, new))
    return found


def _pseudo(models: Sequence[Any], row: Sequence[int]) -> list[float]:
    """log P̂ of each token between bos and eos where it alone is masked."""
    hyper = models[0].hyper
    masked = [[*row[:t], hyper.mask_token, *row[t + 1 :]] for t in range(1, len(row) - 1)]
    found: list[float] = []
    for i in range(0, len(masked), ROWS):
        ids, _ = padded(masked[i : i + ROWS], models[0].device)
        count, places = len(ids), list(range(i + 1, i + 1 + len(ids)))
        log_P = averaged([_log_P(model, _at(model.encode(ids), list(range(count)), places)) for model in models])
        found += log_P[range(count), [row[t] for t in places]].tolist()
    return found
