"""multi: an encoder learns several data sets at once, with a head for each (§8)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from transalg.data.datasets import blocks
from transalg.data.sources import TooLong
from transalg.tasks.classify import Classification
from transalg.tasks.task import SPLIT_SEED, Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from transalg.data.rows import RowSource
    from transalg.data.store import Store
    from transalg.model import Classifier


class MultiTask(Classification):
    """The classifier with its classes in blocks, one for each data set; the softmax of a text is over the block of its data set."""

    name = "multi"
    learns = "to name the classes of several data sets at once"
    mixes = True
    has_heads = True

    def __init__(self, heads: Mapping[str, range] | None = None) -> None:
        self.heads = dict(heads or {})

    def bound(self, labels: Sequence[str]) -> "MultiTask":
        heads = blocks(labels)
        for name, block in heads.items():
            if len(block) < 2:
                raise ValueError(f"{name}: expected texts of at least 2 classes, got one, {labels[block[0]].partition('/')[2]!r}")
        return MultiTask(heads)

    def rows(
        self,
        store: "Store",
        ell_max: int,
        where: "Callable[[int], str]",
        *,
        pack: bool = False,
        too_long: TooLong = "error",
        share: tuple[float, float] | None = None,
    ) -> "tuple[RowSource, RowSource | None]":
        """The same share of every data set validates."""
        from transalg.data.mixture import split

        records, _ = super().rows(store, ell_max, where, pack=pack, too_long=too_long)
        return (records, None) if share is None else split(records.rows(), self.heads, share, SPLIT_SEED)

    def drawn(self, rows: "RowSource", weights: Mapping[str, float]) -> "RowSource":
        from transalg.data.mixture import mixture

        return mixture(rows.rows(), self.heads, weights)

    def loss(self, model: "Classifier", inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        from transalg.tasks.losses import C_loss

        return C_loss(model, *inputs, blocks=tuple(self.heads.values()), weight=weight, label_smoothing=label_smoothing)

    def log_probabilities(self, models: "Sequence[Classifier]", inputs: Inputs) -> "tuple[Tensor, Tensor]":
        from transalg.tasks.predictions import block_log_probabilities

        x, c, lengths = inputs
        log_P = block_log_probabilities(models, x, c, tuple(self.heads.values()), lengths)
        return log_P.gather(1, c[:, None])[:, 0], log_P.argmax(dim=1) == c

    @property
    def sums(self) -> int:
        return 3 * len(self.heads)

    def figure_sums(self, model: "Classifier", inputs: Inputs) -> "Tensor":
        """Of each data set the loss, how many texts are right, and how many texts there are."""
        import torch
        import torch.nn.functional as F

        from transalg.tasks.losses import of_blocks

        x, c, lengths = inputs
        sums = list["Tensor"]()
        for logits, true in of_blocks(model(x, lengths), c, tuple(self.heads.values())):
            sums += [F.cross_entropy(logits, true, reduction="sum"), (logits.argmax(dim=1) == true).sum(), torch.tensor(len(true))]
        return torch.stack([each.to(sums[0]) for each in sums])

    def mean_figures(self, sums: Sequence[float], count: int) -> dict[str, float]:
        """The accuracy of each data set, and loss and accuracy as means over the data sets, those without a text left out."""
        means = dict[str, tuple[float, float]]()
        for i, name in enumerate(self.heads):
            loss, right, texts = sums[3 * i : 3 * i + 3]
            if texts:
                means[name] = loss / texts, right / texts
        mean = [sum(each) / len(means) for each in zip(*means.values(), strict=True)]
        return dict(zip(self.figures, mean, strict=True)) | {f"val_accuracy_{name}": accuracy for name, (_, accuracy) in means.items()}
