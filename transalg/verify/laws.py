"""The equalities and invariances that make a model trustworthy, each as a number: how far it is from holding."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value

from transalg.cpu import pack
from transalg.formal.theta import TransformerTheta
from transalg.hyper import Hyper
from transalg.model import Cache, EDTransformer, Model
from transalg.model.counterpart import formal_counterpart
from transalg.verify.batches import Batch
from transalg.verify.batches import Decoding as DecodingModel

# Engine = formal -------------------------------------------------------------------------------------------------------


def formal_log_probabilities(hyper: Hyper, batch: Batch, theta: TransformerTheta, *, training: bool = False) -> list[Tensor]:
    """What the formal algorithm says, row by row."""
    algorithm = formal_counterpart(hyper, training=training)
    return [algorithm(*_in_order(row, theta)).log() for row in batch.formal_rows(hyper)]


def _in_order(row: dict[str, Any], theta: TransformerTheta) -> list[object]:
    """z, x, θ, s: the order of the formal algorithms."""
    return [*(row[name] for name in ("z", "x") if name in row), theta, *(row[name] for name in ("s",) if name in row)]


def errors(model: Model, batch: Batch, generator: torch.Generator) -> tuple[float, float, float]:
    """The largest difference between engine and formal: of P, of log P, and of the gradients of a random combination of log P.

    A model in training is compared with its formal algorithm in training, where batch_norm takes all tokens of a row: one row then.
    """
    theta = model.theta()
    ours = batch.log_probabilities(model)
    weights = [torch.randn(part.shape, generator=generator, dtype=torch.float64) / part.shape[-1] for part in ours]
    model.zero_grad(set_to_none=True)
    torch.autograd.backward(_combine(ours, weights))
    gradient = model.theta_gradient()
    model.zero_grad(set_to_none=True)

    def loss(theta: TransformerTheta) -> tuple[Tensor, list[Tensor]]:
        theirs = formal_log_probabilities(model.hyper, batch, theta, training=model.training)
        return _combine(theirs, weights), theirs

    formal_gradient, (_, theirs) = grad_and_value(loss, has_aux=True)(theta)
    of_P = _largest_difference([part.double().exp() for part in ours], [part.exp() for part in theirs])
    of_gradient = _largest_difference(list(gradient.named().values()), list(formal_gradient.named().values()))
    return of_P, _largest_difference(ours, theirs), of_gradient


def _combine(parts: list[Tensor], weights: list[Tensor]) -> Tensor:
    return torch.stack([(part * weight.to(part)).sum() for part, weight in zip(parts, weights, strict=True)]).sum()


def _largest_difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference, divided by the largest of the numbers if that is more than 1; ∞ where one is not a number."""
    differences = [(one.detach() - other.detach().to(one)).abs().max().double() for one, other in zip(ours, theirs, strict=True)]
    scale = torch.stack([other.detach().abs().max().double() for other in theirs]).max().clamp(min=1)
    return float((torch.stack(differences).max() / scale).nan_to_num(nan=float("inf")))


# Invariances -----------------------------------------------------------------------------------------------------------


def padding(model: Model, batch: Batch, generator: torch.Generator) -> float:
    """Padding changes nothing, whatever it is, nor the gradients."""
    with_gradients = [_with_gradients(model, each) for each in (batch, batch.disturbed(-1), batch.disturbed(2**31))]
    return max(_largest_difference(with_gradients[0], each) for each in with_gradients[1:])


def _with_gradients(model: Model, batch: Batch) -> list[Tensor]:
    log_p = batch.log_probabilities(model)
    model.zero_grad(set_to_none=True)
    torch.autograd.backward(torch.cat([part.flatten() for part in log_p]).square().sum())
    gradients = [torch.zeros_like(part) if part.grad is None else part.grad.clone() for part in model.parameters()]
    model.zero_grad(set_to_none=True)
    return [*log_p, *gradients]


@torch.no_grad()
def composition(model: Model, batch: Batch, generator: torch.Generator) -> float:
    """A row says the same alone as among others."""
    alone = [batch.select([row]).log_probabilities(model)[0] for row in range(len(batch.x))]
    return _largest_difference(batch.log_probabilities(model), alone)


@torch.no_grad()
def order(model: Model, batch: Batch, generator: torch.Generator) -> float:
    """The rows in another order say the same, in that order."""
    shuffled = torch.randperm(len(batch.x), generator=generator).tolist()
    straight = batch.log_probabilities(model)
    return _largest_difference(batch.select(shuffled).log_probabilities(model), [straight[row] for row in shuffled])


@torch.no_grad()
def cache(model: DecodingModel, batch: Batch, generator: torch.Generator) -> float:
    """Decoding token by token, every row at its own pace, says at every position what one pass says."""
    return _decoded(model, batch, generator, widest=1)


@torch.no_grad()
def prefill(model: DecodingModel, batch: Batch, generator: torch.Generator) -> float:
    """So does decoding in pieces of any size, and all at once."""
    longest = max(batch.x_lengths)
    return max(_decoded(model, batch, generator, widest=3), _decoded(model, batch, generator, widest=longest, everything=True))


@torch.no_grad()
def reorder(model: DecodingModel, batch: Batch, generator: torch.Generator) -> float:
    """And so does the cache after its rows were reordered, some doubled and some dropped, as beams do."""
    B = len(batch.x)
    half = [length // 2 for length in batch.x_lengths]
    rows = torch.randint(B, (B,), generator=generator).tolist()
    state = _new_cache(model, batch)
    if max(half):
        batch.decode(model, state, half)
    state.reorder(rows)
    picked = batch.select(rows)
    rest = [length - length // 2 for length in picked.x_lengths]
    log_p = picked.decode(model, state, rest).log_softmax(dim=-1)
    expected = [part[:, -count:] for part, count in zip(picked.log_probabilities(model), rest, strict=True)]
    return _largest_difference([row[:count].mT for row, count in zip(log_p, rest, strict=True)], expected)


@torch.no_grad()
def single_row(model: DecodingModel, batch: Batch, generator: torch.Generator) -> float:
    """And so does each row by itself, token by token, as `generate` writes one text."""
    short, log_p = pack(model, 1), []
    for row in range(len(batch.x)):
        one = batch.select([row])
        state = _new_cache(short, one)
        logits = [one.decode(short, state, [1], last=True) for _ in range(one.x_lengths[0])]
        log_p.append(torch.cat(logits).log_softmax(dim=-1).mT)
    return _largest_difference(log_p, batch.log_probabilities(model))


def _new_cache(model: DecodingModel, batch: Batch) -> Cache:
    if isinstance(model, EDTransformer):
        assert batch.z is not None
        return model.cache(batch.z, batch.z_lengths, ell=max(batch.x_lengths))
    return model.cache(len(batch.x), ell=max(batch.x_lengths))


def _decoded(model: DecodingModel, batch: Batch, generator: torch.Generator, *, widest: int, everything: bool = False) -> float:
    """Rows take random numbers of tokens at a time, 0 to widest, or everything at once, until all are done."""
    state = _new_cache(model, batch)
    pieces: list[list[Tensor]] = [[] for _ in batch.x_lengths]
    while state.lengths != list(batch.x_lengths):
        left = [length - have for length, have in zip(batch.x_lengths, state.lengths, strict=True)]
        pace = [widest if everything else int(torch.randint(widest + 1, (), generator=generator)) for _ in left]
        counts = [min(one, other) for one, other in zip(left, pace, strict=True)]
        if not any(counts):
            continue
        log_p = batch.decode(model, state, counts).log_softmax(dim=-1)
        for row, count in enumerate(counts):
            pieces[row].append(log_p[row, :count])
    return _largest_difference([torch.cat(parts).mT for parts in pieces], batch.log_probabilities(model))


EVERY: dict[str, Callable[[Model, Batch, torch.Generator], float]] = {"padding": padding, "batch": composition, "order": order}
DECODING: dict[str, Callable[[DecodingModel, Batch, torch.Generator], float]] = {
    "cache": cache,
    "prefill": prefill,
    "reorder": reorder,
    "alone": single_row,
}


def invariances(model: Model, batch: Batch, generator: torch.Generator) -> dict[str, float]:
    """How far each of the invariances that a model has to keep is from holding, by name."""
    errors = {name: law(model, batch, generator) for name, law in EVERY.items()}
    if isinstance(model, DecodingModel):
        errors |= {name: law(model, batch, generator) for name, law in DECODING.items()}
    return errors
