"""Files to records: documents, pairs of texts, labelled texts, one at a time and with file and line for messages."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from transalg.data import files, tables
from transalg.data.builtin import NAMES, Kind
from transalg.data.files import Progress, no_progress
from transalg.terminal import listed

DocumentUnit = Literal["file", "paragraph", "line"]
TooLong = Literal["error", "skip", "cut"]  # what becomes of pairs and labelled texts that are longer than a row of the model
LONGEST = 2**23  # characters without a gap
JSON_LINES = (".jsonl", ".ndjson")
SURROGATE = re.compile("[\ud800-\udfff]")
GAP = re.compile(r"(?<=\S)[ \n]")


class Record(NamedTuple):
    """One document or a piece of one, one pair, or one labelled text."""

    texts: tuple[str, ...]  # x; or z and x
    label: str | None = None
    where: str = ""  # file:line
    begins: bool = True  # a document begins with this piece
    ends: bool = True  # and ends with it


@dataclass(frozen=True)
class Source:
    """Where records come from: a file, a folder, or the name of built-in data; and how to read them."""

    name: str
    kind: Kind
    columns: tuple[str, ...] = ("text",)  # names, in tables also numbers from 1: of z and x for pairs, of text and label for labelled texts
    unit: DocumentUnit = "file"  # what a document is in a text file

    def __post_init__(self) -> None:
        if len(self.columns) != (1 if self.kind == "documents" else 2):
            raise ValueError(f"columns: expected {1 if self.kind == 'documents' else 2} names for {self.kind}, got {self.columns}")
        if not self.builtin and not Path(self.name).exists():
            known = ", ".join(one for one, data in NAMES.items() if data.kind == self.kind)
            raise ValueError(f"{self.name}: no such file or folder, nor built-in data ({known})")
        if not self.builtin:
            files.check_rereadable(Path(self.name))
        if self.builtin and NAMES[self.name].kind != self.kind:
            raise ValueError(f"{self.name}: these are {WORDS[NAMES[self.name].kind]}; expected {WORDS[self.kind]}")

    @property
    def builtin(self) -> bool:
        return self.name in NAMES and not Path(self.name).exists()

    def records(self, progress: Progress = no_progress) -> Iterator[Record]:
        """All records in order."""
        empty = True
        for record in self._builtin() if self.builtin else self._files(progress):
            empty = empty and not any(text.strip() for text in record.texts)
            yield record
        if empty:
            raise ValueError(f"{self.name}: expected {WORDS[self.kind]}, got nothing but white space")

    def notes(self) -> list[str]:
        """What the user should know about how tables are read: which columns were chosen where none was named."""
        if self.builtin:
            return []
        samples = (
            (path, list(islice(tables.rows(path), tables.SAMPLE))) for path in self.files() if files.suffix(path) in tables.DELIMITERS
        )
        notes = (tables.layout(path, self.kind, self.columns, sample).note for path, sample in samples if sample)
        return [note for note in notes if note]

    def size(self) -> int:
        """Bytes to read; 0 for built-in data."""
        return 0 if self.builtin else sum(path.stat().st_size for path in self.files())

    def digest(self) -> str:
        """A hash of all that records depend on."""
        hashed = hashlib.blake2b(repr((self.kind, self.columns, self.unit)).encode(), digest_size=16)
        if self.builtin:
            for record in self.records():
                hashed.update(json.dumps(record).encode())
            return hashed.hexdigest()
        root = Path(self.name)
        for path in self.files():
            hashed.update(f"{path.relative_to(root) if root.is_dir() else path.suffixes}\n{path.stat().st_size}\n".encode())
            with open(path, "rb") as file:
                while block := file.read(files.BLOCK):
                    hashed.update(block)
        return hashed.hexdigest()

    def files(self) -> list[Path]:
        """The files to read, in order; hidden ones are left out."""
        root = Path(self.name)
        if not root.is_dir():
            return [root]
        inside = sorted(path for path in root.rglob("*") if path.is_file())
        visible = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(root).parts)]
        if not visible:
            raise ValueError(f"{root}: expected files in this folder, got none")
        return visible

    def where(self, index: int) -> str:
        """Where a record is, counted from 0: file and line."""
        if self.builtin:
            return f"{self.name}, record {index + 1}"
        return next(record.where for i, record in enumerate(self.records()) if i == index)

    def _builtin(self) -> Iterator[Record]:
        for i, record in enumerate(NAMES[self.name].make(), 1):
            values = (record,) if isinstance(record, str) else tuple(record)
            yield self._record(values, f"{self.name}, record {i}")

    def _record(self, values: tuple[str, ...], where: str) -> Record:
        """A record from its values, in the order of `columns`."""
        return Record(values[:1], values[1], where) if self.kind == "labelled" else Record(values, where=where)

    def _files(self, progress: Progress) -> Iterator[Record]:
        root = Path(self.name)
        for path in self.files():
            suffix = files.suffix(path)
            if suffix in JSON_LINES:
                yield from self._json_lines(path, progress)
            elif suffix in tables.DELIMITERS:
                yield from self._table(path, progress)
            elif self.kind == "documents":
                yield from _documents(path, self.unit, progress)
            elif self.kind == "labelled" and root.is_dir() and path.parent != root:
                text = files.whole(path, progress)
                yield Record((text,), path.relative_to(root).parts[0], f"{path}:1")
            else:
                yield from self._tab_separated(path, progress)

    def _json_lines(self, path: Path, progress: Progress) -> Iterator[Record]:
        for line, row in _json_objects(path, progress):
            for column in self.columns:
                if column in row and row[column] is None:
                    raise ValueError(f"{path}:{line}: expected a text as {column!r}, got null")
                if column not in row:
                    names = listed([name for name, value in row.items() if value is not None])
                    raise ValueError(f"{path}:{line}: expected a column {column!r}, got {names or 'none'}; {tables.HINTS[self.kind]}")
            first, *others = (row[column] for column in self.columns)
            targets = others[0] if self.kind == "pairs" and isinstance(others[0], list) else others  # a pair for each of several targets
            if self.kind == "pairs" and not targets:
                raise ValueError(f"{path}:{line}: expected a text or several as {self.columns[1]!r}, got an empty list")
            for values in [(first, target) for target in targets] if others else [(first,)]:
                texts = tuple(value if isinstance(value, str) else json.dumps(value) for value in values)
                if any(SURROGATE.search(text) for text in texts):
                    raise ValueError(f"{path}:{line}: half of a surrogate pair, which is no character")
                yield self._record(texts, f"{path}:{line}")

    def _table(self, path: Path, progress: Progress) -> Iterator[Record]:
        rows = tables.rows(path, progress)
        sample = list(islice(rows, tables.SAMPLE))
        if sample:
            layout = tables.layout(path, self.kind, self.columns, sample)
            for line, cells in chain(sample[layout.header :], rows):
                yield self._record(layout.values(path, line, cells), f"{path}:{line}")

    def _tab_separated(self, path: Path, progress: Progress) -> Iterator[Record]:
        """Lines of source, tab, target; or of label, tab, text."""
        for line, text in files.lines(path, progress):
            if not text:
                continue
            first, tab, second = text.partition("\t")
            if not tab:
                expected = "source, a tab, target" if self.kind == "pairs" else "label, a tab, text"
                raise ValueError(f"{path}:{line}: expected {expected}, got no tab")
            yield self._record((first, second) if self.kind == "pairs" else (second, first), f"{path}:{line}")


WORDS = {"documents": "documents", "pairs": "pairs of texts", "labelled": "texts with labels", "episodes": "episodes"}


def named_rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The rows of JSON lines, or of a table with a header, each with its line, its values by their names."""
    if files.suffix(path) in JSON_LINES:
        yield from _json_objects(path, no_progress)
        return
    rows = tables.rows(path)
    for first, header in islice(rows, 1):
        tables.check_header(path, first, header)
        for line, cells in rows:
            tables.check_width(path, line, cells, len(header))
            yield line, dict(zip(header, cells, strict=True))


def not_json(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that is no JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg[0].lower()}{error.msg[1:]} at character {error.pos + 1:,}"
    return "not JSON that can be read: nested too deeply, or a number of too many digits"


def _json_objects(path: Path, progress: Progress) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, text in files.lines(path, progress):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: {not_json(error)}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{line}: expected a JSON object with a name for every value, got {type(row).__name__}")
        yield line, row


def _documents(path: Path, unit: DocumentUnit, progress: Progress) -> Iterator[Record]:
    if unit == "file":
        yield from _pieces(files.blocks(path, progress), str(path))
    elif unit == "line":
        yield from (Record((text,), where=f"{path}:{line}") for line, text in files.lines(path, progress) if text.strip())
    else:
        yield from _paragraphs(path, progress)


def _paragraphs(path: Path, progress: Progress) -> Iterator[Record]:
    start, paragraph = 1, list[str]()
    for line, text in files.lines(path, progress):
        if text.strip():
            start = start if paragraph else line
            paragraph.append(text)
        elif paragraph:
            yield Record(("\n".join(paragraph),), where=f"{path}:{start}")
            paragraph = []
    if paragraph:
        yield Record(("\n".join(paragraph),), where=f"{path}:{start}")


def _pieces(blocks: Iterator[str], where: str) -> Iterator[Record]:
    """One document in pieces that can be tokenised apart: no token of a vocabulary made here spans a position where white space begins."""
    begins, rest = True, ""
    for block in blocks:
        rest += block
        at = last_gap(rest) if len(rest) >= files.BLOCK // 2 else 0
        if not at and len(rest) > LONGEST:
            at = len(rest)  # no gap: cut in the middle
        if at:
            yield Record((rest[:at],), where=where, begins=begins, ends=False)
            begins, rest = False, rest[at:]
    yield Record((rest,), where=where, begins=begins)


def last_gap(text: str) -> int:
    """The last position, but for the very end, where white space follows a word; 0 if there is none."""
    for first in (max(0, len(text) - 4096), 0):
        gaps = [gap.start() for gap in GAP.finditer(text, first)]
        if gaps:
            return gaps[-1]
    return 0
