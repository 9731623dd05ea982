"""A trained model, held against the formal algorithms on the text of its own run."""

import copy

import torch

from transalg.evaluation.measure import held_out
from transalg.inference.run import Run
from transalg.verify.batches import Batch
from transalg.verify.cases import Case, Verdict
from transalg.verify.laws import errors, invariances


def verify(trained: Run, rows: int = 3, seed: int = 0) -> Verdict:
    """Compare a copy of the model in float64 with the formal algorithm, values, gradients and invariances, on held-out rows of data."""
    held = held_out(trained)
    batch = held.batch(torch.arange(min(rows, len(held))).numpy())
    ell_max = trained.model.hyper.ell_max
    streams = {
        name: (torch.from_numpy(ids[:, :ell_max]), tuple(min(ell_max, int(length)) for length in lengths))
        for name, (ids, lengths) in batch.streams.items()
    }
    generator = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(trained.model).double().eval()
    chosen = Batch(*streams["x"], *streams.get("z", (None, None)))
    of_P, _, of_gradients = errors(model, chosen, generator)
    case = Case(type(model).__name__, str(trained.folder), model.hyper)
    return Verdict(case, of_P, of_gradients, invariances(model, chosen, generator))
