"""The list of all cases: what is damaged in which original, and which command then runs. The same list every time."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from random import Random
from typing import Any

from tests.faults import commands, contents, fields, flags, lines, places, surroundings, tensors
from tests.faults.documents import HEADER, JSON, LINES, METADATA, TOML
from tests.faults.originals import RUN_FILES, caches, drawn

Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """One damage and one command."""

    kind: str  # a line of the table
    original: str
    damage: Damage
    name: str
    arguments: tuple[str, ...]
    surroundings: str = ""
    interrupted: bool = False  # the command may take as long as it likes, until Ctrl-C

    @property
    def title(self) -> str:
        return f"{self.original}: {self.name}: transalg {shlex.join(one if len(one) < 60 else one[:40] + '…' for one in self.arguments)}"


def all_cases(originals: Path) -> list[Case]:
    """All of them, in order."""
    return [case for part in PARTS for case in part(originals)]


def quick_cases(cases: Sequence[Case], number: int) -> list[int]:
    """The numbers of a part of the cases: equally many of every kind, and in each of them of one verb after the other."""
    draw = drawn("quick")
    kinds = dict[str, dict[str, list[int]]]()
    for i in draw.sample(range(len(cases)), len(cases)):
        kinds.setdefault(cases[i].kind, {}).setdefault(cases[i].arguments[0], []).append(i)
    return sorted(_in_turn([_in_turn(list(verbs.values())) for verbs in kinds.values()])[:number])


def _in_turn(lists: list[list[int]]) -> list[int]:
    """One of each list, then one more of each, to the end."""
    return [one for turn in zip_longest(*lists) for one in turn if one is not None]


def _some(damages: Iterable[Any], number: int, draw: Random) -> list[Any]:
    """At most so many, in their order."""
    listed = list(damages)
    return [listed[i] for i in sorted(draw.sample(range(len(listed)), min(number, len(listed))))]


def _with(kind: str, original: str, damages: Iterable[Any], chosen: Sequence[Sequence[str]], turn: Iterator[int]) -> Iterator[Case]:
    """Every damage with one of the commands in turn."""
    for damage in damages:
        yield Case(kind, original, damage, str(damage), tuple(chosen[next(turn) % len(chosen)]))


def _documents(file: str) -> Any:
    return TOML if file.endswith(".toml") else LINES if file.endswith(".jsonl") else METADATA if file.endswith(".safetensors") else JSON


def _runs(originals: Path) -> Iterator[Case]:
    """Damage to a run's folder."""
    kinds = {
        "config.toml": "fields of config.toml",
        "tokenizer.json": "fields of tokenizer.json",
        "metrics.jsonl": "lines of metrics.jsonl",
        "best.safetensors": "metadata of checkpoints",
        "last.safetensors": "metadata of checkpoints",
    }
    for task in commands.BY_TASK:
        draw, turn, share = drawn(task), count(), 3 if task == "lm" else 1
        for file in RUN_FILES:
            path, reading = f"run/{file}", commands.reading(task, file)
            yield from _with("bytes", task, _some(contents.changes(path, draw), 8 * share, draw), reading, turn)
            changed = fields.changes(originals / task, path, _documents(file), draw, 2)
            yield from _with(kinds[file], task, _some(changed, 13 * share, draw), reading, turn)
            others = [f"run/{other}" for other in RUN_FILES]
            yield from _with("files, links, permissions", task, _some(places.changes(path, others), 6 * share, draw), reading, turn)
            if file.endswith(".safetensors"):
                yield from _with(
                    "tensors", task, _some(tensors.changes(originals / task, path, draw, 12, 5), 10 * share, draw), reading, turn
                )
                header = fields.changes(originals / task, path, HEADER, draw, 1)
                yield from _with("headers of checkpoints", task, _some(header, 5 * share, draw), reading, turn)


def _sharded(originals: Path) -> Iterator[Case]:
    """A run with sharded checkpoints."""
    draw, turn = drawn("sharded"), count()
    reading = [
        shlex.split(f"{command}")
        for letters, command in commands.BY_TASK["lm"]
        if set(letters) & set("ml") and "--overwrite" not in command
    ]
    folder = originals / "sharded"
    files = sorted(str(path.relative_to(folder)) for name in ("best", "last") for path in (folder / "run" / name).iterdir())
    for file in files:
        changed = [*contents.changes(file, draw, 1), *places.changes(file, files)]
        if file.endswith(".safetensors"):
            changed += [*tensors.changes(folder, file, draw, 6, 3), *fields.changes(folder, file, HEADER, draw, 1)]
        else:
            changed += list(fields.changes(folder, file, JSON, draw, 1))
        readers = [one for one in reading if ("last" in one or "--resume" in one) == ("/last/" in file)]
        yield from _with("sharded checkpoints", "sharded", _some(changed, 18, draw), readers, turn)


def _caches(originals: Path) -> Iterator[Case]:
    """Token caches."""
    for task, chosen in commands.CACHED.items():
        draw, turn = drawn(f"cache of {task}"), count()
        reading = [shlex.split(command) for command in chosen]
        for file in caches(originals / task):
            changed = [*contents.changes(file, draw, 1), *places.changes(file)]
            if file.endswith(".json"):
                changed += list(fields.changes(originals / task, file, JSON, draw, 3))
                changed += [fields.Field(file, JSON, ("dtype",), "set", dtype) for dtype in ("O", "V8", "uint8", "int64", "float32", ">u2")]
            yield from _with("token caches", task, _some(changed, 20 if file.endswith(".json") else 5, draw), reading, turn)


def _episodes(originals: Path) -> Iterator[Case]:
    """Folders of episodes."""
    draw, turn = drawn("episodes"), count()
    for name in ("taxi", "colours", "prose"):
        chosen = [shlex.split(command.format(name)) for command in commands.EPISODES]
        for file in ("meta.json", "episodes.jsonl", "00000.safetensors"):
            path = f"{name}/{file}"
            changed = [*contents.changes(path, draw, 1), *places.changes(path)]
            if file.endswith(".safetensors"):
                changed += [
                    *tensors.changes(originals / "gato", path, draw, 6, 5),
                    *fields.changes(originals / "gato", path, HEADER, draw, 2),
                ]
            else:
                changed += list(fields.changes(originals / "gato", path, _documents(file), draw, 3))
            yield from _with("episodes", "gato", _some(changed, 17, draw), chosen, turn)


def _data(originals: Path) -> Iterator[Case]:
    """Data files."""
    draw, turn = drawn("data"), count()
    for file, chosen in commands.DATA.items():
        reading = [shlex.split(command) for command in chosen]
        changed = [
            *_some(lines.changes(file), 20, draw),
            *_some(contents.changes(file, draw, 1), 4, draw),
            *_some(places.changes(file), 4, draw),
        ]
        yield from _with("data files", "lm", changed, reading, turn)
    for command in commands.DATA["lines.txt.gz"]:
        yield Case("data files", "lm", lines.bomb, "lines.txt.gz: a bomb", tuple(shlex.split(command)))


def _imports(originals: Path) -> Iterator[Case]:
    """Checkpoints of other tools."""
    for original, chosen in commands.IMPORTS.items():
        draw, turn = drawn(original), count()
        folder = originals / original
        for file in sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and path.suffix in (".json", ".safetensors", ".gguf", ".bin")
        ):
            reading = [shlex.split(command) for command in chosen if file.split("/")[0] in command]
            changed = [*contents.changes(file, draw, 1), *places.changes(file)]
            number = 5
            if file.endswith(".safetensors"):
                changed += [*tensors.changes(folder, file, draw, 8, 4), *fields.changes(folder, file, HEADER, draw, 1)]
                number = 12
            elif file.endswith("/config.json"):
                changed += list(fields.changes(folder, file, JSON, draw, 3))
                number = 22
            elif file.endswith(".json"):
                changed += list(fields.changes(folder, file, JSON, draw, 1))
            else:
                changed += list(contents.changes(file, draw, 8))
                number = 35
            yield from _with(f"checkpoints to import: {original}", original, _some(changed, number, draw), reading, turn)


def _options(originals: Path) -> Iterator[Case]:
    """Values of options."""
    draw = drawn("options")
    for kind, kinds, each in (
        ("options: numbers", ("integer", "real"), 1),
        ("options: texts and choices", ("text", "choice", "flag"), 1),
        ("options: paths", ("path",), 5),
    ):
        for given in flags.changes(kinds, draw, each):
            original, _ = given.option.base()
            damage: Damage = flags.things if kind == "options: paths" else places.unchanged
            yield Case(kind, original, damage, str(given), tuple(given.arguments()), interrupted=True)
    for original, arguments in flags.unknown(draw, 1):
        yield Case("options: unknown", original, places.unchanged, " ".join(arguments[:2]), tuple(arguments), interrupted=True)


def _positions(originals: Path) -> Iterator[Case]:
    """Wrong paths in the place of a run."""
    draw = drawn("positions")
    for original, command in flags.BASES.values():
        arguments = shlex.split(command)
        if arguments[1] in ("run", "taxi", "llama", "table.csv"):
            for path in draw.sample([path for path in flags.PATHS if path != "run"], 4):
                changed = [arguments[0], *(["--"] if path == "-" else []), path, *arguments[2:]]
                yield Case("options: paths", original, flags.things, f"{arguments[0]} {path[:20]!r}", tuple(changed), interrupted=True)


def _surroundings(originals: Path) -> Iterator[Case]:
    """What is around a process."""
    draw = drawn("surroundings")
    for name in surroundings.SURROUNDINGS:
        for command in draw.sample(surroundings.COMMANDS, 4):
            interrupted = name in surroundings.INTERRUPTED
            yield Case(
                "surroundings", "lm", places.unchanged, name, tuple(shlex.split(command)), surroundings=name, interrupted=interrupted
            )


PARTS = (_runs, _sharded, _caches, _episodes, _data, _imports, _options, _positions, _surroundings)
