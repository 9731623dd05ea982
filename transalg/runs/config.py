"""Everything a run depends on, as one frozen value: what the command line and the TOML file say, and what is filled in. No torch."""

import tomllib
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from math import inf, sqrt
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from transalg.data.sources import DocumentUnit, Source, TooLong
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, Hyper, find

Task = Literal["lm", "mlm", "seq2seq", "classify"]
TASKS: tuple[Task, ...] = get_args(Task)
HYPERS: dict[Task, type[Hyper]] = {"lm": DHyper, "mlm": EHyper, "seq2seq": EDHyper, "classify": ClassifierHyper}
START = {"tied": True, "init_std": 0.02, "init_residual": True}  # as GPT-2: it learns faster so
SIZES: dict[Task, dict[str, Any]] = {  # of the model, unless given
    "lm": {"L": 4, "H": 4, "d_e": 128, "ell_max": 128, **START},
    "mlm": {"L": 4, "H": 4, "d_e": 128, "ell_max": 128},
    "seq2seq": {"L_enc": 2, "L_dec": 2, "H": 4, "d_e": 128},
    "classify": {"L": 2, "H": 4, "d_e": 128, "dropout": 0.3},
}
DERIVED = ("N_V", "N_C", "special")  # hyperparameters that come from the data and its vocabulary
LONGEST = 1024  # ℓ_max of pairs and labelled texts is their longest, up to this


def option(default: Any, doc: str) -> Any:
    """A field with what it means."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True)
class Train:
    """How to train. What is None is chosen by task and size."""

    steps: int | None = option(None, "how many optimiser steps; 1000 for lm and mlm unless epochs are given")
    epochs: float | None = option(
        None, "how often to go through the data, instead of steps; 20 for seq2seq and 6 for classify unless steps are given"
    )
    batch_size: int = option(32, "rows in a batch, over all processes")
    batch_tokens: int | None = option(None, "tokens in a batch, instead of rows")
    accumulate: int = option(1, "parts a batch is worked through in, which saves memory and changes nothing else")
    optimizer: Literal["muon", "adamw", "sgd"] = option(
        "muon", "muon for hidden matrices with adamw for the rest, or adamw, or sgd for all"
    )
    eta: float | None = option(
        None, "η, the learning rate; for muon 0.015 (lm, mlm) or 0.005, for adamw 0.001, both less for models wider than 128; for sgd 0.1"
    )
    schedule: Literal["linear", "cosine", "constant", "trapezoid"] = option(
        "linear", "of the learning rate behind the warm-up; trapezoid is constant, then linear"
    )
    warmup: int | None = option(None, "steps of linear warm-up; a twentieth of all, at most 100")
    final: float = option(0.0, "share of η that is left at the end")
    decay: float = option(0.2, "share of the steps in which a trapezoid comes down")
    weight_decay: float = option(0.1, "of matrices; embeddings, norms and biases do not decay")
    beta1: float = option(0.9, "of AdamW")
    beta2: float = option(0.99, "of AdamW")
    clip: float | None = option(1.0, "the norm that a gradient is cut down to; 0 for none")
    loss: Literal["mean", "sum"] = option("mean", "over the predicted tokens of a batch; the paper has the sum")
    noise: float = option(0.0, "probability that a token the model reads (classify, seq2seq's source) is replaced by a random one")
    token_drop: float = option(0.0, "probability that such a token is left out")
    shuffle: bool = option(True, "draw a new order of the rows in every epoch")
    shift: bool = option(True, "cut long documents at other places in every epoch")
    seed: int = option(0, "of initialisation, order, dropout and all else that is random")
    eval_every: int | None = option(None, "steps between validations; ten in a run")
    save_every: int | None = option(None, "steps between checkpoints; as eval_every")
    log_every: int = option(10, "steps between lines of metrics.jsonl")
    patience: int | None = option(None, "stop after so many validations without a better one")
    device: str = option("auto", "cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one")
    dtype: Literal["float32", "float64", "bfloat16"] = option(
        "float32", "bfloat16 keeps weights in float32 and computes in bfloat16 (autocast)"
    )
    threads: int | None = option(None, "CPU threads; torch's choice unless given")
    recompute: bool = option(
        False, "forget what is inside a layer and compute it again for the gradient: a third more work, much less memory"
    )
    compile: bool = option(False, "torch.compile the model: pays where all rows are of one length, as with lm --pack")
    shard: bool = option(False, "with torchrun: shard the model over the processes (FSDP2), with sharded checkpoints")
    tensorboard: bool = option(False, "write TensorBoard's files as well, to RUN/tensorboard; needs `pip install transalg[tensorboard]`")

    def __post_init__(self) -> None:
        _check_types(self, "train.")
        for name in ("batch_size", "accumulate", "log_every"):
            _require(self, f"train.{name}", getattr(self, name) >= 1, "at least 1")
        for name in ("steps", "epochs", "batch_tokens", "eta", "eval_every", "save_every", "patience", "threads"):
            value = getattr(self, name)
            _require(self, f"train.{name}", value is None or 0 < value < inf, "more than 0")
        for name in ("warmup", "weight_decay", "clip", "final"):
            value = getattr(self, name)
            _require(self, f"train.{name}", value is None or 0 <= value < inf, "0 or more")
        for name in ("noise", "token_drop", "beta1", "beta2"):
            _require(self, f"train.{name}", 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        _require(self, "train.decay", 0 < self.decay <= 1, "a number in (0, 1]")
        _require(self, "train.seed", 0 <= self.seed < 2**63, "a number from 0 to 2^63 − 1")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("train.epochs: expected steps or epochs, got both")


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run."""

    task: Task
    data: str = option("", "a file, a folder, or the name of built-in data: pydocs, stdlib, dates")
    valid: str | None = option(None, "validation data of its own; otherwise a part of --data")
    split: float = option(0.1, "share of --data that validates: the end of the text, or some of 100 or more documents; 0 for none")
    folds: int | None = option(None, "train so many times, each time validating on another part")
    fold: int | None = option(None, "which of them, from 1")
    preset: str | None = option(None, "one of `transalg presets`; sizes and all else as published")
    init: str | None = option(None, "a run to take weights, sizes and tokenizer from, for fine-tuning")
    tokenizer: str = option("", "char, word, bpe, or a tokenizer.json; word for classify, otherwise char, or bpe if vocab_size is given")
    vocab_size: int | None = option(None, "tokens in the vocabulary, mask, bos and eos included; for bpe 8192")
    text_column: str = option("text", "name of the column or key with the text; in tables also its number, from 1")
    label_column: str = option("label", "with the class, for classify")
    source_column: str = option("source", "with the text to read, for seq2seq")
    target_column: str = option("target", "with the text to write, for seq2seq")
    documents: DocumentUnit = option("file", "what a document is in text files: file, paragraph, or line")
    pack: bool = option(False, "let rows go on from one document into the next, so that all are full")
    too_long: TooLong = option("error", "what to do with pairs and labelled texts longer than ell_max: error, skip, cut")
    model: dict[str, Any] = field(default_factory=dict)
    train: Train = field(default_factory=Train)

    def __post_init__(self) -> None:
        _check_types(self, "")
        _require(self, "split", 0 <= self.split < 1, "a number in [0, 1)")
        _require(self, "folds", self.folds is None or self.folds >= 2, "at least 2")
        _require(self, "fold", self.fold is None or (self.folds is not None and 1 <= self.fold <= self.folds), "1 to the number of folds")
        _require(self, "vocab_size", self.vocab_size is None or self.vocab_size >= 5, "at least 5")
        if not self.data:
            raise ValueError("--data: expected a file, a folder, or the name of built-in data, got nothing")
        if self.folds and self.valid:
            raise ValueError("--folds: the folds validate on parts of --data, so --valid cannot be given")
        if self.preset and self.init:
            raise ValueError("--preset: expected a preset or --init, got both")
        if (self.train.noise or self.train.token_drop) and self.task in ("lm", "mlm"):
            raise ValueError(f"--train.noise, --train.token-drop: for classify and seq2seq; {self.task} predicts what it reads")
        kind = HYPERS[self.task]
        known = [each.name for each in fields(kind)]
        for name in self.model:
            if name not in known or name in DERIVED:
                close = [one for one in get_close_matches(name, known, n=1) if one != name]
                hint = f"; did you mean {close[0]}?" if close else "; it comes from the data" if name in DERIVED else ""
                raise ValueError(f"--model.{name}: a model for {self.task} (Algorithm {kind.algorithm}) has no such option{hint}")

    def source(self, name: str) -> Source:
        """How to read some data for this task."""
        if self.task in ("lm", "mlm"):
            return Source(name, "documents", (self.text_column,), self.documents)
        if self.task == "seq2seq":
            return Source(name, "pairs", (self.source_column, self.target_column))
        return Source(name, "labelled", (self.text_column, self.label_column))

    def share(self) -> tuple[float, float] | None:
        """The part of the data that validates."""
        if self.folds:
            fold = (self.fold or 1) - 1
            return fold / self.folds, (fold + 1) / self.folds
        return None if self.valid or not self.split else (1 - self.split, 1.0)

    def hyper(self, N_V: int, longest: int, N_C: int = 0, base: Hyper | None = None) -> Any:
        """The hyperparameters: those of a preset or of the model to start from, or small ones; changed by what `model` says."""
        kind = HYPERS[self.task]
        own = {each.name for each in fields(kind)}
        if self.preset:
            base = find(self.preset).hyper
        if base is None:
            given: dict[str, Any] = dict(SIZES[self.task])
            given |= {"ell_max": min(longest, LONGEST)} if "ell_max" not in given else {}
        else:
            if not issubclass(kind, type(base)) and not isinstance(base, kind):
                raise ValueError(
                    f"{self.preset or self.init}: a model of Algorithm {base.algorithm}; {self.task} takes Algorithm {kind.algorithm}"
                )
            given = {name: value for name, value in asdict(base).items() if name in own}
            if "H" in self.model or "d_e" in self.model:
                given = {name: value for name, value in given.items() if name not in ("d_attn", "d_mid", "d_f", "d_r")}
            if kind is ClassifierHyper:
                given |= {"tied": False, "output_bias": False}
        given |= self.model | {"N_V": N_V} | ({"N_C": N_C} if kind is ClassifierHyper else {})
        if "d_e" in self.model or base is None:
            given["d_mlp"] = self.model.get("d_mlp", 4 * given["d_e"])
        return kind(**given)

    def filled(self, hyper: Hyper, batches: int) -> tuple["Config", int]:
        """With nothing left to be chosen, and how many steps that is, if an epoch has so many batches."""
        train = self.train
        if train.steps is None and train.epochs is None:
            epochs = {"seq2seq": 20.0, "classify": 6.0}.get(self.task)
            train = replace(train, epochs=epochs, steps=None if epochs else 1000)
        steps = train.steps or max(1, round(batches * (train.epochs or 1)))
        eta = train.eta or {"muon": 0.015 if self.task in ("lm", "mlm") else 0.005, "adamw": 0.001, "sgd": 0.1}[train.optimizer] * (
            1 if train.optimizer == "sgd" else sqrt(128 / max(128, hyper.d_e))
        )
        every = train.eval_every or max(1, -(-steps // 10))
        filled = replace(
            train,
            eta=eta,
            warmup=min(100, steps // 20) if train.warmup is None else train.warmup,
            eval_every=every,
            save_every=train.save_every or every,
        )
        sizes = {name: value for name, value in asdict(hyper).items() if name not in DERIVED and value is not None}
        return replace(self, model=sizes, train=filled), steps

    def toml(self) -> str:
        """As a TOML file."""
        return tomli_w.dumps(_present(asdict(self)))

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Config":
        """From what a TOML file or a command line has; a ValueError for names that are none."""
        train, model = given.get("train", {}), given.get("model", {})
        for name, table in (("train", train), ("model", model)):
            if not isinstance(table, dict):
                raise ValueError(f"{name}: expected a table of options, got {table!r}")
        for names, kind, prefix in ((given, cls, ""), (train, Train, "train.")):
            known = [each.name for each in fields(kind)]
            for name in names:
                if name not in known:
                    close = get_close_matches(name, known, n=1)
                    raise ValueError(f"{prefix}{name}: there is no such option{f'; did you mean {close[0]}?' if close else ''}")
        if given.get("task") not in TASKS:
            raise ValueError(f"task: expected {', '.join(TASKS)}, got {given.get('task')!r}")
        model = {name: tuple(value) if isinstance(value, list) else value for name, value in model.items()}
        return cls(**given | {"train": Train(**train), "model": model})


def read(path: Path) -> dict[str, Any]:
    """A TOML file of options."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error
    return found


def _present(given: dict[str, Any]) -> dict[str, Any]:
    """TOML has no None: what is not chosen is not there. Plain values come before tables."""
    found = {name: _present(value) if isinstance(value, dict) else value for name, value in given.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _check_types(options: Any, prefix: str) -> None:
    """What comes from a TOML file may be of any type."""
    for each in fields(options):
        value, kinds = getattr(options, each.name), get_args(each.type) or (each.type,)
        if each.name in ("model", "train"):
            continue
        if isinstance(kinds[0], str):
            if value not in kinds:
                raise ValueError(f"{prefix}{each.name}: expected {', '.join(kinds)}, got {value!r}")
        elif not any(type(value) is kind or (kind is float and type(value) is int) for kind in kinds):
            expected = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kinds[0]]
            raise ValueError(f"{prefix}{each.name}: expected {expected}, got {value!r}")


def _require(options: Any, name: str, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {getattr(options, name.rpartition('.')[2])!r}")
