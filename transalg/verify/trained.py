"""A trained model, compared with the formal algorithms on the text of its own run."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch

from transalg.data.episode_batches import numbered_rows
from transalg.evaluation.measure import held_out
from transalg.inference.decoding import padded
from transalg.inference.run import Run
from transalg.model import MixedBatch, Model
from transalg.runs.config import several
from transalg.tasks import find
from transalg.training.prepare_episodes import folders, validation_rows
from transalg.training.report import Report
from transalg.verify.batches import Batch, draw
from transalg.verify.cases import Case, Verdict
from transalg.verify.laws import errors, invariances

TOKENS = 16  # of a row of episodes: the formal algorithm is slow


def verify(trained: Run, texts: Sequence[str] = (), contexts: Sequence[str] = (), *, rows: int = 3, seed: int = 0) -> Verdict:
    """Compare a copy of the model in float64 with the formal algorithm: values, gradients, invariances.

    On these texts (with their contexts, for a seq2seq model), or on some of the run's validation set, or on random tokens if it has none.
    """
    generator = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(trained.model).double().eval()
    assert isinstance(model, Model)
    if find(trained.task).records == "episodes":
        batch = _episodes(trained, texts, rows)
    elif texts:
        batch = _encoded(trained, texts, contexts)
    elif trained.config.valid or trained.config.share():
        batch = _validation(trained, rows)
    else:
        batch = draw(model.hyper, generator, rows, min(model.hyper.ell_max, 64))
    of_P, _, of_gradients = errors(model, batch, generator)
    case = Case(type(model).__name__, str(trained.folder), model.hyper)
    return Verdict(case, of_P, of_gradients, invariances(model, batch, generator))


def _validation(trained: Run, rows: int) -> Batch:
    """The first rows of the run's validation set."""
    validation = held_out(trained)
    batch = validation.batch(torch.arange(min(rows, len(validation))).numpy())
    ell_max = trained.model.hyper.ell_max
    streams = {
        name: (torch.from_numpy(ids[:, :ell_max]), tuple(min(ell_max, int(length)) for length in lengths))
        for name, (ids, lengths) in batch.streams.items()
    }
    return Batch(*streams["x"], *streams.get("z", (None, None)))


def _episodes(trained: Run, texts: Sequence[str], rows: int) -> Batch:
    """The beginnings of some rows of every task that validates, or of training where none does."""
    if texts:
        raise ValueError(f"text: expected none for a model of {trained.task}, which is compared on its own episodes")
    vocabulary, ell_max = trained.vocabulary, trained.model.hyper.ell_max
    tasks = folders(several(trained.config.data), trained.folder, Report())
    source = validation_rows(tasks, vocabulary, ell_max) or numbered_rows(tasks, vocabulary, ell_max, (1.0,) * len(tasks), 0, prompts=0.0)
    mixed = MixedBatch.of([source.row(n).sequence.part(0, TOKENS) for n in range(max(rows, len(tasks)))])
    mixed = replace(mixed, patches=mixed.patches.double(), intervals=mixed.intervals.double())
    return Batch(mixed.ids, mixed.lengths, mixed=mixed)


def _encoded(trained: Run, texts: Sequence[str], contexts: Sequence[str]) -> Batch:
    has_context = find(trained.task).has_context
    if len(contexts) != (len(texts) if has_context else 0):
        raise ValueError(f"context: expected {len(texts) if has_context else 'none'} for a model of {trained.task}, got {len(contexts)}")
    x, lengths = _padded(trained.encode_all(texts, "text", too_long="error"))
    return Batch(
        x, lengths, *_padded(trained.encode_all(contexts, "context", too_long="error", context=True)) if contexts else (None, None)
    )


def _padded(rows: list[list[int]]) -> tuple[torch.Tensor, tuple[int, ...]]:
    ids, _ = padded(rows, torch.device("cpu"))
    return ids, tuple(map(len, rows))
