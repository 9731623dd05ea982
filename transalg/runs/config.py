"""The options of a run as one frozen value: what the command line and the TOML file say, and the defaults that fill in the rest. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from math import ceil, inf
from typing import Any, Literal, get_args, get_origin

import tomli_w

from transalg.checks import is_integer, within
from transalg.data.datasets import DataSets, dataset_name
from transalg.data.sources import DocumentUnit, Source, TooLong
from transalg.hyper import Hyper, SpecialTokens
from transalg.hyper import find as find_preset
from transalg.hyper.cost import flops_per_token
from transalg.hyper.hyper import DERIVED_SIZES, REGULARISATION, VOCABULARY
from transalg.hyper.mlp import MLPS
from transalg.optimisation.optimisers import OPTIMISERS, WIDTH
from transalg.optimisation.schedules import SCHEDULES
from transalg.runs.synonyms import SYNONYMS
from transalg.tasks import TASKS, Task, find
from transalg.tasks.task import DECODED, HIGHER

DERIVED = ("N_V", "N_C", "special")  # hyperparameters that come from the data and its vocabulary
MINUTES = 30  # of training that the default number of epochs may take on two cores, by its operations
FLOPS = 50e9  # operations a second that two cores do in training; nominal, so that the defaults are the same on every machine
FEWEST = 3.0  # epochs of the default, however long they take
SPLIT = 0.1  # of the data validates
IMPORTED_ETA = 1e-4  # AdamW's η for a model that others trained


STEPS, POSITIVE = "[1, 1000000000]", "(0, 1000000]"  # bounds beyond what any machine has


def option(default: Any, doc: str, choices: Mapping[str, object] | None = None, many: str = "", bounds: str = "") -> Any:
    """A field, its help, and what it may be: the table it is a name of, or its bounds; what each of several values is called, if it may have several."""
    metadata = {"doc": doc, "choices": tuple(choices or ()), "many": many, "bounds": bounds}
    return field(default=default, metadata={name: value for name, value in metadata.items() if value})


def _by_task(value: Callable[[Task[Any]], float | None]) -> str:
    """What each task has for a value, for help: '1000 for lm, mlm'."""
    groups: dict[float, list[str]] = {}
    for name, task in TASKS.items():
        if (of_task := value(task)) is not None:
            groups.setdefault(of_task, []).append(name)
    return "; ".join(f"{of_task:g} for {', '.join(names)}" for of_task, names in groups.items())


def _etas() -> str:
    return "; ".join(
        f"with {name} {row.eta:g}" + (f" ({of_tasks})" if (of_tasks := _by_task(lambda task, name=name: task.eta.get(name))) else "")  # type: ignore[misc]
        for name, row in OPTIMISERS.items()
    )


def _selects() -> str:
    return "; ".join(f"{' or '.join(s for s in task.selects if s != 'loss') or 'loss'} for {name}" for name, task in TASKS.items())


@dataclass(frozen=True, kw_only=True)
class Train:
    """How to train. What is None is chosen by task and size."""

    steps: int | None = option(
        None, f"number of optimiser steps, instead of epochs (default: {_by_task(lambda task: task.steps)})", bounds=STEPS
    )
    epochs: float | None = option(
        None,
        f"passes over the data, instead of steps (default: {_by_task(lambda task: task.epochs)}; fewer where they take over half an hour, more where classify has few data)",
        bounds=POSITIVE,
    )
    batch_size: int | None = option(
        None, f"rows in a batch, over all processes (default: {_by_task(lambda task: task.batch_size)})", bounds="[1, 1000000]"
    )
    batch_tokens: int | None = option(
        None, f"tokens in a batch, instead of rows (default: {_by_task(lambda task: task.batch_tokens)})", bounds=STEPS
    )
    accumulate: int = option(
        1,
        "gradient accumulation: parts of a batch that are computed one by one; saves memory, changes nothing else but batch_norm's batches",
        bounds="[1, 1024]",
    )
    optimizer: str | None = option(
        None,
        "; ".join(f"{name}: {row.help}" for name, row in OPTIMISERS.items())
        + f" (default: muon; adamw with η = {IMPORTED_ETA:g} from an imported model)",
        OPTIMISERS,
    )
    eta: float | None = option(
        None, f"η, the learning rate (default: {_etas()}; all but sgd's smaller for models wider than {WIDTH})", bounds="(0, 1000]"
    )
    fine_tuning: float = option(1.0, "with --init: factor of η for all parameters but those of a classifier's head", bounds="[0, 1000]")
    schedule: str = option(
        "linear",
        "of the learning rate after the warm-up; " + "; ".join(f"{name}: {row.help}" for name, row in SCHEDULES.items()),
        SCHEDULES,
    )
    warmup: int | None = option(None, "steps of linear warm-up (default: a twentieth of all, at most 100)", bounds="[0, 1000000000]")
    final: float = option(0.0, "fraction of η at the last step", bounds="[0, 1]")
    decay: float = option(0.2, "fraction of the steps in which a trapezoid falls", bounds="(0, 1]")
    weight_decay: float = option(0.1, "of matrices; embeddings, norms and biases do not decay", bounds="[0, 1000]")
    beta1: float = option(0.9, "of AdamW", bounds="[0, 1)")
    beta2: float = option(0.99, "of AdamW", bounds="[0, 1)")
    clip: float | None = option(1.0, "gradient clipping: the largest norm of a gradient; 0 for none", bounds="[0, 1000000]")
    loss: Literal["mean", "sum"] = option("mean", "over the predicted tokens of a batch; the paper has the sum")
    noise: float = option(
        0.0, "probability that a token of the input (classify, multi, seq2seq's source) is replaced by a random one", bounds="[0, 1)"
    )
    token_drop: float = option(0.0, "probability that such a token is left out", bounds="[0, 1)")
    adversarial: float = option(
        0.0,
        "ε of adversarial training, for classify and multi: adds the loss at embeddings moved by ε where it grows fastest; twice the work",
        bounds="[0, 1000]",
    )
    shuffle: bool = option(True, "draw a new order of the rows in every epoch")
    shift: bool = option(True, "cut long documents at other places in every epoch")
    seed: int = option(0, "of initialisation, order, dropout and everything else that is random", bounds="[0, 9223372036854775807]")
    eval_every: int | None = option(None, "steps between validations (default: ten in a run)", bounds=STEPS)
    save_every: int | None = option(None, "steps between checkpoints (default: as eval_every)", bounds=STEPS)
    log_every: int = option(10, "steps between lines of metrics.jsonl", bounds=STEPS)
    patience: int | None = option(None, "early stopping: stop after this many validations without an improvement", bounds=STEPS)
    select: str = option(
        "auto",
        f"the figure of the validation that decides which model is best, the lower loss among equals; auto is the task's own: {_selects()}",
        dict.fromkeys(("auto", *HIGHER)),
    )
    device: str = option("auto", "cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one")
    dtype: Literal["auto", "float32", "float64", "bfloat16"] = option(
        "auto", "bfloat16 keeps weights in float32 and computes in bfloat16 (autocast); auto takes it where it is faster, or float32"
    )
    threads: int | None = option(
        None, "CPU threads (default: torch's choice, fewer where other processes use the cores)", bounds="[1, 1024]"
    )
    recompute: bool = option(
        False, "activation checkpointing: compute what is inside a layer again for the gradient; a third more work, much less memory"
    )
    compile: bool = option(False, "torch.compile the model: pays where all rows have one length, as with lm --pack")
    shard: bool = option(False, "with torchrun: shard the model over the processes (FSDP2), with sharded checkpoints")
    tensorboard: bool = option(False, "write TensorBoard's files as well, to RUN/tensorboard; needs `pip install transalg[tensorboard]`")

    def __post_init__(self) -> None:
        _check_types(self, "train.")
        _check_bounds(self, "train.")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("train.epochs: expected steps or epochs, got both")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run."""

    task: str
    data: str | tuple[str, ...] = option(
        "",
        "a file, a folder, or the name of built-in data: pydocs, stdlib, dates; for multi several, each with labels; for gato folders of episodes, or cartpole, pendulum, taxi, glyphs, pydocs",
        many="DATA",
    )
    weights: tuple[float, ...] | None = option(
        None,
        "for multi, how many rows of every batch come from each data set, in their order; for gato, how many tokens (default: equally many)",
        many="FLOAT",
    )
    valid: str | tuple[str, ...] | None = option(
        None, "separate validation data, for multi one for each data set; otherwise a part of --data validates", many="DATA"
    )
    split: float = option(
        SPLIT, "fraction of --data that validates: the end of the text, or some of 100 or more documents; 0 for none", bounds="[0, 1)"
    )
    folds: int | None = option(None, "cross-validation: train this many times, each time validating on another part", bounds="[2, 1000]")
    fold: int | None = option(None, "which of them, from 1", bounds="[1, 1000]")
    preset: str | None = option(None, "one of `transalg presets`; sizes and everything else as published")
    init: str | None = option(None, "fine-tuning: a run to take weights, sizes and tokenizer from")
    tokenizer: str = option(
        "",
        "char, word, bpe, or a tokenizer.json (default: word for classify, multi, mlm and seq2seq of symbols; bpe for gato, seq2seq of sentences and texts without spaces; otherwise char, or bpe with vocab_size)",
    )
    vocab_size: int | None = option(
        None,
        "tokens in the vocabulary, mask, bos and eos included (default: at most 30,000 words; for bpe one for every 700 bytes of text, 1024 to 8192)",
        bounds=VOCABULARY,
    )
    lowercase: bool | None = option(
        None, "read all words in lower case (default: yes for classify, multi and mlm, if the vocabulary has words)"
    )
    text_column: str = option("text", "name of the column or key with the text; in tables also its number, from 1")
    label_column: str = option("label", "name of the column with the class, for classify and multi")
    source_column: str = option("source", "name of the column with the text to read, for seq2seq")
    target_column: str = option("target", "name of the column with the text to write, for seq2seq")
    documents: DocumentUnit = option("file", "what a document is in text files: file, paragraph, or line")
    pack: bool = option(False, "let rows continue from one document into the next, so that all are full")
    too_long: TooLong | None = option(
        None,
        "what to do with pairs and labelled texts longer than ell_max: error, skip, cut (default: cut for classify and multi, error for seq2seq)",
    )
    imported: str = ""  # where the model comes from, if `transalg import` made the run; it has no data then
    model: dict[str, Any] = field(default_factory=dict)
    train: Train = field(default_factory=Train)

    def __post_init__(self) -> None:
        _check_types(self, "")
        task = find(self.task)
        _check_bounds(self, "")
        if self.fold is not None and self.fold > (self.folds or 0):
            raise ValueError(f"fold: expected 1 to the number of folds, got {self.fold}")
        if not self.data and not self.imported:
            raise ValueError("--data: expected a file, a folder, or the name of built-in data, got nothing")
        for name in (*several(self.data), *several(self.valid)):
            if not name.isascii() and name.encode("utf-8", "replace") != name.encode("utf-8", "surrogatepass"):
                raise ValueError(f"--data: expected a name in UTF-8, for config.toml keeps it, got {name!r}; rename the file")
        self._check_sets(task)
        if self.folds and self.valid:
            raise ValueError("--folds: the folds validate on parts of --data, so --valid cannot be given")
        if self.preset and self.init:
            raise ValueError("--preset: expected a preset or --init, got both")
        if self.train.fine_tuning != 1 and not self.init and not self.imported:
            raise ValueError("--train.fine-tuning: expected a run to start from, got none; give --init RUN")
        if (self.train.noise or self.train.token_drop) and task.augmented_stream is None:
            others = " and ".join(name for name, other in TASKS.items() if other.augmented_stream is not None)
            raise ValueError(f"--train.noise, --train.token-drop: for {others}; {self.task} predicts what it reads")
        if self.train.select not in ("auto", *task.selects):
            raise ValueError(f"--train.select: expected auto, {', '.join(task.selects)} for {self.task}, got {self.train.select!r}")
        if self.train.shard and self.train.select in DECODED:
            raise ValueError(f"--train.select: a sharded model does not decode, so {self.train.select} cannot be computed; expected loss")
        if self.train.adversarial and not task.has_labels:
            others = " and ".join(name for name, other in TASKS.items() if other.has_labels)
            raise ValueError(f"--train.adversarial: for {others}; got {self.task}")
        for name in ("shard", "compile"):
            if self.train.adversarial and getattr(self.train, name):
                raise ValueError(
                    f"--train.{name}: expected no --train.adversarial, which takes a gradient inside the forward pass, got both"
                )
        known = [each.name for each in fields(task.hyper_class)]
        for name in self.model:
            if name not in known or name in DERIVED:
                hint = "; it comes from the data" if name in DERIVED else _hint(f"model.{name}", known)
                raise ValueError(
                    f"--model.{name}: a model for {self.task} (Algorithm {task.hyper_class.algorithm}) has no such option{hint}"
                )

    def _check_sets(self, task: Task[Any]) -> None:
        """One data set, or for a task that mixes several of different names, each with its weight."""
        if not task.mixes:
            others = " and ".join(name for name, other in TASKS.items() if other.mixes)
            for name in ("data", "valid"):
                if len(sets := several(getattr(self, name))) > 1:
                    raise ValueError(f"--{name}: expected one for {self.task}, got {len(sets)}; several are for {others}")
            if self.weights is not None:
                raise ValueError(f"--weights: for {others}, which learns several data sets; got {self.task}")
            return
        heads, weights = self.heads, self.weights
        if task.records == "episodes":
            given = {"valid": self.valid, "folds": self.folds, "split": self.split != SPLIT}
            if options := [name for name, value in given.items() if value]:
                raise ValueError(f"--{options[0]}: expected none for {self.task}; the files of episodes say which of them validate")
        for i, head in enumerate(heads):
            if head in heads[:i]:
                first, again = several(self.data)[heads.index(head)], several(self.data)[i]
                raise ValueError(f"--data: expected data sets of different names, got {head} twice, {first} and {again}; rename one")
        if weights is not None and len(weights) != len(heads):
            raise ValueError(f"--weights: expected {len(heads)}, one for each data set ({', '.join(heads)}), got {len(weights)}")
        for head, weight in zip(heads, weights or (), strict=False):
            if not 0 < weight < inf:
                raise ValueError(f"--weights: expected numbers more than 0, got {weight:g} for {head}")
        if self.valid and len(several(self.valid)) != len(heads):
            raise ValueError(f"--valid: expected {len(heads)}, one for each data set ({', '.join(heads)}), got {len(several(self.valid))}")

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the data sets that a task mixes, each of which may have a head; none in others."""
        return tuple(dataset_name(name) for name in several(self.data)) if find(self.task).mixes else ()

    @property
    def shares(self) -> dict[str, float]:
        """The weight of every data set in a task that mixes them."""
        return dict(zip(self.heads, self.weights or (1.0,) * len(self.heads), strict=True))

    @property
    def treats_long(self) -> TooLong:
        """What happens to records that are too long."""
        return self.too_long or find(self.task).too_long

    def source(self, data: str | tuple[str, ...], head: str | None = None) -> Source:
        """How to read some data for this task. In a task with heads they are for this head, or one for each of the run's heads."""
        task = find(self.task)
        columns = tuple(str(getattr(self, column)) for column in task.columns)
        unit = self.documents if task.records == "documents" else "file"
        sources = [Source(name, task.records, columns, unit) for name in several(data)]
        return DataSets.of(sources, self.heads if head is None else (head,)) if task.has_heads else sources[0]

    def share(self) -> tuple[float, float] | None:
        """The part of the data that validates."""
        if self.folds:
            fold = (self.fold or 1) - 1
            return fold / self.folds, (fold + 1) / self.folds
        return None if self.valid or not self.split else (1 - self.split, 1.0)

    def hyper(
        self, N_V: int, longest: int, N_C: int = 0, base: Hyper | None = None, special: SpecialTokens | None = None, tokenizer: str = "bpe"
    ) -> Hyper:
        """The hyperparameters: those of a preset or of the model to start from, or the task's defaults; changed by what `model` says."""
        task = find(self.task)
        defaults = task.defaults(tokenizer)
        kind, names = task.hyper_class, {each.name for each in fields(task.hyper_class)}
        if self.preset:
            base = find_preset(self.preset).hyper
        if base is None:
            resumed = self.init is not None  # then `model` has all that is not None, by the model that the run began with
            values: dict[str, Any] = {"ell_max": ell_max_for(longest, task.longest)} | ({} if resumed else defaults)
        else:
            if not issubclass(kind, type(base)) and not isinstance(base, kind):
                raise ValueError(
                    f"{self.preset or self.init}: a model of Algorithm {base.algorithm}; {self.task} takes Algorithm {kind.algorithm}"
                )
            values = task.adapt({each.name: getattr(base, each.name) for each in fields(base) if each.name in names})
            if self.init and type(base) is not kind:  # another task: what concerns training, or the new head, is this task's own
                values |= {name: value for name, value in defaults.items() if name in (*REGULARISATION, *task.head)}
            if "H" in self.model or "d_e" in self.model:
                values = {name: value for name, value in values.items() if name not in DERIVED_SIZES["d_e"]}
        values |= self.model | {"N_V": N_V, "special": None if special == SpecialTokens.last(N_V) else special}
        values |= {"N_C": N_C} if "N_C" in names else {}
        if "d_e" in self.model or base is None:
            mlp = MLPS.get(str(values.get("activation", kind.paper("activation"))))  # an unknown one is refused below
            values["d_mlp"] = self.model.get("d_mlp", mlp.usual_width(values["d_e"]) if mlp and is_integer(values["d_e"]) else 1)
        return kind(**values)

    def with_optimizer(self, imported: bool = False) -> "Config":
        """The options with an optimiser: Muon, or AdamW with a small η where training starts from an imported model."""
        train = replace(self.train, optimizer=self.train.optimizer or ("adamw" if imported else "muon"))
        if imported and train.optimizer == "adamw" and train.eta is None:
            train = replace(train, eta=IMPORTED_ETA)
        return replace(self, train=train)

    def filled(self, hyper: Hyper, batches: int, rows: int, row_tokens: float) -> tuple["Config", int]:
        """The options with every default filled in, and the number of steps, if an epoch has so many batches and rows of so many tokens."""
        task, train = find(self.task), self.with_optimizer().train
        optimizer = train.optimizer or ""
        if train.steps is None and train.epochs is None:
            train = replace(train, steps=task.steps, epochs=task.epochs and default_epochs(task.epochs, hyper, rows, row_tokens))
            if train.epochs and batches * train.epochs < task.fewest_steps:
                train = replace(train, epochs=round(task.fewest_steps / batches, 1))
        steps = train.steps or max(1, round(batches * (train.epochs or 1)))
        of_task = task.eta.get(optimizer)
        every = train.eval_every or max(1, -(-steps // 10))
        filled = replace(
            train,
            batch_size=train.batch_size or task.batch_size,
            batch_tokens=train.batch_tokens or (task.batch_tokens if train.batch_size is None else None),
            eta=train.eta or OPTIMISERS[optimizer].default_eta(hyper.d_e, of_task),
            warmup=min(100, steps // 20) if train.warmup is None else train.warmup,
            eval_every=every,
            save_every=train.save_every or every,
        )
        sizes = {name: value for name, value in asdict(hyper).items() if name not in DERIVED and value is not None}
        too_long, weights = self.treats_long if task.records in ("pairs", "labelled") else None, tuple(self.shares.values()) or None
        return replace(self, model=sizes, train=filled, too_long=too_long, weights=weights), steps

    def toml(self) -> str:
        """As a TOML file."""
        return tomli_w.dumps(_as_toml(asdict(self)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Config":
        """From what a TOML file or a command line has; a ValueError for names that are none."""
        train, model = data.get("train", {}), data.get("model", {})
        for name, table in (("train", train), ("model", model)):
            if not isinstance(table, dict):
                raise ValueError(f"{name}: expected a table of options, got {table!r}")
        for names, kind, prefix in ((data, cls, ""), (train, Train, "train.")):
            known = [each.name for each in fields(kind)]
            for name in names:
                if name not in known:
                    raise ValueError(f"{prefix}{name}: there is no such option{_hint(prefix + name, known)}")
        find(data.get("task"))
        model = {name: tuple(value) if isinstance(value, list) else value for name, value in model.items()}
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**data | lists | {"train": Train(**train), "model": model})


def several(data: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """One name, or several, or none, as a tuple."""
    return data if isinstance(data, tuple) else (data,) if data else ()


def meant(option: str) -> tuple[str, ...]:
    """The options that one that does not exist may stand for: other software's name for them, or the same name in another table.

    >>> meant("train.lr"), meant("train.dropout"), meant("epochs"), meant("train.eta")
    (('train.eta',), ('model.dropout',), ('train.epochs',), ())
    """
    name = option.rpartition(".")[2]
    models = {each.name for task in TASKS.values() for each in fields(task.hyper_class)} - {*DERIVED}
    tables = {"": {each.name for each in fields(Config)}, "train.": {each.name for each in fields(Train)}, "model.": models}
    same_name = tuple(prefix + name for prefix, known in tables.items() if name in known)
    return () if option in same_name else SYNONYMS.get(name, same_name)


def _hint(option: str, known: Sequence[str]) -> str:
    """How a message about an option that does not exist goes on."""
    name = option.rpartition(".")[2]
    parts = [one for one in known if one.startswith(f"{name}_")]  # L is L_enc and L_dec of an encoder-decoder
    names = meant(option) or parts or get_close_matches(name, known, n=1)
    return f"; did you mean {' or '.join(names)}?" if names else ""


def ell_max_for(longest: int, limit: int) -> int:
    """ℓ_max that is chosen from the data: its longest text, and a quarter more for texts to come, at least 8 tokens, up to a multiple of 8.

    >>> ell_max_for(13, 1024), ell_max_for(100, 1024), ell_max_for(5000, 1024)
    (24, 128, 1024)
    """
    return min(limit, 8 * ceil((longest + max(8, longest / 4)) / 8))


def default_epochs(epochs: float, hyper: Hyper, rows: int, row_tokens: float) -> float:
    """The task's epochs, or as many as take about half an hour on two cores, if that is less; at least three.

    The estimate counts operations (a forward and a backward pass are three forward passes) and does not look at the machine: the same data
    train equally long everywhere.
    """
    tokens = row_tokens / len(hyper.stacks)  # an encoder–decoder's token is a pair
    operations = 3 * flops_per_token(hyper, max(1, round(tokens))) * rows * tokens
    affordable = 60 * MINUTES * FLOPS / max(1.0, operations)
    return min(epochs, max(FEWEST, round(affordable, 1)))


def _as_toml(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no None, so what is not chosen is left out. Plain values come before tables."""
    values = {name: _as_toml(value) if isinstance(value, dict) else value for name, value in table.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _check_types(options: "Config | Train", prefix: str) -> None:
    """What comes from a TOML file may be of any type."""
    for each in fields(options):
        value, kinds = getattr(options, each.name), get_args(each.type) or (each.type,)
        if each.name in ("model", "train"):
            continue
        members = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple), None)
        if members and isinstance(value, tuple):
            wrong = [one for one in value if type(one) is not members and not (members is float and type(one) is int)]
            if wrong or not value:
                expected, got = "numbers" if members is float else "names", repr(wrong[0]) if wrong else "none"
                raise ValueError(f"{prefix}{each.name}: expected {expected}, got {got}")
            continue
        if members is float and value is not None:
            raise ValueError(f"{prefix}{each.name}: expected a list of numbers, got {value!r}")
        kinds = tuple(kind for kind in kinds if get_origin(kind) is not tuple)
        names = get_args(kinds[0]) or (kinds if isinstance(kinds[0], str) else ())  # of a Literal, or of one that may be None
        choices = each.metadata.get("choices", names)
        if choices:
            if value not in choices and not (value is None and type(None) in kinds):
                raise ValueError(f"{prefix}{each.name}: expected {', '.join(choices)}, got {value!r}")
        elif not any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds):
            expected = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kinds[0]]
            raise ValueError(f"{prefix}{each.name}: expected {expected}, got {value!r}")


def _check_bounds(options: "Config | Train", prefix: str) -> None:
    """Numbers are in their bounds, unless they are left out."""
    for each in fields(options):
        value = getattr(options, each.name)
        if (bounds := each.metadata.get("bounds")) and value is not None:
            within(prefix + each.name, value, bounds, whole=int in (get_args(each.type) or (each.type,)))
