"""Adversarial training for batches: the loss, and the loss at moved embeddings. Its statement: `formal/adversarial.py`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from transalg.hyper import Hyper
from transalg.model.layout import Layout
from transalg.model.transformer import Move, Transformer


def adversarial_loss(model: Transformer[Hyper], loss: Callable[[], Tensor], epsilon: float) -> Tensor:
    """The loss of a batch, and that at the embeddings of each row moved by ε g/‖g‖, g the gradient of the loss by the row's embeddings."""
    embeddings: list[tuple[Tensor, Layout]] = []

    def look(X: Tensor, layout: Layout) -> Tensor:
        embeddings.append((X, layout))
        return X

    with _moving(model, look):
        total = loss()
    ((X, layout),) = embeddings
    (g,) = torch.autograd.grad(total, X, retain_graph=True)
    r = epsilon * g / _row_norms(g.detach(), layout)
    with _moving(model, lambda X, _: X + r.to(X)):
        return total + loss()


def _row_norms(g: Tensor, layout: Layout) -> Tensor:
    """For each token, ‖g‖ of the row that it is in; 1 where that is 0."""
    B, ell = layout.shape
    lengths = torch.tensor(layout.lengths or (ell,) * B, device=g.device)
    rows = torch.repeat_interleave(torch.arange(B, device=g.device), lengths)
    norms = g.new_zeros(B).index_add(0, rows, g.square().sum(dim=1)).sqrt()
    return torch.where(norms == 0, 1, norms)[rows, None]


@contextmanager
def _moving(model: Transformer[Hyper], move: Move) -> Iterator[None]:
    model.move = move
    try:
        yield
    finally:
        model.move = None
