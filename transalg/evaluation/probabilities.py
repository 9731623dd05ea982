"""log P̂ of what has to be predicted, for one model or for several, whose P̂ is averaged."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transalg.hyper.cost import LOGITS
from transalg.inference.ensemble import averaged
from transalg.runs.config import Task


@torch.no_grad()
def log_probabilities(models: Sequence[Any], task: Task, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """log P̂ of every token that a batch asks for, and whether it is the most probable one. The arguments are those of the task's loss."""
    found = [_features(model, task, arguments) for model in models]
    targets = found[0][1]
    size = max(1, LOGITS // models[0].hyper.N_V // len(models))
    parts = [_chunk(models, [X[i : i + size] for X, _ in found], targets[i : i + size]) for i in range(0, len(targets), size)]
    if not parts:
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.bool)
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


@torch.no_grad()
def class_log_probabilities(models: Sequence[Any], x: Tensor, lengths: list[int]) -> Tensor:
    """log P̂ of every class, for every row."""
    return averaged([torch.log_softmax(model(x, lengths).double(), dim=1) for model in models])


def _chunk(models: Sequence[Any], Xs: list[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = [model.logits(X) for X, model in zip(Xs, models, strict=True)]
    log_P = averaged([torch.log_softmax(each.float() if each.dtype != torch.float64 else each, dim=1) for each in logits])
    return log_P.gather(1, targets[:, None])[:, 0].double(), log_P.argmax(dim=1) == targets


def _features(model: Any, task: Task, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """X before the unembedding, and the token to predict, for every prediction."""
    if task == "mlm":
        x, x_tilde, chosen, lengths = arguments
        X, rows = model.encode(x_tilde, lengths)
        picked = rows.unpad(chosen).nonzero()[:, 0]
        return model.head(X[picked]), rows.unpad(x)[picked]
    *before, x = arguments[: 2 if task == "seq2seq" else 1]
    lengths = [length - 1 for length in arguments[-1]]
    widest = max(lengths)
    given, targets = x[:, :widest], x[:, 1 : widest + 1]
    X, rows = model.features(*before, given, *arguments[-2:-1] if task == "seq2seq" else (), lengths)
    return X, rows.unpad(targets)
