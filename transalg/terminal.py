"""What is printed: every string from outside passes `shown`, so that a terminal shows it and never obeys it; one console for all of it.

>>> print(shown("a\\x1b[2Jb"), shown("[/oops]"), marked("[/oops]"))
a\\x1b[2Jb [/oops] \\[/oops]
"""

import re
from collections.abc import Collection, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

# What a terminal obeys: control characters but tab and newline, what turns the direction of writing, other line ends; and halves of characters
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
NARROWEST = 20  # columns that are written to, however narrow a terminal says it is
LISTED, LONGEST = 12, 200  # names in a list, and characters of a value, that a message has


def shown(text: object) -> str:
    """A text as a terminal can show it: what it would obey is written as Python writes it, and bytes that are no characters as bytes."""
    return OBEYED.sub(_written, str(text))


def _written(obeyed: re.Match[str]) -> str:
    number = ord(obeyed.group())
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8, as Python decodes it
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def marked(text: object) -> str:
    """The same for a string with markup around it: [bold] in the text is no markup."""
    return escape(shown(text))


def listed(names: Iterable[object], most: int = LISTED) -> str:
    """Names with commas between; of many the first, and how many more there are.

    >>> listed("abc"), listed(range(1000), most=3)
    ('a, b, c', '0, 1, 2 and 997 more')
    """
    every = names if isinstance(names, Collection) else list(names)
    first = ", ".join(short(name, 40) for name, _ in zip(every, range(most), strict=False))
    return first if len(every) <= most else f"{first} and {len(every) - most:,} more"


def short(value: object, most: int = LONGEST) -> str:
    """A value of any length in a message: its beginning and its end.

    >>> short("abcdefghijk", 7)
    'abc…ijk'
    """
    text = str(value)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def in_picture(text: object) -> str:
    """A text in a picture, where dollar signs would begin mathematics."""
    return shown(short(text, 40)).replace("$", r"\$")


class PlainConsole(Console):
    """A console that obeys nothing in what it prints: no markup unless asked, no emoji codes, no control characters but its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            obeys = segment.control is None and OBEYED.search(segment.text)
            yield Segment(shown(segment.text), segment.style) if obeys else segment

    def render_str(self, text: str, **options: Any) -> Text:
        """Before it is measured, for the width of a table's column."""
        return super().render_str(shown(text), **options)

    def on_broken_pipe(self) -> None:
        """Who reads the output may leave: the command decides what that means, where Console would exit with 1."""
        raise BrokenPipeError


def console(*, stderr: bool = False, soft_wrap: bool = False, **options: Any) -> PlainConsole:
    """Standard output, or standard error. Markup is read where `print` is called with markup=True; then what is filled in passes `marked`."""
    made = PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap, **options)
    if made.width < NARROWEST:
        made.width = NARROWEST
    return made
