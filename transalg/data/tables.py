"""Tables, CSV and TSV: their rows, and which columns hold the text, the label, the source and the target, by name or by number."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transalg.data.builtin import Kind
from transalg.data.files import LONGEST, Progress, lines, no_progress, suffix
from transalg.terminal import listed, short

DELIMITERS = {".csv": ",", ".tsv": "\t"}
COLUMNS: dict[Kind, tuple[str, ...]] = {"documents": ("text",), "pairs": ("source", "target"), "labelled": ("text", "label")}
HINTS: dict[Kind, str] = {
    "documents": "name yours with --text-column",
    "pairs": "name yours with --source-column and --target-column",
    "labelled": "name yours with --text-column and --label-column",
}
SAMPLE = 1000  # rows that are looked at to tell a label from a text, and a header from data
REPEATED = 5  # times that labels occur on average, at least, where a label that occurs once in the first line is taken for a header
csv.field_size_limit(LONGEST)
CSV_ERRORS = {  # what Python says, and what it means
    "unexpected end of data": "a quotation mark is opened and never closed",
    "expected after": "something follows a closing quotation mark; write a quotation mark in a cell twice",
    "field larger": f"a cell has more than {LONGEST:,} characters",
}

Row = tuple[int, list[str]]  # its line in the file, its cells


@dataclass(frozen=True)
class TableLayout:
    """Where the values of a record stand in the rows of a table."""

    positions: tuple[int, ...]  # of the columns, from 0, in the order of their names
    header: bool  # the first row has the names of the columns
    width: int | None = None  # columns of every row, where that is known
    note: str = ""  # what was chosen for the user

    def values(self, path: Path, line: int, cells: list[str]) -> tuple[str, ...]:
        """The values of a row."""
        if self.width is not None:
            check_width(path, line, cells, self.width)
        if len(cells) <= max(self.positions):
            raise ValueError(f"{path}:{line}: expected at least {max(self.positions) + 1} columns, got {len(cells)}")
        return tuple(cells[position] for position in self.positions)


def rows(path: Path, progress: Progress = no_progress, errors: str = "strict") -> Iterator[Row]:
    """The rows of a table, the header among them. In tab-separated files quotes are characters like any others."""
    delimiter = DELIMITERS[suffix(path)]
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader((line + "\n" for _, line in lines(path, progress, errors)), delimiter=delimiter, quoting=quoting, strict=True)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        meaning = next((words for said, words in CSV_ERRORS.items() if said in str(error)), "a row cannot be read")
        raise ValueError(f"{path}:{reader.line_num}: not CSV: {meaning}") from error


def check_width(path: Path, line: int, cells: Sequence[str], width: int) -> None:
    """A ValueError for a row that has more or fewer cells than the first one: its values stand in other columns, maybe."""
    if len(cells) != width:
        raise ValueError(
            f"{path}:{line}: expected {width} columns, as in the first row, got {len(cells)}; quote a cell that has the delimiter in it"
        )


def check_header(path: Path, line: int, names: Sequence[str]) -> None:
    """A ValueError if two columns have one name: which of them is meant?"""
    for i, name in enumerate(names):
        if name.strip() and name in names[:i]:
            raise ValueError(
                f"{path}:{line}: expected columns of different names, got {short(name, 60)!r} twice, "
                f"columns {names.index(name) + 1} and {i + 1}; rename one, or give numbers of columns"
            )


def layout(path: Path, kind: Kind, columns: Sequence[str], sample: Sequence[Row], hint: str | None = None) -> TableLayout:
    """Which columns of a table to read, from what the user calls them and the first rows.

    A number is the position of a column, from 1. Otherwise the first row is a header with the names of the columns. A table of two columns
    that has none of the names `transalg` looks for unasked is read by position: source and target, or label and text. The label is then the
    column with fewer distinct values; of equally many the one with less text; otherwise the first.
    """
    line, first = sample[0]
    names = [name for name in columns if not _is_number(name)]
    if not names:
        return _by_number(path, kind, [int(name) - 1 for name in columns], sample)
    if kind != "documents" and len(first) == 2 and tuple(columns) == COLUMNS[kind] and not _names_columns(first):
        return _by_position(path, kind, sample)
    for name in names:
        if name not in first:
            raise ValueError(
                f"{path}:{line}: expected a column {short(name, 60)!r}, got {listed(first)}; {hint or HINTS[kind]}, or give the number of the column, from 1"
            )
    check_header(path, line, first)
    positions = tuple(int(name) - 1 if _is_number(name) else first.index(name) for name in columns)
    return TableLayout(positions, header=True, width=len(first))


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and int(name) > 0


def _names_columns(cells: Sequence[str]) -> bool:
    """Whether one of the cells is, in capitals or not, a name that `transalg` gives to columns."""
    return any(cell.strip().casefold() in names for cell in cells for names in COLUMNS.values())


def _by_number(path: Path, kind: Kind, positions: Sequence[int], sample: Sequence[Row]) -> TableLayout:
    _, first = sample[0]
    header = _names_columns([first[i] for i in positions if i < len(first)])
    if kind == "labelled":
        header = header or _heads_labels(sample, positions[1])
    numbers = " and ".join(str(i + 1) for i in positions)
    note = f"{path}: columns by number ({' and '.join(COLUMNS[kind])}: {numbers}); the first line is {'a header' if header else 'data'}"
    return TableLayout(tuple(positions), header, width=len(first), note=note)


def _by_position(path: Path, kind: Kind, sample: Sequence[Row]) -> TableLayout:
    if kind == "pairs":
        note = f"{path}: no header with source and target; the first column is read as source, the second as target"
        return TableLayout((0, 1), header=False, width=2, note=note)
    label = min((0, 1), key=lambda column: _variety([cells[column] for _, cells in sample if len(cells) == 2]))
    header = _heads_labels(sample, label)
    order = (
        "the first column is read as label, the second as text" if label == 0 else "the first column is read as text, the second as label"
    )
    note = f"{path}: no header with text and label; {order}{'; the first line is taken for a header' if header else ''}"
    return TableLayout((1 - label, label), header, width=2, note=note)


def _variety(values: Sequence[str]) -> tuple[int, int]:
    """How many distinct values, and how much text."""
    return len(set(values)), sum(map(len, values))


def _heads_labels(sample: Sequence[Row], column: int) -> bool:
    """Whether the first row heads a column of labels: its cell occurs once, while others occur again and again."""
    first, *others = (cells[column] if column < len(cells) else "" for _, cells in sample)
    return bool(others) and first not in others and len(set(others)) * REPEATED <= len(others)
