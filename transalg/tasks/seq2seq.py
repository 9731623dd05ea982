"""seq2seq: an encoder–decoder transformer learns to turn one text into another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transalg.hyper import EDHyper, Hyper
from transalg.tasks.task import SMALL_START, Inputs, Task

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch
    from transalg.data.shuffle import Index
    from transalg.model import EDTransformer
    from transalg.tasks.examples import Example
    from transalg.tokenization import KindOfText


class SequenceToSequence(Task["EDTransformer"]):
    """Algorithm 8, trained by Algorithm 11: every token of x from those before it and from z."""

    name = "seq2seq"
    learns = "to turn one text into another"
    algorithms = (8, 11, 15)
    hyper_class = EDHyper
    sizes = {
        "L_enc": 3,
        "L_dec": 3,
        "H": 4,
        "d_e": 128,
        "positions": "rotary",
        "norm_first": True,
        "dropout": 0.1,
        "label_smoothing": 0.1,
        **SMALL_START,
    }
    records = "pairs"
    columns = ("source_column", "target_column")
    augmented_stream = "z"
    batch_size = 64
    epochs = 30.0
    selects = ("exact_match", "bleu", "loss")
    abilities = ("predict", "embed", "score")

    def default_tokenizer(self, vocab_size: int | None, texts: "KindOfText") -> str:
        if vocab_size and texts != "symbols":
            return "bpe"
        return {"symbols": "word", "sentences": "bpe"}.get(texts, "char")

    def defaults(self, tokenizer: str) -> dict[str, Any]:
        """Sentences can be put in many ways; of symbols and characters, one is right, and its probability should be 1."""
        return super().defaults(tokenizer) | ({} if tokenizer == "bpe" else {"label_smoothing": 0.0})

    def limits(self, ell_max: int) -> dict[str, int]:
        return {"z": ell_max, "x": ell_max + 1}  # of x, ℓ_max tokens to read, and the one after the last of them

    def select(self, targets: "KindOfText") -> str:
        return "bleu" if targets == "sentences" else "exact_match"

    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "Example":
        from transalg.tasks.examples import Example, stream

        z, z_lengths = stream(batch, "z")
        x, x_lengths = stream(batch, "x")
        return Example((z, x), (z_lengths, x_lengths), int((x_lengths - 1).sum()), widths=(0, 1))

    def loss(
        self, model: "EDTransformer", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None
    ) -> "Tensor":
        from transalg.tasks.losses import ED_loss

        return ED_loss(model, *inputs, weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[EDTransformer]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import log_probabilities, next_tokens_of_pairs

        return log_probabilities(models, [next_tokens_of_pairs(model, *inputs) for model in models])
