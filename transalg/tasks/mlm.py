"""mlm: an encoder-only transformer learns to fill masks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transalg.hyper import EHyper, Hyper
from transalg.hyper.head import ENCODER_HEADS
from transalg.tasks.task import SMALL_START, Ability, Inputs, Task

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch
    from transalg.data.shuffle import Index
    from transalg.model import ETransformer
    from transalg.tasks.examples import Example
    from transalg.tokenization import KindOfText


class MaskedLanguageModel(Task["ETransformer"]):
    """Algorithm 9, trained by Algorithm 12: masked tokens from all the others."""

    name = "mlm"
    learns = "to fill masks"
    algorithms = (9, 12)
    hyper_class = EHyper
    sizes = {"L": 2, "H": 4, "d_e": 128, "ell_max": 128, "positions": "rotary", "norm_first": True, **SMALL_START}
    records = "documents"
    columns = ("text_column",)
    lowercase = True
    steps = 1000
    eta = {"muon": 0.003}
    abilities = ("fill", "embed", "score")
    bidirectional = True

    def abilities_of(self, hyper: Hyper) -> tuple[Ability, ...]:
        """An encoder without a head was not made to fill masks."""
        assert isinstance(hyper, EHyper)
        return self.abilities if ENCODER_HEADS[hyper.head].projects else ("embed",)

    def default_tokenizer(self, vocab_size: int | None, texts: "KindOfText") -> str:
        return "bpe" if texts == "unspaced" else "word"

    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "Example":
        import torch

        from transalg.tasks.examples import Example, stream
        from transalg.tasks.masking import mask, mask_by_row

        assert isinstance(hyper, EHyper)
        x, lengths = stream(batch, "x")
        if rows is None:
            x_tilde, chosen = mask(x, hyper, lengths, torch.Generator().manual_seed(seed))
        else:
            x_tilde, chosen = mask_by_row(x, hyper, lengths, seed, rows.tolist())
        return Example((x, x_tilde, chosen), (lengths,), int(chosen.sum()))

    def loss(self, model: "ETransformer", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        from transalg.tasks.losses import E_loss

        return E_loss(model, *inputs, weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[ETransformer]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import log_probabilities, masked_tokens

        return log_probabilities(models, [masked_tokens(model, *inputs) for model in models])
