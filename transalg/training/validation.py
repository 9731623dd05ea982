"""Validation: the figures of a model on data that it is not trained on, within a tenth of the work of training."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from transalg.data.rows import AnyRows
from transalg.data.shuffle import Index, permuted
from transalg.hyper import Hyper
from transalg.inference.beams import predict
from transalg.model import EDTransformer
from transalg.tasks import Task
from transalg.tasks.evaluation import evaluation_examples
from transalg.tasks.task import SPLIT_SEED
from transalg.tokenization import Tokenizer
from transalg.training.processes import World

BUDGET = 0.1  # what validation may cost, as a fraction of training
FORWARD, WRITING = 1 / 3, 2.0  # the cost of a token that is read and of one that is written; of one that is trained on, 1
LOOK = 2**14  # rows that a mean length is taken from
SAMPLE, LENGTHS = 1, 2  # what a permutation is for
ALWAYS = 2**19  # tokens' worth of training that the last validation may always cost, however short the run


@dataclass(frozen=True)
class ValidationSample:
    """The rows of the validation set on which a model is validated while it is trained; None: all of them."""

    read: Index | None  # for the loss and the accuracy
    written: Index | None  # for exact match and BLEU, which need predictions


def mean_tokens(rows: AnyRows) -> float:
    """The mean length of a row, of at most `LOOK` rows."""
    return float(rows.lengths(fixed_sample(len(rows), min(len(rows), LOOK), LENGTHS)).mean())


def fixed_sample(n: int, count: int, purpose: int = SAMPLE) -> Index:
    """So many of n rows, in order; a larger sample contains a smaller one, and no seed of a run changes it."""
    return np.sort(permuted(np.arange(count), n, SPLIT_SEED, purpose))


def validation_sample(rows: AnyRows, trained_tokens: float, *, decoded: bool, least: int) -> ValidationSample:
    """The sample for a run that trains on so many tokens between two validations; at least `least` rows.

    All rows, if they cost at most a tenth of that training. Otherwise as many as cost a twentieth: the rest is for the end.
    The cost is counted in tokens, not measured, so that it is the same on every machine. Reading and writing get a half each.
    """
    budget = BUDGET * trained_tokens / (2 if decoded else 1)
    longest = longest_target(rows) if decoded else 0
    costs = FORWARD * mean_tokens(rows), WRITING * longest
    return ValidationSample(*(_affordable(len(rows), cost, budget, least) for cost in costs))


def last_sample(rows: AnyRows, trained_tokens: float, *, least: int) -> ValidationSample:
    """The rows for the last validation of a run that trains on so many tokens: all, unless they cost more than a twentieth of it; then as many."""
    return ValidationSample(_affordable(len(rows), FORWARD * mean_tokens(rows), max(ALWAYS, BUDGET / 2 * trained_tokens), least, 1.0), None)


def validation_cost(rows: AnyRows, sample: ValidationSample, *, decoded: bool) -> float:
    """What a validation on the sample costs, in tokens that are trained on."""
    read, written = (len(rows) if each is None else len(each) for each in (sample.read, sample.written))
    return FORWARD * read * mean_tokens(rows) + (WRITING * written * longest_target(rows) if decoded else 0)


def _affordable(n: int, cost: float, budget: float, least: int, share: float = 0.5) -> Index | None:
    """None for all n rows, if they cost at most the budget; otherwise as many as cost this share of it."""
    count = max(least, int(budget * share / cost)) if cost else n
    return None if n * cost <= budget or count >= n else fixed_sample(n, count)


def longest_target(rows: AnyRows) -> int:
    """The longest x to be written, in tokens without bos, of at most `LOOK` rows."""
    return max(1, int(rows.batch(fixed_sample(len(rows), min(len(rows), LOOK), LENGTHS)).streams["x"][1].max()) - 1)


@torch.no_grad()
def validate(
    objective: nn.Module,
    task: Task[Any],
    rows: AnyRows,
    hyper: Hyper,
    world: World,
    autocast: AbstractContextManager[object],
    which: Index | None = None,
) -> dict[str, float]:
    """The task's figures, means over all predictions in all rows, or in those that are named."""
    training = objective.training
    objective.eval()
    sums = torch.zeros(task.sums, dtype=torch.float64)
    count = 0
    for _, example in evaluation_examples(task, rows, hyper, which):
        count += example.count
        inputs, has_rows = example.part(world.rank, world.size, world.device)
        with autocast:
            sums += objective(*inputs, figures=True).cpu().double() * has_rows
    objective.train(training)
    world.total(sums)
    return task.mean_figures(sums.tolist(), count)


def decoded_figure(
    name: str, model: EDTransformer, task: Task[Any], rows: AnyRows, world: World, tokenizer: Tokenizer, which: Index | None = None
) -> float:
    """exact_match or bleu of greedy decoding; the first process's, for all."""
    training = model.training
    model.eval()
    guesses, truths = list[list[int]](), list[list[int]]()
    ell_gen = longest_target(rows)
    for _, example in evaluation_examples(task, rows, model.hyper, which):
        (z, x, z_lengths, x_lengths), _ = example.part(0, 1, world.device)
        sources = [row[:end].tolist() for row, end in zip(z, z_lengths, strict=True)]
        guesses += predict(model, sources, ell_gen=ell_gen, generator=torch.Generator())
        truths += [row[1 : end - 1].tolist() for row, end in zip(x, x_lengths, strict=True)]
    model.train(training)
    value = {"exact_match": _exact_match, "bleu": _bleu}[name](guesses, truths, tokenizer)
    return float(world.total(torch.tensor([value * world.first], dtype=torch.float64)))


def _exact_match(guesses: Sequence[Sequence[int]], truths: Sequence[Sequence[int]], tokenizer: Tokenizer) -> float:
    return sum(ours == theirs for ours, theirs in zip(guesses, truths, strict=True)) / len(truths)


def _bleu(guesses: Sequence[Sequence[int]], truths: Sequence[Sequence[int]], tokenizer: Tokenizer) -> float:
    import sacrebleu

    texts, references = ([tokenizer.decode(list(ids)) for ids in each] for each in (guesses, truths))
    return float(sacrebleu.corpus_bleu(texts, [references], force=True).score)
