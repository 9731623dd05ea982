"""lm: a decoder-only transformer learns to continue text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transalg.hyper import DHyper, Hyper
from transalg.tasks.task import SMALL_START, Inputs, Task

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch
    from transalg.data.shuffle import Index
    from transalg.model import DTransformer
    from transalg.tasks.examples import Example


class LanguageModel(Task["DTransformer"]):
    """Algorithm 10, trained by Algorithm 13: every token from those before it."""

    name = "lm"
    learns = "to continue text"
    algorithms = (10, 13, 14)
    hyper_class = DHyper
    sizes = {"L": 4, "H": 4, "d_e": 128, "ell_max": 128, "positions": "rotary", **SMALL_START}
    records = "documents"
    columns = ("text_column",)
    overlap = 1
    steps = 1000
    eta = {"muon": 0.015}
    abilities = ("generate", "embed", "score")

    def limits(self, ell_max: int) -> dict[str, int]:
        return {"x": ell_max + 1}  # ℓ_max tokens to read, and the one after the last of them

    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "Example":
        from transalg.tasks.examples import Example, stream

        x, lengths = stream(batch, "x")
        return Example((x,), (lengths,), int((lengths - 1).sum()))

    def loss(self, model: "DTransformer", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        from transalg.tasks.losses import D_loss

        return D_loss(model, *inputs, weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[DTransformer]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import log_probabilities, next_tokens

        return log_probabilities(models, [next_tokens(model, *inputs) for model in models])
