"""transalg train: train a transformer on text."""

import os
import shlex
import sys
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from transalg.cli.using import Flag
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.runs import config
from transalg.runs.config import Config, Task

if TYPE_CHECKING:
    from transalg.training.loop import Outcome

DERIVED = {  # options of a file that were chosen for a value which the command line overrides
    "model.d_e": ("d_attn", "d_mid", "d_f", "d_r", "d_mlp"),
    "model.H": ("d_attn", "d_mid"),
    "train.steps": ("epochs", "warmup", "eval_every", "save_every"),
    "train.epochs": ("steps", "warmup", "eval_every", "save_every"),
}
NAMES = {int: "INT", float: "FLOAT", str: "TEXT", bool: "{True,False}"}


def _flag(name: str, kind: Any, default: Any, doc: str) -> tuple[str, Any, Any]:
    """A field whose default is None, or False for a flag."""
    if kind is bool:  # an option that is True by default has a flag that begins with "no"
        return (
            name,
            Annotated[bool, tyro.conf.arg(help=f"do not {doc}" if default else doc, help_behavior_hint="")],
            field(default=bool(default)),
        )
    choices = [one for one in get_args(kind) if one is not type(None)] or [kind]
    if all(isinstance(one, str) for one in choices):
        metavar = "{" + ",".join(choices) + "}"
    else:
        metavar = "FLOAT FLOAT FLOAT" if get_origin(kind) is tuple else NAMES[choices[0]]
    unless = "" if default in (None, "", MISSING) else f" (default: {default})"
    return name, Annotated[kind | None, tyro.conf.arg(help=doc + unless, metavar=metavar, help_behavior_hint="")], field(default=None)


def _flags(title: str, doc: str, flags: list[tuple[str, Any, Any]]) -> Any:
    made = make_dataclass(title, flags, frozen=True, kw_only=True)
    made.__doc__ = doc
    return made


def _model_flags() -> Any:
    flags: dict[str, tuple[str, Any, Any]] = {}
    for hyper in (DHyper, EHyper, ClassifierHyper, EDHyper):
        for each in fields(hyper):
            if each.name not in config.DERIVED:
                optional = each.type if each.type is not bool else bool | None
                flags.setdefault(each.name, _flag(each.name, optional, MISSING, each.metadata["doc"]))
    return _flags(
        "Model", "Sizes of the model and departures from the paper; by default those of the preset, or small ones.", list(flags.values())
    )


TRAIN = [_flag(each.name, each.type, each.default, each.metadata["doc"]) for each in fields(config.Train)]
DATA = [
    _flag(each.name, each.type, each.default, each.metadata["doc"])
    for each in fields(Config)
    if "doc" in each.metadata and each.name != "fold"
]
ModelFlags, TrainFlags = _model_flags(), _flags("Train", "How to train.", TRAIN)
DataFlags = _flags("Data", "The data and the vocabulary.", DATA)


@dataclass(frozen=True)
class Train:
    """Train a transformer on your text: lm (Algorithm 13), mlm (12), seq2seq (11), classify.

    transalg train lm --data book.txt --out runs/book
    """

    task: Annotated[Task | None, tyro.conf.Positional, tyro.conf.arg(metavar="[lm|mlm|seq2seq|classify]", help_behavior_hint="")] = None
    """What to learn: to continue text (lm), to fill masks (mlm), to turn one text into another (seq2seq), to classify texts (classify)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")] = None
    """The folder for the run."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """A TOML file with these options except --out, such as config.toml of another run. Flags override the file."""
    resume: Flag = False
    """Continue the run in RUN from its last checkpoint, as if it had never stopped."""
    overwrite: Flag = False
    """Start over in a folder that has a run already."""
    data_flags: Annotated[DataFlags, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="")] = field(default_factory=DataFlags)  # type: ignore[valid-type]
    model: ModelFlags = field(default_factory=ModelFlags)  # type: ignore[valid-type]
    """Sizes of the model and its departures from the paper; by default those of the preset, or small ones."""
    train: TrainFlags = field(default_factory=TrainFlags)  # type: ignore[valid-type]
    """How to train."""

    def run(self) -> None:
        if self.out is None:
            raise ValueError("--out: expected a folder for the run, got nothing; transalg train lm --data FILE --out RUN")
        options = self._options()
        if not options and not self.resume:
            raise ValueError("train: expected a task, lm, mlm, seq2seq or classify; transalg train lm --data FILE --out RUN")
        chosen = Config.from_dict(options) if options.get("task") or not self.resume else None

        from transalg.cli.watch import Watch
        from transalg.training.start import train

        console = Console(highlight=False)
        if chosen is not None and chosen.folds and chosen.fold is None:
            self._folds(chosen, options, console)
            return
        with Watch(console) as watch:
            outcome = train(chosen, self.out, resume=self.resume, changes=options, overwrite=self.overwrite, report=watch)
        if os.environ.get("RANK", "0") == "0":  # one of many processes speaks for all
            summary(outcome, console)
        if outcome.reason == "interrupted":
            sys.exit(130)

    def _options(self) -> dict[str, Any]:
        """The options of the file, overridden by those of the command line."""
        merged = config.read(self.config) if self.config else {}
        if self.task:
            merged["task"] = self.task
        merged |= _changed(self.data_flags)
        for name, flags in (("model", self.model), ("train", self.train)):
            table = merged.get(name, {})
            if not isinstance(table, dict):
                raise ValueError(f"{self.config}: {name}: expected a table of options, got {table!r}")
            if more := _changed(flags):
                derived = {one for changed in more for one in DERIVED.get(f"{name}.{changed}", ())}
                merged[name] = {one: value for one, value in table.items() if one not in derived} | more
        if {"d_e", "optimizer"} & {*_changed(self.model), *_changed(self.train)} and "eta" not in _changed(self.train):
            merged.get("train", {}).pop("eta", None)
        return merged

    def _folds(self, chosen: Config, options: dict[str, Any], console: Console) -> None:
        from dataclasses import replace

        from transalg.cli.watch import Watch
        from transalg.training.start import train

        assert self.out is not None and chosen.folds
        outcomes, first = [], os.environ.get("RANK", "0") == "0"
        for fold in range(1, chosen.folds + 1):
            if first:
                console.print(f"Fold {fold} of {chosen.folds}", style="bold")
            with Watch(console) as watch:
                out = self.out / f"fold-{fold}"
                outcome = train(
                    replace(chosen, fold=fold), out, resume=self.resume, changes=options, overwrite=self.overwrite, report=watch
                )
            if outcome.reason == "interrupted":
                if first:
                    console.print("Interrupted and saved. Continue with the same command and [bold]--resume[/]")
                sys.exit(130)
            outcomes.append(outcome)
        if first:
            _table(outcomes, console)


def _changed(flags: Any) -> dict[str, Any]:
    return {each.name: value for each in fields(flags) if (value := getattr(flags, each.name)) != each.default}


def summary(outcome: "Outcome", console: Console) -> None:
    """Print the result, where it is, and what to type next."""
    state, out = outcome.state, outcome.out
    words = {"done": "Done", "patience": "Stopped early: no better validation loss", "interrupted": "Interrupted and saved"}
    minutes = f"{state.seconds / 60:.1f} min" if state.seconds >= 60 else f"{state.seconds:.0f} s"
    console.print(f"\n[bold]{words[outcome.reason]}[/]: step {state.step:,}, {_count(state.tokens)} tokens, {minutes} of training")
    if state.best is not None:
        accuracy = outcome.figures.get("val_accuracy")
        more = f"; accuracy {accuracy:.1%} at the end" if accuracy is not None else ""
        console.print(f"Best validation loss [bold]{state.best:.4f}[/] nats at step {state.best_step:,}{more}")
    files = [name for name in FILES if (out / name).exists()]
    console.print(f"{escape(str(out))}: {_count(outcome.parameters)} parameters; {', '.join(files)}")
    name = escape(shlex.quote(str(out)))
    if outcome.reason == "interrupted":
        console.print(f"Continue with: [bold]transalg train --out {name} --resume[/]")
    elif state.best is not None:
        console.print(f"Next: [bold]transalg evaluate {name}[/], [bold]transalg plot {name}[/], [bold]transalg verify {name}[/]")
    else:
        console.print(f"Next: [bold]transalg evaluate {name} --data FILE[/], [bold]transalg plot {name}[/]")


FILES = ("best.safetensors", "best", "last.safetensors", "last", "tokenizer.json", "config.toml", "metrics.jsonl")


def _table(outcomes: "list[Outcome]", console: Console) -> None:
    from statistics import mean, stdev

    names = ["val_loss", *(name for name in outcomes[0].figures if name != "val_loss")]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("fold", *names):
        table.add_column(title, justify="right")
    values = [[outcome.state.best or 0.0, *(outcome.figures[name] for name in names[1:])] for outcome in outcomes]
    for i, row in enumerate(values, 1):
        table.add_row(str(i), *(f"{value:.4f}" for value in row))
    columns = list(zip(*values, strict=True))
    table.add_row("mean", *(f"{mean(column):.4f}" for column in columns))
    table.add_row("±", *(f"{stdev(column):.4f}" for column in columns))
    console.print()
    console.print(table)


def _count(number: float) -> str:
    for unit in ("", " k", " M", " G"):
        if number < 1000 or unit == " G":
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    raise AssertionError


TrainVerb = Annotated[Train, tyro.conf.subcommand("train")]
