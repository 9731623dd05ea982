"""A task: which model learns what, from which records, by which loss, and what it can do then. No torch: help is printed from this."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from transalg.data.builtin import Kind
from transalg.data.sources import TooLong
from transalg.hyper import Hyper

if TYPE_CHECKING:
    from torch import Tensor

    from transalg.data.rows import Batch, RowSource
    from transalg.data.shuffle import Index
    from transalg.data.store import Store
    from transalg.model.transformer import Transformer
    from transalg.tasks.examples import Example
    from transalg.tokenization import KindOfText

Ability = Literal["generate", "predict", "fill", "classify", "embed", "score", "play", "caption"]
Inputs = tuple[Any, ...]  # tensors, then row lengths, in the order in which the task's loss takes them
Model = TypeVar("Model", bound="Transformer[Hyper]")
SMALL_START = {"tied": True, "init_std": 0.02, "init_residual": True}  # tied weights, small at first, as in GPT-2: models learn faster so
SPLIT_SEED = 0  # whatever the seed of a run, the same records validate
HIGHER = {"loss": False, "accuracy": True, "exact_match": True, "bleu": True}  # the figures, and whether a higher one is better
DECODED = ("exact_match", "bleu")  # the figures of predicted texts


def better(select: str, figures: Mapping[str, float], best: Mapping[str, float] | None) -> bool:
    """Whether a validation is better than the best one before by the selected figure; the lower loss decides a tie.

    >>> better("accuracy", {"val_accuracy": 0.5, "val_loss": 2.0}, {"val_accuracy": 0.4, "val_loss": 1.0})
    True
    """
    if best is None:
        return True
    name = f"val_{select}"
    if name in figures and name in best and figures[name] != best[name]:
        return (figures[name] > best[name]) == HIGHER[select]
    return figures["val_loss"] < best["val_loss"]


class Task(ABC, Generic[Model]):
    """A value that says all that is particular to a task. A new task is a subclass in a file of its own, and a line in `transalg.tasks.TASKS`."""

    name: ClassVar[str]
    learns: ClassVar[str]  # what the model learns to do, for help
    algorithms: ClassVar[tuple[int, ...]]  # of the paper, besides 1–7: what `trace` can show of a trained model

    hyper_class: ClassVar[type[Hyper]]  # and by it the class of the model
    sizes: ClassVar[Mapping[str, object]]  # default hyperparameters; without ell_max, the data decides
    head: ClassVar[tuple[str, ...]] = ()  # those of its own head, which a model of another task does not bring

    head_parameters: ClassVar[tuple[str, ...]] = ()  # and their names: fine-tuning begins with random ones

    records: ClassVar[Kind]
    columns: ClassVar[tuple[str, ...]]  # the options that name the columns of a table
    longest: ClassVar[int] = 1024  # ℓ_max that is chosen from the data is at most this
    too_long: ClassVar[TooLong] = "error"  # what happens to longer records unless chosen
    lowercase: ClassVar[bool] = False  # whether a vocabulary of words has them in lower case, unless chosen
    overlap: ClassVar[int] = 0  # tokens that two neighbouring chunks of a document share
    augmented_stream: ClassVar[str | None] = None  # what noise and token_drop may change; None: the model predicts what it reads

    batch_size: ClassVar[int] = 32  # default options of training
    batch_tokens: ClassVar[int | None] = None  # of tokens, where rows differ too much
    steps: ClassVar[int | None] = None  # default length of training, in steps or in epochs
    epochs: ClassVar[float | None] = None
    fewest_steps: ClassVar[int] = 0  # of the default length: few data are passed over more often
    eta: ClassVar[Mapping[str, float]] = {}  # default learning rates by optimiser, where they are not the optimiser's own
    figures: ClassVar[tuple[str, ...]] = ("val_loss",)  # of a validation
    selects: ClassVar[tuple[str, ...]] = ("loss",)  # the figures that can decide which model is best

    abilities: ClassVar[tuple[Ability, ...]]
    mixes: ClassVar[bool] = False  # it learns several data sets, by weights
    has_heads: ClassVar[bool] = False  # and has a head for each
    bidirectional: ClassVar[bool] = False  # a token is predicted from those on both sides of it

    def abilities_of(self, hyper: Hyper) -> "tuple[Ability, ...]":
        """What a trained model with these hyperparameters can do: all that the task says, unless it lacks a part."""
        return self.abilities

    @property
    def has_context(self) -> bool:
        """Whether a text x comes with another text, its context z."""
        return self.records == "pairs"

    @property
    def has_labels(self) -> bool:
        """Whether a text comes with its class."""
        return self.records == "labelled"

    def bound(self, labels: Sequence[str]) -> "Task[Model]":
        """The task of a run with these classes."""
        return self

    def default_tokenizer(self, vocab_size: int | None, texts: "KindOfText") -> str:
        """The kind of vocabulary that is made if none is chosen, for texts of this kind."""
        return "bpe" if vocab_size else "char"

    def defaults(self, tokenizer: str) -> dict[str, Any]:
        """The hyperparameters of a model with this kind of vocabulary, unless they are chosen."""
        return dict(self.sizes)

    def adapt(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The hyperparameters of another model, changed where a model of this task has to differ from it."""
        return fields

    def limits(self, ell_max: int) -> dict[str, int]:
        """The longest row of each stream, in tokens."""
        return {"x": ell_max}

    def rows(
        self,
        store: "Store",
        ell_max: int,
        where: Callable[[int], str],
        *,
        pack: bool = False,
        too_long: TooLong = "error",
        share: tuple[float, float] | None = None,
    ) -> "tuple[RowSource, RowSource | None]":
        """The records as rows that a model can take: for training, and the share of them that validates, if there is one.

        Documents are cut into chunks; other records keep their bounds. `where` names the place of a record that is too long.
        """
        from transalg.data.rows import chunks, whole_records

        limits = self.limits(ell_max)
        if self.records == "documents":
            return chunks(store, limits["x"], self.overlap, pack=pack, validation_range=share, seed=SPLIT_SEED)
        return whole_records(store, limits, where, too_long=too_long, validation_range=share, seed=SPLIT_SEED)

    def drawn(self, rows: "RowSource", weights: Mapping[str, float]) -> "RowSource":
        """What an epoch trains on: the rows, or a mixture of data sets by their weights."""
        return rows

    @abstractmethod
    def example(self, batch: "Batch", hyper: Hyper, seed: int, rows: "Index | None" = None) -> "Example":
        """A batch as the loss takes it. What is random depends on the seed; if the rows' indices are given, on the seed and each row's index
        alone, whichever batch the row is in."""

    @abstractmethod
    def loss(self, model: Model, inputs: Inputs, *, weight: float | None = None, label_smoothing: float | None = None) -> "Tensor":
        """weight · Σ −log P̂ over what is to be predicted; see `transalg.tasks.losses`."""

    @abstractmethod
    def log_probabilities(self, models: Sequence[Model], inputs: Inputs) -> "tuple[Tensor, Tensor]":
        """log P̂ of every target, the mean P̂ of several models, and whether it is the most probable."""

    def select(self, targets: "KindOfText") -> str:
        """The figure that decides which model is best, unless one is chosen, by what the texts that a model is to write are made of."""
        return self.selects[0]

    def figure_sums(self, model: Model, inputs: Inputs) -> "Tensor":
        """What `mean_figures` makes the figures of, each as a sum over a batch: the figures themselves, unless a task needs others."""
        return self.loss(model, inputs, weight=1.0, label_smoothing=0.0)[None]

    @property
    def sums(self) -> int:
        """How many numbers `figure_sums` gives."""
        return len(self.figures)

    def mean_figures(self, sums: Sequence[float], count: int) -> dict[str, float]:
        """The figures of a validation from the sums over all batches, which have so many predictions."""
        return {name: value / max(1, count) for name, value in zip(self.figures, sums, strict=True)}
