"""classify: an encoder learns to name the class of a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transalg.hyper import ClassifierHyper, Hyper
from transalg.tasks.task import Inputs, Task

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch
    from transalg.data.shuffle import Index
    from transalg.model import Classifier
    from transalg.tasks.examples import Example
    from transalg.tokenization import KindOfText


class Classification(Task["Classifier"]):
    """The encoder of Algorithm 9, with classes read off one vector of the text (§3)."""

    name = "classify"
    learns = "to name the class of a text"
    algorithms = (9,)
    hyper_class = ClassifierHyper
    sizes = {
        "L": 1,
        "H": 4,
        "d_e": 128,
        "norm_first": True,
        "init_std": 0.02,
        "pooling": "mean",
        "dropout": 0.5,
        "label_smoothing": 0.1,
    }
    head = ("pooling",)
    head_parameters = ("W_c", "b_c")
    records = "labelled"
    longest = 256
    too_long = "cut"
    lowercase = True
    columns = ("text_column", "label_column")
    augmented_stream = "x"
    epochs = 6.0
    fewest_steps = 600
    figures = ("val_loss", "val_accuracy")
    selects = ("accuracy", "loss")
    abilities = ("classify", "embed")
    bidirectional = True

    def default_tokenizer(self, vocab_size: int | None, texts: "KindOfText") -> str:
        return "bpe" if texts == "unspaced" else "word"

    def adapt(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"tied": False, "output_bias": False}  # it has no W_u

    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "Example":
        import torch

        from transalg.tasks.examples import Example, stream

        x, lengths = stream(batch, "x")
        assert batch.classes is not None
        return Example((x, torch.from_numpy(batch.classes)), (lengths,), len(x))

    def loss(self, model: "Classifier", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        from transalg.tasks.losses import C_loss

        return C_loss(model, *inputs, weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[Classifier]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import class_log_probabilities

        x, c, lengths = inputs
        log_P = class_log_probabilities(models, x, lengths)
        return log_P.gather(1, c[:, None])[:, 0], log_P.argmax(dim=1) == c

    def figure_sums(self, model: "Classifier", inputs: Inputs) -> "Tensor":
        import torch
        import torch.nn.functional as F

        x, c, lengths = inputs
        logits = model(x, lengths)
        return torch.stack([F.cross_entropy(logits, c, reduction="sum"), (logits.argmax(dim=1) == c).sum()])
