"""Options with hostile values: numbers at and beyond every bound, texts that a terminal or a parser might obey, wrong paths.

The options are those of the verbs' dataclasses, so that a new one is tried too.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from random import Random
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from tests.faults.commands import TRAIN
from tests.faults.places import ELSEWHERE
from transalg.cli import Verb
from transalg.runs import config
from transalg.tasks import TASKS

INTEGERS = ("-1", "0", "1", "2", "3", "2147483648", "9223372036854775807", "9223372036854775808", "1000000000000", "1" + "0" * 30, "1.5", "nan", "x", "", "１２", "1_0", "0x10", "1" * 5000)  # fmt: skip
REALS = ("-1", "0", "1", "1.5", "-0.0", "5e-324", "1e-30", "1e30", "1e308", "1e400", "nan", "inf", "-inf", "x", "", "1,5", "٣", "1_0")
TEXTS = (
    "", " ", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "[/oops]", "[bold]", "naïve 猫 🐈", "\udcff\udc80", "y" * 20_000, "-", "--", "-x", "%s %d", "{}", "{0.__class__}",
    "nan", "1\n2\n3\n4", "a\rb", "\u202eabc", "*", "$(true)", "null", "0", "\ufeff", "a\tb", "(", "\\1",
)  # fmt: skip
PATHS = (
    "", ".", "..", "nowhere", "nowhere/x", "lines.txt", "lines.txt/x", "run", "run/config.toml", "run/best.safetensors", "/dev/null", "/dev/full", "/dev/zero",
    "y" * 300, "y/" * 3000, "\udcff", "\x1b[31mred", "[/oops]", "~", "-", "link", "pipe", "empty", "a\nb\nc", ".transalg-cache", "loop", "locked/x",
)  # fmt: skip
SMALL = "--model.H 2 --model.d-e 10 --model.d-mlp 13 --model.ell-max 29"
BASES = {
    "train": ("lm", f"train lm --data lines.txt --documents line --out out {TRAIN} --model.L 1 {SMALL}"),
    "evaluate": ("classify", "evaluate run --json"),
    "plot": ("lm", "plot run --out out.png"),
    "import": ("huggingface", "import llama --out out"),
    "export": ("lm", "export run --format huggingface --out out"),
    "generate": ("lm", "generate run --prompt a --ell-gen 3 --seed 0 --json"),
    "predict": ("seq2seq", "predict run --input 'a cat' --json"),
    "fill": ("mlm", "fill run --text 'a <mask>' --json"),
    "classify": ("classify", "classify run --text 'a cat' --json"),
    "embed": ("mlm", "embed run --text 'a cat' --json"),
    "score": ("lm", "score run --text 'a cat' --json"),
    "prompt": ("lm", "prompt run --input a --ell-gen 3 --seed 0 --json"),
    "play": ("gato", "play run --env taxi --json"),
    "caption": ("gato", "caption run --image image.png --json"),
    "clean": ("classify", "clean table.csv --out out.csv --json"),
    "tokenizer train": ("lm", "tokenizer train --data lines.txt --out out.json --kind char"),
    "tokenizer encode": ("lm", "tokenizer encode run --text 'a cat'"),
    "tokenizer decode": ("lm", "tokenizer decode run --ids '1 2'"),
    "gato record": ("gato", "gato record CartPole --out out --episodes 2 --scored 2 --json"),
    "gato show": ("gato", "gato show taxi"),
    "algorithm": ("lm", "algorithm 10"),
    "trace": ("lm", "trace 10 --text ab --json"),
    "errata": ("lm", "errata 7"),
    "presets": ("lm", "presets gpt2 --json"),
    "verify": ("lm", "verify run --json"),
}
TASK_BASES = {
    "lm": BASES["train"],
    "mlm": ("mlm", f"train mlm --data lines.txt --documents line --out out {TRAIN} --model.L 1 {SMALL}"),
    "seq2seq": ("seq2seq", f"train seq2seq --data pairs.txt --out out {TRAIN} --model.L-enc 1 --model.L-dec 1 {SMALL}"),
    "classify": ("classify", f"train classify --data labels.txt --out out {TRAIN} --model.L 1 {SMALL}"),
    "multi": ("multi", f"train multi --data labels.txt animals.txt --out out {TRAIN} --model.L 1 {SMALL}"),
    "gato": (
        "gato",
        "train gato --data taxi prose --tokenizer char --out out --train.steps 1 --train.threads 1 --train.dtype float32 --train.batch-tokens 97 "
        f"--model.L 1 --model.C-r 6 --model.G 3 --model.N-grid 7 {SMALL}",
    ),
}
AT_BOUNDS = 3  # of the numbers at and beyond an option's bounds
MACHINES = ("threads",)  # how many there may be depends on the machine
NOT_FREE = ("device", "compile", "tensorboard")  # what else than a wrong value they take depends on the machine


@dataclass(frozen=True)
class Option:
    """An option of a verb: what it is called, what it takes, and the task whose run it is tried with."""

    verb: str
    name: str
    kind: str  # integer, real, text, path, choice, or flag
    bounds: tuple[str, ...] = ()
    task: str = ""

    def base(self) -> tuple[str, list[str]]:
        original, command = TASK_BASES[self.task] if self.task else BASES[self.verb]
        return original, shlex.split(command)


def options() -> list[Option]:
    """All options of all verbs."""
    found = list[Option]()
    verbs = _subcommands(Verb)
    for verb in BASES:
        kind = verbs[verb.split()[0]]
        if " " in verb:
            kind = _subcommands(get_type_hints(kind, include_extras=True)["action"])[verb.split()[1]]
        found += [option for option in _options(verb, kind, "") if option.name.rpartition(".")[2] not in NOT_FREE]
    return found


def _subcommands(union: Any) -> dict[str, type]:
    return {one.__metadata__[0].name: get_args(one)[0] for one in get_args(union)}


def _options(verb: str, kind: type, prefix: str) -> Iterator[Option]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        metadata = getattr(hints[each.name], "__metadata__", ())
        if tyro.conf.Positional in metadata:
            continue
        bare = _bare(hints[each.name])
        if is_dataclass(bare):
            yield from _options(verb, bare, f"{each.name}." if each.name in ("model", "train") else "")  # type: ignore[arg-type]
            continue
        named = next((one.name for one in metadata if getattr(one, "name", None)), None)
        task = _task(each.name) if prefix == "model." else "lm" if verb == "train" else ""
        intervals = [interval for mark in metadata if isinstance(interval := getattr(mark, "interval", None), str)]
        bounds, called = _bounds(verb, prefix, each.name, intervals), (named or each.name).replace("_", "-")
        off = "no-" if bare is bool and each.default is True else ""
        yield Option(verb, f"--{prefix}{off}{called}", _kind(bare, each.name), bounds, task)


def _bare(hint: Any) -> Any:
    """A type without annotations, None and the rest of a tuple."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return _bare(next(one for one in get_args(hint) if one is not type(None)))
    if get_origin(hint) is tuple:
        return _bare(get_args(hint)[0])
    return hint


def _kind(bare: Any, name: str) -> str:
    if get_origin(bare) is Literal:
        return "choice"
    if bare is str and name in ("data", "valid", "init", "tokenizer", "config"):
        return "path"
    return {int: "integer", float: "real", str: "text", Path: "path", bool: "flag"}[bare]


def _task(name: str) -> str:
    return next(task for task in TASK_BASES if any(each.name == name for each in fields(TASKS[task].hyper_class)))


def _bounds(verb: str, prefix: str, name: str, intervals: list[str]) -> tuple[str, ...]:
    """Numbers at and beyond the bounds that an annotation or a field's metadata states."""
    kinds = [config.Train] if prefix == "train." else [config.Config] if not prefix else [TASKS[task].hyper_class for task in TASK_BASES]
    stated = next((each.metadata for kind in kinds for each in fields(kind) if each.name == name), {}) if verb == "train" else {}
    numbers = [number for value in (stated.get("bounds"), *intervals) for number in _numbers(value)]
    return tuple(dict.fromkeys(text for number in numbers for text in _around(number)))


def _numbers(value: Any) -> list[float]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, str):
        return [float(number) if set("e.") & set(number) else int(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", value)]
    return [number for one in value for number in _numbers(one)] if isinstance(value, Sequence) else []


def _around(number: float) -> tuple[str, ...]:
    if isinstance(number, int):
        return str(number - 1), str(number), str(number + 1)
    return str(number), str(number - abs(number) / 100 - 1e-9), str(number + abs(number) / 100 + 1e-9)


@dataclass(frozen=True)
class Given:
    """An option with a value, added to a command that works."""

    option: Option
    value: str | None

    def __str__(self) -> str:
        shown = (
            ""
            if self.value is None
            else f" {self.value!r}"
            if len(self.value) < 40
            else f" {self.value[:20]!r}… ({len(self.value)} characters)"
        )
        return f"{self.option.verb}: {self.option.name}{shown}"

    def arguments(self) -> list[str]:
        _, arguments = self.option.base()
        name = self.option.name
        if name in arguments:
            at = arguments.index(name)
            after = at + 1
            while after < len(arguments) and not arguments[after].startswith("--"):
                after += 1
            del arguments[at:after]
        if self.value is None:
            return [*arguments, name]
        return [*arguments, f"{name}={self.value}"] if self.value.startswith("-") else [*arguments, name, self.value]


VALUES = {"integer": INTEGERS, "real": REALS, "text": TEXTS, "path": PATHS, "choice": ("x", "", "[/oops]", "\x1b[31m")}


def changes(kinds: Sequence[str], draw: Random, each: int) -> Iterator[Given]:
    """Every option of these kinds with its bounds and with some of the values."""
    for option in options():
        if option.kind not in kinds:
            continue
        if option.kind == "flag":
            yield Given(option, None)
            continue
        at_bounds = 0 if option.name.rpartition(".")[2] in MACHINES else AT_BOUNDS
        bounds, values = (
            [*draw.sample(many, min(number, len(many)))] for many, number in ((option.bounds, at_bounds), (VALUES[option.kind], each))
        )
        for value in dict.fromkeys(bounds + values):
            yield Given(option, value)


UNKNOWN = (
    "--wrong",
    "--promt",
    "--train.stepz",
    "--model.d_e=3",
    "-x",
    "--",
    "--json=1",
    "--learning-rate",
    "--\x1b[31m",
    "--[/oops]",
    "--ünï",
    "---",
    "-1",
    "--help=",
)


def unknown(draw: Random, each: int) -> Iterator[tuple[str, list[str]]]:
    """Every verb with options that it does not know."""
    for verb, (original, command) in BASES.items():
        for name in draw.sample(UNKNOWN, each):
            yield original, [*shlex.split(command), name]
        yield original, [*verb.split()]
        yield original, [*verb.split(), "--help"]


def things(work: Path) -> None:
    """What some of the paths name: a link, a pipe, an empty file, a link to itself, a folder that nobody may enter."""
    import os

    (work / ELSEWHERE).touch()
    os.symlink(ELSEWHERE, work / "link")
    os.mkfifo(work / "pipe")
    (work / "empty").touch()
    os.symlink("loop", work / "loop")
    (work / "locked").mkdir(mode=0o000)
