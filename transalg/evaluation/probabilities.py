"""log P̂ of what has to be predicted, by one model or an ensemble."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transalg.inference.ensemble import mean_log_probability
from transalg.inference.one_pass import target_log_probabilities
from transalg.model.architectures import Transformer
from transalg.runs.config import Task


@torch.no_grad()
def log_probabilities(models: Sequence[Transformer], task: Task, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """log P̂ of every token to predict in a batch, and whether it is the most probable one. The arguments are those of the task's loss."""
    features = [_features(model, task, arguments) for model in models]
    return target_log_probabilities(models, [X for X, _ in features], features[0][1])


@torch.no_grad()
def class_log_probabilities(models: Sequence[Transformer], x: Tensor, lengths: list[int]) -> Tensor:
    """log P̂ of every class, for every row."""
    return mean_log_probability([torch.log_softmax(model(x, lengths).double(), dim=1) for model in models])


def _features(model: Any, task: Task, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """X before the unembedding, and the token to predict, for every prediction."""
    if task == "mlm":
        x, x_tilde, chosen, lengths = arguments
        X, rows = model.encode(x_tilde, lengths)
        picked = rows.pack(chosen).nonzero()[:, 0]
        return model.head(X[picked]), rows.pack(x)[picked]
    *before, x = arguments[: 2 if task == "seq2seq" else 1]
    lengths = [length - 1 for length in arguments[-1]]
    widest = max(lengths)
    inputs, targets = x[:, :widest], x[:, 1 : widest + 1]
    X, rows = model.features(*before, inputs, *arguments[-2:-1] if task == "seq2seq" else (), lengths)
    return X, rows.pack(targets)
