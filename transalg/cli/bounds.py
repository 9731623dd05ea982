"""What the numbers and texts of the command line may be: the bounds stand in an option's annotation, help states them, every verb is checked."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from transalg.checks import within
from transalg.limits import limits
from transalg.terminal import short, shown

HALF = re.compile("[\ud800-\udfff]")  # what Python decodes bytes to that are no characters
SEEDS = "[0, 9223372036854775807]"


Seed = Annotated[int, limits(SEEDS)]
MaybeSeed = Annotated[int | None, limits(SEEDS)]
Tau = Annotated[float, limits("[0, ∞]", float)]
MaybeTau = Annotated[float | None, limits("[0, ∞]", float)]
TopK = Annotated[int | None, limits("[1, 1000000000]")]
TopP = Annotated[float | None, limits("(0, 1]", float)]
Penalty = Annotated[float, limits("(0, 1000]", float)]
Count = Annotated[int, limits("[1, 100000]")]  # of what takes memory for each: samples, votes
MaybeCount = Annotated[int | None, limits("[1, 1000000]")]
Beams = Annotated[int, limits("[1, 1000]")]
MaybeBeams = Annotated[int | None, limits("[1, 1000]")]
Tokens = Annotated[int, limits("[0, 1000000]")]
MaybeTokens = Annotated[int | None, limits("[1, 1000000]")]
Size = Annotated[int, limits("[1, 1000000000]")]
Share = Annotated[float, limits("[0, 1)", float)]
MaybeShare = Annotated[float | None, limits("[0, 1)", float)]


def check_values(verb: Any, prefix: str = "") -> None:
    """A ValueError for a number that is out of its bounds, or for a text that is no text."""
    hints = get_type_hints(type(verb), include_extras=True)
    for each in fields(verb):
        value, kind, marks = getattr(verb, each.name), *_parts(hints[each.name])
        option = f"--{prefix}{each.name.replace('_', '-')}"
        interval: str | None = next((found for mark in marks if (found := getattr(mark, "interval", None))), None)
        if is_dataclass(value):
            check_values(value)
        elif interval is not None and value is not None:
            within(option, value, interval, whole=int in kind)
        for text in _texts(value):
            if (found := HALF.search(text)) and not _is_path(text):
                raise ValueError(f"{option}: expected UTF-8, got {shown(found.group())} in '{shown(short(text, 60))}'")


def _is_path(text: str) -> bool:
    """Whether there is a file of this name, which may have any bytes."""
    try:
        return Path(text).exists()
    except OSError:  # too long for a name
        return False


def _texts(value: object) -> Iterator[str]:
    """The strings of an option; a path may have any bytes."""
    yield from (one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, str))


def _parts(kind: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The types that an option may have, and what is annotated."""
    inner, marks = (get_args(kind)[0], tuple(kind.__metadata__)) if get_origin(kind) is Annotated else (kind, ())
    return get_args(inner) if get_origin(inner) in (Union, type(int | str)) else (inner,), marks
