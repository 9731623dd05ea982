"""transalg train: train a transformer on text."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import tyro
from rich.console import Console
from rich.table import Table

from transalg import terminal
from transalg.checks import in_words
from transalg.cli.using import Flag
from transalg.runs import config as options
from transalg.runs.config import Config
from transalg.runs.options import override
from transalg.runs.paths import read_options
from transalg.tasks import TASKS, find
from transalg.terminal import marked

if TYPE_CHECKING:
    from transalg.tokenization import Tokenizer
    from transalg.training.loop import Outcome

METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", bool: "{True,False}"}
FlagField = tuple[str, Any, Any]  # a name, a type for tyro, a field


def _flag(name: str, kind: Any, default: Any, metadata: Mapping[str, Any]) -> FlagField:
    """A flag that is None, or False, unless it is given."""
    doc = metadata["doc"]
    if bounds := metadata.get("bounds"):
        doc += f"; {in_words(bounds, whole='int' in str(kind))}"
    if kind is bool:  # a flag that switches off what is on by default begins with "no"
        return (
            name,
            Annotated[bool, tyro.conf.arg(help=f"do not {doc}" if default else doc, help_behavior_hint="")],
            field(default=bool(default)),
        )
    if many := metadata.get("many"):
        member = float if many == METAVARS[float] else str
        argument = tyro.conf.arg(help=doc, metavar=f"{many} [{many} ...]", help_behavior_hint="")
        return name, Annotated[tuple[member, ...], argument], field(default=())  # type: ignore[valid-type]
    if choices := metadata.get("choices"):
        kind = Literal[choices]
    kinds = [one for one in get_args(kind) if one is not type(None)] or [kind]
    kinds = list(get_args(kinds[0])) or kinds if get_origin(kinds[0]) is Literal else kinds  # a choice that may be left out
    if all(isinstance(one, str) for one in kinds):
        metavar = "{" + ",".join(kinds) + "}"
    else:
        metavar = _metavar(kinds[0] if get_origin(kind) is not tuple else kind)
    stated_default = "" if default in (None, "", MISSING) else f" (default: {default})"
    argument = tyro.conf.arg(help=doc + stated_default, metavar=metavar, help_behavior_hint="")
    return name, Annotated[kind | None, argument], field(default=None)


def _metavar(kind: Any) -> str:
    """FLOAT FLOAT FLOAT for three numbers, FLOAT [FLOAT ...] for some."""
    if get_origin(kind) is not tuple:
        return METAVARS[kind]
    members = get_args(kind)
    one = METAVARS[members[0]]
    return f"{one} [{one} ...]" if members[-1] is Ellipsis else " ".join([one] * len(members))


def _flags(title: str, doc: str, flags: list[FlagField]) -> Any:
    made = make_dataclass(title, flags, frozen=True, kw_only=True)
    made.__doc__ = doc
    return made


MODEL_DOC = "Sizes of the model and its departures from the paper. (default: those of the preset, or small ones)"


def _model_flags() -> Any:
    flags: dict[str, FlagField] = {}
    for hyper_class in dict.fromkeys(task.hyper_class for task in TASKS.values()):
        for each in fields(hyper_class):
            if each.name not in options.DERIVED:
                optional = each.type if each.type is not bool else bool | None
                flags.setdefault(each.name, _flag(each.name, optional, MISSING, each.metadata))
    return _flags("Model", MODEL_DOC, list(flags.values()))


TRAIN = [_flag(each.name, each.type, each.default, each.metadata) for each in fields(options.Train)]
DATA = [
    _flag(each.name, each.type, each.default, each.metadata) for each in fields(Config) if "doc" in each.metadata and each.name != "fold"
]
ModelFlags, TrainFlags = _model_flags(), _flags("Train", "How to train.", TRAIN)
DataFlags = _flags("Data", "The data and the vocabulary.", DATA)
TASK = tyro.conf.arg(
    metavar=f"[{'|'.join(TASKS)}]",
    help="What to learn. " + "; ".join(f"{name}: {task.learns}" for name, task in TASKS.items()) + ".",
    help_behavior_hint="",
)


@dataclass(frozen=True)
class Train:
    """Train a transformer on your text.

    transalg train lm --data book.txt --out runs/book
    """

    task: Annotated[str | None, tyro.conf.Positional, TASK] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")] = None
    """The folder for the run."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """A TOML file with these options except --out, such as config.toml of another run. Flags override the file."""
    resume: Flag = False
    """Continue the run in RUN from its last checkpoint, as if it had never stopped."""
    overwrite: Flag = False
    """Start over in a folder that has a run already."""
    data_flags: Annotated[DataFlags, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="")] = field(default_factory=DataFlags)  # type: ignore[valid-type]
    model: Annotated[ModelFlags, tyro.conf.arg(help=MODEL_DOC)] = field(default_factory=ModelFlags)  # type: ignore[valid-type]
    train: TrainFlags = field(default_factory=TrainFlags)  # type: ignore[valid-type]
    """How to train."""

    def run(self) -> None:
        if self.out is None:
            raise ValueError("--out: expected a folder for the run, got nothing; transalg train lm --data FILE --out RUN")
        chosen = self._chosen()

        from transalg.training.train import cross_validate, train
        from transalg.training.watch import Watch

        console = terminal.console()
        first = os.environ.get("RANK", "0") == "0"  # one of many processes prints for all
        sets = {name: tuple(map(Path, value)) for name, value in chosen.items() if name in ("data", "valid") and not isinstance(value, str)}

        def announce(fold: int) -> None:
            console.print(f"Fold {fold} of {chosen['folds']}", style="bold")

        many = bool(chosen.get("folds") and not chosen.get("fold") and (chosen.get("task") or not self.resume))
        with Watch(console) as watch:
            options = {**chosen, **sets, "out": self.out, "resume": self.resume, "overwrite": self.overwrite, "progress": watch}
            outcomes = cross_validate(**options, on_fold=announce if first else None) if many else [train(**options)]
        interrupted = outcomes[-1].reason == "interrupted"
        if first:
            if not many:
                summary(outcomes[0], console)
            elif interrupted:
                console.print("Interrupted and saved. Continue with the same command and [bold]--resume[/]", markup=True)
            else:
                _table(outcomes, console)
                together = shlex.join(["transalg", "evaluate", *(str(each.out) for each in outcomes), "--data", "FILE"])
                console.print(f"Next: [bold]{marked(together)}[/]", markup=True, soft_wrap=True)
        if interrupted:
            sys.exit(130)

    def _chosen(self) -> dict[str, Any]:
        """The options of the file, overridden by those of the command line."""
        task, flags = self.task, _changed(self.data_flags)
        for name in (name for name, values in flags.items() if isinstance(values, tuple) and name in ("data", "valid")):
            if task is None and len(flags[name]) > 1 and flags[name][-1] in TASKS:  # the task may follow the flags
                task, flags[name] = flags[name][-1], flags[name][:-1]
            flags[name] = flags[name][0] if len(flags[name]) == 1 else flags[name]
        tables = {name: more for name, table in (("model", self.model), ("train", self.train)) if (more := _changed(table))}
        named = {"task": task} if task else {}
        return override(read_options(self.config) if self.config else {}, named | flags | tables, self.config)


def _changed(flags: Any) -> dict[str, Any]:
    return {each.name: value for each in fields(flags) if (value := getattr(flags, each.name)) != each.default}


def summary(outcome: "Outcome", console: Console) -> None:
    """Print the result, where it is, and what to type next."""
    from transalg.training.watch import shown_figures, shown_sets

    state, out = outcome.state, outcome.out
    words = {"done": "Done", "patience": "Stopped early: validation no longer improves", "interrupted": "Interrupted and saved"}
    minutes = f"{state.seconds / 60:.1f} min" if state.seconds >= 60 else f"{state.seconds:.0f} s"
    console.print(
        f"\n[bold]{words[outcome.reason]}[/]: step {state.step:,}, {_count(state.tokens)} tokens, {minutes} of training", markup=True
    )
    if state.best is not None:
        by = outcome.config.train.select.replace("_", " ")
        written, read = (outcome.figures.get(name, 0) for name in ("val_written_rows", "val_rows"))
        of = f", {by} of {written:,.0f} rows" if 0 < written < read else ""
        console.print(f"Best by {by}, step {state.best_step:,}: [bold]{marked(shown_figures(outcome.figures))}[/]{marked(of)}", markup=True)
        if sets := shown_sets(outcome.figures):
            console.print(f"  accuracy of {sets}")
    present = [name for name in FILES if (out / name).exists()]
    console.print(f"{out}: {_count(outcome.parameters)} parameters; {', '.join(present)}")
    name = marked(shlex.quote(str(out)))
    if outcome.reason == "interrupted":
        console.print(f"Continue with: [bold]transalg train --out {name} --resume[/]", markup=True)
        return
    console.print(f"Next: [bold]{marked(example(outcome.config, out, outcome.tokenizer))}[/]", markup=True, soft_wrap=True)
    itself = state.best is not None or find(outcome.config.task).records == "episodes"
    more = ("evaluate {}", "plot {}", "verify {}") if itself else ("evaluate {} --data FILE", "plot {}")
    for command in more:
        console.print(f"      [bold]transalg {command.format(name)}[/]", markup=True, soft_wrap=True)


def episodes_example(config: Config, out: Path) -> str:
    """What to do with a model of all modalities: play a task that has actions, or else caption or write."""
    from transalg.evaluation.tasks import learned_tasks
    from transalg.inference.run import Run

    spaces = {task.name: task.spaces for task in learned_tasks(Run.load(out), data=False)}
    run = shlex.quote(str(out))
    if acting := [name for name, each in spaces.items() if not each.answers]:
        return f"transalg play {run} --env {shlex.quote(acting[0])} --out play.gif"
    if any(not each.document for each in spaces.values()):
        return f"transalg caption {run} --image FILE"
    return f'transalg generate {run} --prompt "The "'


def example(config: Config, out: Path, tokenizer: "Tokenizer") -> str:
    """A command that uses a run for what its task is for: the example of the verb's help, with this run and a text of its data."""
    verb = find(config.task).abilities[0]
    if verb == "play":
        return episodes_example(config, out)
    help_text = str(getattr(import_module(f"transalg.cli.{verb}"), verb.capitalize()).__doc__)
    before, shown, _ = next(line for line in help_text.splitlines() if "transalg " in line).strip().split('"')
    words = shown.split()
    records = islice(config.source(config.data).records(), 100)
    for line in (line.strip() for record in records for line in record.texts[0].splitlines()):
        text = line if len(line) <= EXAMPLE else line[:EXAMPLE].rpartition(" ")[0] or line[:EXAMPLE]
        if not text.startswith("--") and any(  # which would be an option
            character.isalnum() and not tokenizer.unknown(word) for word in text.split() for character in word
        ):
            words = text.split()
            break
    if "<mask>" in shown:
        words[len(words) // 2] = "<mask>"
    head = f" --head {shlex.quote(config.heads[0])}" if len(config.heads) > 1 else ""
    return f"{before.replace('RUN', shlex.quote(str(out)))}{shlex.quote(' '.join(words))}{head}"


EXAMPLE = 40  # characters of a text in an example, at most
FILES = ("best.safetensors", "best", "last.safetensors", "last", "tokenizer.json", "config.toml", "metrics.jsonl")


def _table(outcomes: "list[Outcome]", console: Console) -> None:
    from statistics import mean, stdev

    names = [name for name in outcomes[0].figures if not name.endswith("rows")]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("fold", *names):
        table.add_column(title, justify="right")
    values = [[outcome.figures[name] for name in names] for outcome in outcomes]
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
