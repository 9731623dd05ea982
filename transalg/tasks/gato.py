"""gato: one decoder learns to act, to caption and to write, from episodes of several tasks."""

from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING

from transalg.hyper import GatoHyper, Hyper
from transalg.tasks.task import SMALL_START, Inputs, Task

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch
    from transalg.data.shuffle import Index
    from transalg.model import Gato
    from transalg.tasks.examples import MixedExample
    from transalg.tokenization import KindOfText

SOLVED = 0.01  # a loss that need not become smaller


class GeneralistAgent(Task["Gato"]):
    """Gato, trained by GatoTraining: every token of text and every action, from all tokens before it."""

    name = "gato"
    learns = "to act, to caption images and to continue text, all with one model"
    algorithms = ()
    hyper_class = GatoHyper
    sizes = {"L": 3, "H": 4, "d_e": 128, "ell_max": 128, "positions": "rotary", "activation": "GEGLU", "init_smooth": 32.0, **SMALL_START}
    records = "episodes"
    columns = ()
    batch_tokens = 1024
    steps = 10_000
    eta = {"muon": 0.003}
    abilities = ("play", "caption", "generate")
    mixes = True

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = tuple(names)  # of the tasks that one model learns

    def bound(self, labels: Sequence[str]) -> "GeneralistAgent":
        return GeneralistAgent(labels)

    def default_tokenizer(self, vocab_size: int | None, texts: "KindOfText") -> str:
        return "bpe"

    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "MixedExample":  # type: ignore[override]
        """Patches stand at random places of their intervals in training, at the middle ones to validate."""
        import torch

        from transalg.model import MixedBatch
        from transalg.tasks.examples import MixedExample

        assert isinstance(hyper, GatoHyper) and batch.classes is not None
        mixed = MixedBatch.of(batch.sequences)
        if rows is None:
            mixed = mixed.drawn(hyper.N_grid, torch.Generator().manual_seed(seed))
        return MixedExample(mixed, torch.from_numpy(batch.classes), float(mixed.next_weights().sum(dtype=torch.float64)))

    def loss(self, model: "Gato", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        from transalg.tasks.losses import Gato_loss

        return Gato_loss(model, inputs[0], weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[Gato]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import log_probabilities, next_mixed_tokens

        return log_probabilities(models, [next_mixed_tokens(model, inputs[0]) for model in models])

    @property
    def sums(self) -> int:
        return 3 * len(self.names)

    def figure_sums(self, model: "Gato", inputs: Inputs) -> "Tensor":
        """Of each task the loss, the predictions that are right, and all of them: each is a sum of weights."""
        import torch

        from transalg.tasks.predictions import log_probabilities, next_mixed_tokens

        batch, tasks = inputs
        predictions = next_mixed_tokens(model, batch)
        log_p, right = log_probabilities([model], [predictions])
        of_tokens = tasks.to(log_p.device)[:, None].expand(batch.shape)
        weights, task = (predictions.layout.unpad(each) for each in (batch.next_weights().double(), of_tokens))  # in the layout's own order
        weights, task = weights[weights > 0], task[weights > 0]
        sums = torch.zeros(len(self.names), 3, dtype=torch.float64, device=log_p.device)
        return sums.index_add(0, task, weights[:, None] * torch.stack([-log_p, right.double(), torch.ones_like(log_p)], dim=1)).flatten()

    def mean_figures(self, sums: Sequence[float], count: int) -> dict[str, float]:
        """The loss of each task, and their geometric mean; tasks without a prediction left out.

        The loss of prose is a hundred times that of a world which is solved, and a sum would be of prose alone. Losses below SOLVED count alike.
        """
        losses = {name: sums[3 * i] / sums[3 * i + 2] for i, name in enumerate(self.names) if sums[3 * i + 2]}
        if not losses:
            raise ValueError(
                "data: expected text or an action to predict in the episodes of the split valid, got none; hold out more of them"
            )
        mean = exp(sum(log(max(loss, SOLVED)) for loss in losses.values()) / len(losses))
        return {"val_loss": mean} | {f"val_loss_{name}": loss for name, loss in losses.items()}
