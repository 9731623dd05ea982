"""The command line to a verb. What the parser refuses, it explains in a box of many lines; here that becomes a line or two."""

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro

from transalg import terminal
from transalg.terminal import listed, short

MARKERS = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
VALUES = {"INT": "a whole number", "FLOAT": "a number", "FLOAT FLOAT FLOAT": "three numbers"}
WIDE = 80  # columns, more than which the parser does not use
COLOURS = re.compile(r"\x1b\[[\d;]*m")
RULE = re.compile(r"^[─━-]{3,}$")


def parse(verbs: Any, arguments: Sequence[str], description: str) -> Any:
    """The verb that the arguments ask for; a ValueError for those that it does not take. Help is printed, and ends the program."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) < terminal.NARROWEST:
        os.environ["COLUMNS"] = str(terminal.NARROWEST)
    help = _Help()
    try:
        with redirect_stdout(help):
            return _parsed(verbs, arguments, description, io.StringIO())
    except SystemExit as stop:
        if not stop.code:
            sys.stdout.write(help.wrapped())
            raise
    said = io.StringIO()  # again for a box that is wide enough to be read, which a terminal may not be
    with suppress(SystemExit), _columns(WIDE):
        _parsed(verbs, arguments, description, said)
    raise ValueError(refusal(said.getvalue(), arguments, verbs))


def _parsed(verbs: Any, arguments: Sequence[str], description: str, said: io.StringIO) -> Any:
    with redirect_stderr(said):
        return tyro.cli(verbs, prog="transalg", description=description, args=list(arguments), config=MARKERS)


class _Help(io.StringIO):
    """What the parser prints, with the colours and the boxes that standard output has. It wraps the options' texts, but not the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.stdout = sys.stdout

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.stdout.encoding

    def isatty(self) -> bool:
        return self.stdout.isatty()

    def wrapped(self) -> str:
        text = self.getvalue()
        if not COLOURS.sub("", text).startswith("usage:"):  # a script of completions
            return text
        columns = min(WIDE, shutil.get_terminal_size().columns)
        return "".join(wrap(line, columns, 7 if i == 0 else 0) + "\n" for i, line in enumerate(text.splitlines()))


def wrap(line: str, columns: int, indent: int) -> str:
    """A line, broken at spaces and after commas; its colours take no room.

    >>> print(wrap("usage: transalg [-h] {train,evaluate}", 29, 7))
    usage: transalg [-h] {train,
           evaluate}
    """
    lines, width = [""], 0
    for word in re.findall(r" +|[^ ,]+,?|,", line):
        room = len(COLOURS.sub("", word))
        if width + room > columns and width > indent:
            lines, width = [*lines, " " * indent], indent
            word, room = ("", 0) if word.isspace() else (word, room)
        lines[-1] += word
        width += room
    return "\n".join(line.rstrip(" ") for line in lines)


@contextmanager
def _columns(count: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def refusal(box: str, arguments: Sequence[str], verbs: Any) -> str:
    """What the parser's box says, with the option first and the nearest one that there is."""
    title, sections = _read(box)
    said = " ".join(" ".join(line.strip() for line in sections[0]).split()) if sections else "not understood"
    command, flags = _asked_for(verbs, arguments)
    more = f"{command} --help shows what there is"
    if found := re.match(r"Unrecognized (?:or misplaced )?options: (.*)", said):
        tokens = re.split(r", | \(applied to [^)]*\) ?", found[1])
        option = next((token for token in tokens if token.startswith("-")), tokens[0]).partition("=")[0]
        others = re.search(r"Available subcommands: (.*)", " ".join(line.strip() for section in sections[1:] for line in section))
        what = "option" if option.startswith("-") else "command" if others else "argument"
        return unknown(option, what, others[1].split(", ") if others else flags, command)
    if found := re.match(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)", said):
        choices = sorted(name.strip(" '") for name in found[3].split(",") if name.strip(" '") not in ("None", ""))
        return f"{found[2]}: expected {listed(choices, most=30)}, got {short(found[1], 60)!r}"
    typed = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    if others := [option for option in typed if option not in (*flags, "--help") and title.startswith(("Missing", "Required"))]:
        return unknown(others[0], "option", flags, command)
    if found := re.match(r"Missing value for argument '(.*?)'", said):
        return f"{found[1].removeprefix('action.')}: expected a value, got nothing"
    if found := re.match(r"Error parsing (\S+?):", said):
        usage = next((line.strip() for section in sections for line in section if line.strip().startswith(found[1] + " ")), "")
        metavar = usage.removeprefix(found[1]).strip()
        return f"{found[1]}: expected {VALUES.get(metavar, metavar or 'another value')}, got {short(_given(arguments, found[1]), 60)!r}"
    if title.startswith("Required"):
        missing = [line.strip() for line in sections[0] if re.match(r" {4}\S", line)]
        return f"expected {', '.join(missing)}, got nothing; {more}"
    if found := re.match(r"Expected one of \{(.*)\}", said):
        return f"expected one of {found[1]}; {more}"
    return f"{short(said, 300)}; {more}"


def unknown(name: str, what: str, names: Sequence[str], command: str) -> str:
    """A message about a command or an option that there is none of, with the nearest that there is."""
    close = get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.5)
    return (
        f"{short(name, 60)}: there is no such {what}; {f'did you mean {close[0]}? ' if close else ''}{command} --help shows what there is"
    )


def _read(box: str) -> tuple[str, list[list[str]]]:
    """The title of a box and its sections, line by line. Where the encoding has no lines to draw, a box is indented text under its title."""
    lines = [line.rstrip() for line in COLOURS.sub("", box).splitlines() if line.strip()]
    title, *rest = lines or [""]
    sections = [list[str]()]
    for line in rest:
        text = line.strip()[1:-1].removeprefix(" ").rstrip() if line.strip()[0] in "│|" else line.removeprefix("  ")
        if RULE.match(text.strip()):
            sections.append([])
        elif line.strip()[0] not in "╰+":
            sections[-1].append(text)
    return title.strip("╭╮─+- "), [section for section in sections if section]


def _given(arguments: Sequence[str], option: str) -> str:
    """The value that an option was given."""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.replace("_", "-") == option.replace("_", "-"):
            values = []
            for one in arguments[i + 1 :]:
                if one.startswith("--"):
                    break
                values.append(one)
            return value if equals else " ".join(values)
    return ""


def _asked_for(verbs: Any, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The command that the arguments begin with, and the options that it has."""
    command, words = ["transalg"], list(arguments)
    kinds: Any = verbs
    while words and (kind := subcommands(kinds).get(words[0])):
        command.append(words.pop(0))
        kinds = kind
    return " ".join(command), [] if subcommands(kinds) and len(command) == 1 else list(flags(kinds))


def subcommands(kinds: Any) -> dict[str, Any]:
    """The verbs of a union, or of the one field of a verb that has verbs of its own, by name."""
    inner, _ = _bare(kinds)
    if is_dataclass(inner):
        hints = get_type_hints(inner, include_extras=True)
        return subcommands(hints["action"]) if list(hints) == ["action"] else {}
    named = dict[str, Any]()
    for member in get_args(inner) if get_origin(inner) in (Union, type(int | str)) else ():
        for marker in getattr(member, "__metadata__", ()):
            if name := getattr(marker, "name", None):
                named[name] = member
    return named


def flags(kind: Any, prefix: str = "", *, bare: bool = False) -> Iterator[str]:
    """The options of a verb as they are typed."""
    inner, markers = _bare(kind)
    bare = bare or tyro.conf.OmitArgPrefixes in markers
    hints = get_type_hints(inner, include_extras=True)
    for each in fields(inner):
        of, marks = _bare(hints[each.name])
        if tyro.conf.Positional in marks:
            continue
        name = next((given for mark in marks if (given := getattr(mark, "name", None)) is not None), each.name).replace("_", "-")
        if is_dataclass(of):
            without = bare or not name or tyro.conf.OmitArgPrefixes in marks
            yield from flags(of, prefix if without else f"{prefix}{name}.", bare=bare)
        else:
            yield f"--{prefix}{name}"


def _bare(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what is annotated, and what is."""
    return (get_args(kind)[0], tuple(kind.__metadata__)) if get_origin(kind) is Annotated else (kind, ())
