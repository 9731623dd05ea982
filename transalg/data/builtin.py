"""Data that comes with Python: prose to continue, snippets to classify, dates to translate."""

import random
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Kind = Literal["documents", "pairs", "labelled", "episodes"]

PACKAGES = ("asyncio", "ctypes", "email", "http", "importlib", "logging", "multiprocessing", "unittest", "urllib", "xml")
TESTS = {"test", "tests"}
CAP = 400
SHORTEST, LONGEST, CHARACTERS = 5, 8, 300  # lines, lines, and characters of a snippet
IMPORT = re.compile(
    r"^[ \t]*(?:(?:#|>>>|\.\.\.)[ \t]*)?(?:from\b[^\n(]*\bimport[ \t]*\([^)]*\).*|(?:from|import)\b(?:.*\\\n)*.*)$", re.MULTILINE
)
START = re.compile(r" {0,4}(?:@|class |def |async def )")

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONATE = ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember")
WOCHENTAGE = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")
MOIS = ("janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre")
JOURS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
TEENS = ("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth")
ORDINALS = (*UNITS, *TEENS, "twentieth", *(f"twenty-{one}" for one in UNITS), "thirtieth", "thirty-first")
FORMS = (
    "{d} {month} {y}",
    "{dd} {month} {y}",
    "{d} {mon} {y}",
    "{d}-{mon}-{y}",
    "{dd}-{mon}-{y}",
    "{dd}{mon}{y}",
    "{nth} {month} {y}",
    "{nth} of {month} {y}",
    "the {nth} of {month}, {y}",
    "the {ordinal} of {month} {y}",
    "{month} {d}, {y}",
    "{month} {nth}, {y}",
    "{month} the {nth}, {y}",
    "{month} {ordinal}, {y}",
    "{mon} {d}, {y}",
    "{mon}. {dd}, {y}",
    "{y} {month} {d}",
    "{y} {mon} {dd}",
    "{y}-{mon}-{dd}",
    "{y}, {month} {nth}",
    "{weekday}, {d} {month} {y}",
    "{weekday}, {month} {d}, {y}",
    "{weekday} the {nth} of {month} {y}",
    "{wd}, {mon} {d} {y}",
    "{wd}, {dd} {mon} {y}",
    "{wd} {mon} {dd} {y}",
    "{m}/{d}/{y}",
    "{mm}/{dd}/{y}",
    "{d}.{m}.{y}",
    "{dd}.{mm}.{y}",
    "{d}.{roman}.{y}",
    "{y}/{m}/{d}",
    "{y}/{mm}/{dd}",
    "{y}.{mm}.{dd}",
    "{y}{mm}{dd}",
    "{y}年{m}月{d}日",
    "{d}. {monat} {y}",
    "{wochentag}, {d}. {monat} {y}",
    "{wochentag}, den {dd}. {monat} {y}",
    "{nième} {mois} {y}",
    "le {nième} {mois} {y}",
    "{jour} {nième} {mois} {y}",
)
CASES: tuple[Callable[[str], str], ...] = (str, str, str.lower, str.upper)


@dataclass(frozen=True)
class Builtin:
    """A data set by name: what it is, and how to make it."""

    name: str
    kind: Kind
    doc: str
    make: Callable[[], Iterator[str] | Iterator[tuple[str, str]]]


def pydocs() -> Iterator[str]:
    """The prose of Python's own reference, topic by topic in the order of their names. The text is that of the Python that runs."""
    from pydoc_data.topics import topics  # half a megabyte: only when it is needed

    for topic in sorted(topics):
        yield topics[topic].rstrip()


def stdlib() -> Iterator[tuple[str, str]]:
    """Snippets of ten packages of the standard library, each with the package it is from, in one fixed random order.

    At most 400 a package, evenly spaced through its files. The answer is not in the text: lines that begin with import or from are
    left out, and lines that hold the package's name in any case, be it inside a longer word. Neighbours share names all the same: snippets
    held out at random are easier than files held out.
    """
    labelled = []
    for package in PACKAGES:
        sources = [path.read_text(encoding="utf-8") for path in _sources(package)]
        snippets = list(dict.fromkeys(one for source in sources for one in cut(source, package)))
        if not snippets:
            raise FileNotFoundError(f"stdlib: expected the sources of the package {package}, got none")
        size = min(CAP, len(snippets))
        labelled += [(snippets[i * len(snippets) // size], package) for i in range(size)]
    random.Random(0).shuffle(labelled)
    yield from labelled


def _sources(package: str) -> list[Path]:
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    files = [(folder, path) for folder in folders for path in folder.rglob("*.py")]
    return sorted((path for folder, path in files if not TESTS.intersection(path.relative_to(folder).parts)), key=Path.as_posix)


def cut(source: str, package: str) -> list[str]:
    """A file's snippets: 5 to 8 lines and at most 300 characters, empty lines and those that tell the package left out.

    One ends when it is full, or has its 5 lines and a function or a class begins. Shorter rests are dropped.
    """
    pieces: list[list[str]] = [[]]
    for line in IMPORT.sub("", source).splitlines():
        if not line.strip("# \t") or package in line.lower():
            continue
        full = len(pieces[-1]) == LONGEST or len("\n".join([*pieces[-1], line])) > CHARACTERS
        if full or (len(pieces[-1]) >= SHORTEST and START.match(line)):
            pieces.append([])
        pieces[-1].append(line.rstrip())
    return [textwrap.dedent("\n".join(piece)) for piece in pieces if len(piece) >= SHORTEST]


def dates(count: int = 20000, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Dates from 1900 to 2099 as people write them, each with the same as yyyy-mm-dd.

    English for the most part, German, French and Japanese in some forms; capitals, small letters, or both. What is written says the date
    without doubt: slashes are month/day/year and dots are day.month.year, unless the year comes first. A pair may occur twice.
    """
    draw = random.Random(seed)
    for _ in range(count):
        day = date.fromordinal(draw.randint(FIRST.toordinal(), LAST.toordinal()))
        yield draw.choice(CASES)(draw.choice(FORMS).format(**_parts(day))), day.isoformat()


def _parts(day: date) -> dict[str, str]:
    y, m, d = day.year, day.month, day.day
    ending = "th" if d in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    return {
        "y": str(y),
        "m": str(m),
        "mm": f"{m:02}",
        "d": str(d),
        "dd": f"{d:02}",
        "nth": f"{d}{ending}",
        "ordinal": ORDINALS[d - 1],
        "month": MONTHS[m - 1],
        "mon": MONTHS[m - 1][:3],
        "roman": ROMAN[m - 1],
        "weekday": WEEKDAYS[day.weekday()],
        "wd": WEEKDAYS[day.weekday()][:3],
        "monat": MONATE[m - 1],
        "wochentag": WOCHENTAGE[day.weekday()],
        "nième": "1er" if d == 1 else str(d),
        "mois": MOIS[m - 1],
        "jour": JOURS[day.weekday()],
    }


NAMES: dict[str, Builtin] = {
    one.name: one
    for one in (
        Builtin("pydocs", "documents", "Python's own reference: prose, some 80 documents", pydocs),
        Builtin("stdlib", "labelled", "which of ten standard packages is this snippet of code from", stdlib),
        Builtin("dates", "pairs", "dates as people write them, to yyyy-mm-dd", dates),
    )
}
