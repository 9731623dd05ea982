"""Files of texts to use a model on, a row each: what is wrong with a row is said of that row, and the others are read."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from transalg.data import files, tables
from transalg.data.sources import JSON_LINES, SURROGATE, not_json
from transalg.terminal import listed

ESCAPED = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, as Python's surrogateescape decodes them
HINT = "name yours with --column"


class TextRow(NamedTuple):
    """A row: its number, from 1, and its text or what is wrong with it."""

    number: int
    text: str
    wrong: str = ""


def text_rows(path: Path, column: str, note: Callable[[str], None]) -> Iterator[TextRow]:
    """The rows of a file: of a table those after the header; otherwise lines, of JSON or of text. A header without the column is an error.

    Where a column is given by its number, a note says whether the first line was taken for a header.
    """
    files.check_finite(path)
    suffix = files.suffix(path)
    if suffix in tables.DELIMITERS:
        yield from _of_table(path, column, note)
    elif suffix in JSON_LINES:
        yield from _of_json(files.lines(path, errors="surrogateescape"), column)
    else:
        yield from of_lines(files.lines(path, errors="surrogateescape"))


def of_lines(lines: Iterable[tuple[int, str]]) -> Iterator[TextRow]:
    """Rows from numbered lines of text."""
    yield from (_row(number, text) for number, text in lines)


def _of_json(lines: Iterable[tuple[int, str]], column: str) -> Iterator[TextRow]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield TextRow(number, line, _not_utf8(line) or not_json(error))
            continue
        if not isinstance(values, dict):
            yield TextRow(number, line, f"expected a JSON object with a name for every value, got {type(values).__name__}")
        elif column in values and values[column] is None:
            yield TextRow(number, line, f"expected a text as {column!r}, got null")
        elif (value := values.get(column)) is None:
            names = listed([name for name, one in values.items() if one is not None])
            yield TextRow(number, line, f"expected a column {column!r}, got {names or 'none'}; {HINT}")
        else:
            yield _row(number, value if isinstance(value, str) else json.dumps(value))


def _of_table(path: Path, column: str, note: Callable[[str], None]) -> Iterator[TextRow]:
    rows = tables.rows(path, errors="surrogateescape")
    sample = list(islice(rows, tables.SAMPLE))
    if not sample:
        return
    layout = tables.layout(path, "documents", (column,), sample, HINT)
    if layout.note:
        note(layout.note)
    for number, (line, cells) in enumerate(chain(sample[layout.header :], rows), 1):
        try:
            (text,) = layout.values(path, line, cells)
        except ValueError as error:
            yield TextRow(number, "", str(error).removeprefix(f"{path}:{line}: "))
        else:
            yield _row(number, text)


def _row(number: int, text: str) -> TextRow:
    if SURROGATE.search(text):
        return TextRow(number, text, _not_utf8(text) or "half of a surrogate pair, which is no character")
    return TextRow(number, text, "" if text.strip() else "expected a text, got none")


def _not_utf8(text: str) -> str:
    byte = ESCAPED.search(text)
    return f"expected UTF-8, got the byte 0x{ord(byte.group()) - 0xDC00:02x}" if byte else ""
