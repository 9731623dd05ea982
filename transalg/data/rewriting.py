"""Records that are read from a file and written in the same form: their texts may change, everything else stays."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transalg.data import files, tables
from transalg.data.builtin import Kind
from transalg.data.files import Progress, no_progress
from transalg.data.sources import JSON_LINES, SURROGATE, DocumentUnit, Record, Source, named_rows
from transalg.terminal import listed

Breaks = Literal["all", "lines", "none"]  # that a text may have: blank lines too, only line ends, or neither line ends nor tabs
TABULAR = (*JSON_LINES, *tables.DELIMITERS)


class Item(NamedTuple):
    """A record, and the row that it was read from."""

    texts: tuple[str, ...]  # x; or z and x
    label: str | None
    where: str  # file:line
    row: Any = None


@dataclass(frozen=True)
class Form(ABC):
    """How records stand in a file."""

    source: Source

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.source.name)

    @property
    def breaks(self) -> Breaks:
        """What a text can have in a file of this form."""
        return "all"

    @property
    def between(self) -> str:
        """What stands between two records, besides the end of a line."""
        return ""

    def head(self) -> str:
        """What stands before the records."""
        return ""

    def items(self, progress: Progress = no_progress) -> Iterator[Item]:
        """All records in order."""
        return (Item(record.texts, record.label, record.where) for record in self.source.records(progress))

    @abstractmethod
    def written(self, item: Item, texts: tuple[str, ...]) -> str:
        """The lines of a record with these texts."""


@dataclass(frozen=True)
class Documents(Form):
    """Text files: a document is a file, a paragraph or a line. They are written as text, or as JSON lines."""

    as_json: bool = False

    @property
    def breaks(self) -> Breaks:
        by_unit: dict[DocumentUnit, Breaks] = {"file": "all", "paragraph": "lines", "line": "none"}
        return "all" if self.as_json else by_unit[self.source.unit]

    @property
    def between(self) -> str:
        return "\n" if self.source.unit == "paragraph" and not self.as_json else ""

    def items(self, progress: Progress = no_progress) -> Iterator[Item]:
        if self.source.unit != "file":
            return super().items(progress)
        texts = ((path, files.whole(path, progress)) for path in self.source.files())
        return (Item((text.removesuffix("\n"),), None, str(path)) for path, text in texts)

    def written(self, item: Item, texts: tuple[str, ...]) -> str:
        return (json.dumps({self.source.columns[0]: texts[0]}, ensure_ascii=False) if self.as_json else texts[0]) + "\n"


@dataclass(frozen=True)
class TabSeparated(Form):
    """A text file whose lines are source, tab, target; or label, tab, text."""

    @property
    def breaks(self) -> Breaks:
        return "none"

    def written(self, item: Item, texts: tuple[str, ...]) -> str:
        return "\t".join(texts if item.label is None else (item.label, *texts)) + "\n"


@dataclass(frozen=True)
class JSONLines(Form):
    """An object a line. A line whose texts stay is written as it is."""

    def items(self, progress: Progress = no_progress) -> Iterator[Item]:
        rows = ((f"{self.path}:{line}", text) for line, text in files.lines(self.path) if text.strip())
        for record, (where, row) in zip_longest(self.source.records(progress), rows, fillvalue=("", "")):
            if not isinstance(record, Record) or record.where != where:
                raise ValueError(
                    f"{where or self.path}: expected one text in every column, got a list of texts; give each a line of its own"
                )
            yield Item(record.texts, record.label, record.where, row)

    def written(self, item: Item, texts: tuple[str, ...]) -> str:
        if texts == item.texts:
            return f"{item.row}\n"
        changed = dict(zip(self.source.columns, texts, strict=False))  # the label stays
        line = json.dumps(json.loads(item.row) | changed, ensure_ascii=False)
        if SURROGATE.search(line):
            raise ValueError(f"{item.where}: half of a surrogate pair, which is no character")
        return line + "\n"


@dataclass(frozen=True)
class Table(Form):
    """CSV or TSV, with a header or without."""

    @property
    def _delimiter(self) -> str:
        return tables.DELIMITERS[files.suffix(self.path)]

    @property
    def breaks(self) -> Breaks:
        return "none" if self._delimiter == "\t" else "all"

    def _layout(self) -> tuple[tables.TableLayout, list[str]]:
        """Where the columns are, and the first row."""
        sample = list(islice(tables.rows(self.path), tables.SAMPLE))
        if not sample:
            raise ValueError(f"{self.path}: expected rows, got none")
        return tables.layout(self.path, self.source.kind, self.source.columns, sample), sample[0][1]

    def head(self) -> str:
        layout, first = self._layout()
        return self._line(first) if layout.header else ""

    def items(self, progress: Progress = no_progress) -> Iterator[Item]:
        layout, _ = self._layout()
        for line, cells in islice(tables.rows(self.path, progress), int(layout.header), None):
            values = layout.values(self.path, line, cells)
            texts, label = (values[:1], values[1]) if self.source.kind == "labelled" else (values, None)
            yield Item(texts, label, f"{self.path}:{line}", (cells, layout.positions))

    def written(self, item: Item, texts: tuple[str, ...]) -> str:
        cells, positions = list(item.row[0]), item.row[1]
        for position, text in zip(positions, texts, strict=False):  # the label stays
            cells[position] = text
        return self._line(cells)

    def _line(self, cells: Sequence[str]) -> str:
        if self._delimiter == "\t":  # quotes are characters like any others
            return "\t".join(cells) + "\n"
        buffer = io.StringIO()
        csv.writer(buffer).writerow(cells)  # cells with either of the characters of its line end, \r\n, are quoted
        return buffer.getvalue().removesuffix("\r\n") + "\n"


def form(data: Path, out: Path, names: Mapping[str, str], kind: Kind | None = None, unit: DocumentUnit = "file") -> Form:
    """How to read `data` and to write `out`. `names` are those of the columns; the kind of records, unless stated, follows from them."""
    if not data.exists():
        raise ValueError(f"{data}: no such file or folder")
    files.check_rereadable(data)
    if data.is_dir() or files.suffix(data) not in TABULAR:
        return _of_text(data, out, names, kind or "documents", unit)
    if files.suffix(out) != files.suffix(data):
        raise ValueError(f"--out: expected a file of the form of the data, *{files.suffix(data)}, got {out}")
    kind = kind or _kind(data, names)
    source = Source(str(data), kind, tuple(names[name] for name in tables.COLUMNS[kind]))
    return JSONLines(source) if files.suffix(data) in JSON_LINES else Table(source)


def _of_text(data: Path, out: Path, names: Mapping[str, str], kind: Kind, unit: DocumentUnit) -> Form:
    source = Source(str(data), kind, tuple(names[name] for name in tables.COLUMNS[kind]), unit if kind == "documents" else "file")
    as_json = files.suffix(out) in JSON_LINES and kind == "documents"
    if kind != "documents" and data.is_dir():
        raise ValueError(f"{data}: expected a file of lines with {' and '.join(tables.COLUMNS[kind])}, got a folder")
    if files.suffix(out) in TABULAR and not as_json:
        raise ValueError(f"--out: expected a text file{' or JSON lines' if kind == 'documents' else ', as the data'}, got {out}")
    for path in source.files():
        if files.suffix(path) in TABULAR:
            raise ValueError(f"{path}: expected only text files in a folder; clean a table or JSON lines alone")
    if kind != "documents":
        return TabSeparated(source)
    if unit == "file" and data.is_dir() and not as_json:
        raise ValueError(f"--out: expected a .jsonl for the files of a folder, which a text file cannot keep apart, got {out}")
    return Documents(source, as_json)


def _kind(path: Path, names: Mapping[str, str]) -> Kind:
    """The kind of records that a table or JSON lines have, by the names of the columns in the first row."""
    if files.suffix(path) in JSON_LINES:
        first = [name for _, row in islice(named_rows(path), 1) for name in row]
    else:
        first = [cell for _, cells in islice(tables.rows(path), 1) for cell in cells]
    kinds: tuple[Kind, ...] = ("pairs", "labelled", "documents")
    for kind in kinds:
        if all(names[name] in first for name in tables.COLUMNS[kind]):
            return kind
    raise ValueError(
        f"{path}: expected columns text, text and label, or source and target; got {listed(first) or 'none'}; "
        "name yours with --text-column and its like, or say with --records what the rows are"
    )
