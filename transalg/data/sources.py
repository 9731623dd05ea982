"""Files to records: documents, pairs of texts, labelled texts, one at a time and with their place for messages."""

import codecs
import csv
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from transalg.data.builtin import NAMES

Kind = Literal["documents", "pairs", "labelled"]
Cut = Literal["file", "paragraph", "line"]
TooLong = Literal["error", "skip", "cut"]  # what becomes of pairs and labelled texts that no model row has room for
BLOCK = 2**16  # bytes read at a time, and about the piece of a document that is tokenised at once
LONGEST = 2**23  # characters without a gap
JSON_LINES = (".jsonl", ".ndjson")
TABLES = {".csv": ",", ".tsv": "\t"}
SURROGATE = re.compile("[\ud800-\udfff]")
GAP = re.compile(r"(?<=\S)[ \n]")
csv.field_size_limit(2**31 - 1)


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
    columns: tuple[str, ...] = ("text",)  # of tables and JSON lines; for pairs z and x, for labelled texts text and label
    cut: Cut = "file"  # what a document is in a text file

    def __post_init__(self) -> None:
        if len(self.columns) != (1 if self.kind == "documents" else 2):
            raise ValueError(f"columns: expected {1 if self.kind == 'documents' else 2} names for {self.kind}, got {self.columns}")
        if not self.builtin and not Path(self.name).exists():
            known = ", ".join(one for one, data in NAMES.items() if data.kind == self.kind)
            raise ValueError(f"{self.name}: no such file or folder, nor built-in data ({known})")
        if self.builtin and NAMES[self.name].kind != self.kind:
            raise ValueError(f"{self.name}: these are {WORDS[NAMES[self.name].kind]}; expected {WORDS[self.kind]}")

    @property
    def builtin(self) -> bool:
        return self.name in NAMES and not Path(self.name).exists()

    def records(self, progress: Callable[[int], object] = lambda _: None) -> Iterator[Record]:
        """All records in order; progress hears of every byte that was read."""
        some = False
        for record in self._builtin() if self.builtin else self._files(progress):
            some = some or any(text.strip() for text in record.texts)
            yield record
        if not some:
            raise ValueError(f"{self.name}: expected {WORDS[self.kind]}, got nothing but white space")

    def size(self) -> int:
        """Bytes to read; 0 for built-in data."""
        return 0 if self.builtin else sum(path.stat().st_size for path in self.files())

    def digest(self) -> str:
        """A hash of all that records depend on."""
        found = hashlib.blake2b(repr((self.kind, self.columns, self.cut)).encode(), digest_size=16)
        if self.builtin:
            for record in self.records():
                found.update(json.dumps(record).encode())
            return found.hexdigest()
        root = Path(self.name)
        for path in self.files():
            found.update(f"{path.relative_to(root) if root.is_dir() else path.suffixes}\n{path.stat().st_size}\n".encode())
            with open(path, "rb") as file:
                while block := file.read(BLOCK):
                    found.update(block)
        return found.hexdigest()

    def files(self) -> list[Path]:
        """The files to read, in order; hidden ones are left out."""
        root = Path(self.name)
        if not root.is_dir():
            return [root]
        inside = sorted(path for path in root.rglob("*") if path.is_file())
        found = [path for path in inside if not any(part.startswith(".") for part in path.relative_to(root).parts)]
        if not found:
            raise ValueError(f"{root}: expected files in this folder, got none")
        return found

    def where(self, index: int) -> str:
        """The place of a record, counted from 0."""
        if self.builtin:
            return f"{self.name}, record {index + 1}"
        return next(record.where for i, record in enumerate(self.records()) if i == index)

    def _builtin(self) -> Iterator[Record]:
        for i, record in enumerate(NAMES[self.name].make(), 1):
            where = f"{self.name}, record {i}"
            if self.kind == "documents":
                yield Record((record,), where=where)
            else:
                yield Record(tuple(record), where=where) if self.kind == "pairs" else Record((record[0],), record[1], where)

    def _files(self, progress: Callable[[int], object]) -> Iterator[Record]:
        root = Path(self.name)
        for path in self.files():
            format = _format(path)
            if format in (*JSON_LINES, *TABLES):
                yield from self._named(named_rows(path, progress), path)
            elif self.kind == "documents":
                yield from _documents(path, self.cut, progress)
            elif self.kind == "labelled" and root.is_dir() and path.parent != root:
                text = "".join(_blocks(path, progress))
                yield Record((text,), path.relative_to(root).parts[0], f"{path}:1")
            else:
                yield from self._tab_separated(path, progress)

    def _named(self, rows: Iterator[tuple[int, dict[str, Any]]], path: Path) -> Iterator[Record]:
        for line, row in rows:
            for column in self.columns:
                if row.get(column) is None:
                    has = ", ".join(str(name) for name, value in row.items() if value is not None and name is not None)
                    raise ValueError(f"{path}:{line}: expected a column {column!r}, got {has or 'none'}; {OPTIONS[self.kind]}")
            values = tuple(value if isinstance(value := row[column], str) else json.dumps(value) for column in self.columns)
            where = f"{path}:{line}"
            if any(SURROGATE.search(value) for value in values):
                raise ValueError(f"{where}: half of a surrogate pair, which is no character")
            yield Record((values[0],), values[1], where) if self.kind == "labelled" else Record(values, where=where)

    def _tab_separated(self, path: Path, progress: Callable[[int], object]) -> Iterator[Record]:
        """Lines of source, tab, target; or of label, tab, text."""
        for line, text in _lines(path, progress):
            if not text:
                continue
            first, tab, second = text.partition("\t")
            if not tab:
                expected = "source, a tab, target" if self.kind == "pairs" else "label, a tab, text"
                raise ValueError(f"{path}:{line}: expected {expected}, got no tab")
            where = f"{path}:{line}"
            yield Record((first, second), where=where) if self.kind == "pairs" else Record((second,), first, where)


WORDS = {"documents": "documents", "pairs": "pairs of texts", "labelled": "texts with labels"}
OPTIONS = {
    "documents": "name yours with --text-column",
    "pairs": "name yours with --source-column and --target-column",
    "labelled": "name yours with --text-column and --label-column",
}


def _format(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def named_rows(path: Path, progress: Callable[[int], object] = lambda _: None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of JSON lines or of a table, each with its line, its values by their names."""
    format = _format(path)
    return _json_lines(path, progress) if format in JSON_LINES else _table(path, TABLES[format], progress)


class _Watched:
    """A file that tells of the bytes read from it."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], object]) -> None:
        self.file, self.progress = file, progress

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        self.progress(len(block))
        return block


def _blocks(path: Path, progress: Callable[[int], object]) -> Iterator[str]:
    """The text of a file, a block at a time; UTF-8, with or without a byte order mark."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    try:
        with open(path, "rb") as raw:
            watched: Any = _Watched(raw, progress)
            file = gzip.GzipFile(fileobj=watched) if path.suffix.lower() == ".gz" else watched
            while True:
                block = file.read(BLOCK)
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    line += error.object[: error.start].count(b"\n")
                    raise ValueError(
                        f"{path}:{line}: expected UTF-8, got the byte 0x{error.object[error.start]:02x}; convert the file, with iconv say"
                    ) from error
                if text:
                    yield text
                if not block:
                    return
                line += text.count("\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def _lines(path: Path, progress: Callable[[int], object]) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without line ends."""
    number, rest = count(1), list[str]()  # the parts of a line that is not whole
    for block in _blocks(path, progress):
        first, *more = block.split("\n")
        rest.append(first)
        if more:
            yield next(number), "".join(rest).removesuffix("\r")
            *whole, last = more
            yield from ((next(number), line.removesuffix("\r")) for line in whole)
            rest = [last]
    if line := "".join(rest):
        yield next(number), line.removesuffix("\r")


def _json_lines(path: Path, progress: Callable[[int], object]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in _lines(path, progress):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path}:{line}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{line}: expected a JSON object with a name for every value, got {type(row).__name__}")
        yield line, row


def _table(path: Path, delimiter: str, progress: Callable[[int], object]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows by the names in the first line. In tab-separated files quotes are characters like any others."""
    lines = (line + "\n" for _, line in _lines(path, progress))
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.DictReader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.reader.line_num}: not CSV: {error}") from error


def _documents(path: Path, cut: Cut, progress: Callable[[int], object]) -> Iterator[Record]:
    if cut == "file":
        yield from _pieces(_blocks(path, progress), str(path))
    elif cut == "line":
        yield from (Record((text,), where=f"{path}:{line}") for line, text in _lines(path, progress) if text.strip())
    else:
        yield from _paragraphs(path, progress)


def _paragraphs(path: Path, progress: Callable[[int], object]) -> Iterator[Record]:
    start, lines = 1, list[str]()
    for line, text in _lines(path, progress):
        if text.strip():
            start = start if lines else line
            lines.append(text)
        elif lines:
            yield Record(("\n".join(lines),), where=f"{path}:{start}")
            lines = []
    if lines:
        yield Record(("\n".join(lines),), where=f"{path}:{start}")


def _pieces(blocks: Iterator[str], where: str) -> Iterator[Record]:
    """One document in pieces that can be tokenised apart: no token of any tokenizer here spans a place where white space begins."""
    begins, rest = True, ""
    for block in blocks:
        rest += block
        at = last_gap(rest) if len(rest) >= BLOCK // 2 else 0
        if not at and len(rest) > LONGEST:
            at = len(rest)  # somewhere they have to be cut
        if at:
            yield Record((rest[:at],), where=where, begins=begins, ends=False)
            begins, rest = False, rest[at:]
    yield Record((rest,), where=where, begins=begins)


def last_gap(text: str) -> int:
    """The last place, beside the very end, where white space follows what is none; 0 if there is none."""
    for first in (max(0, len(text) - 4096), 0):
        gaps = [gap.start() for gap in GAP.finditer(text, first)]
        if gaps:
            return gaps[-1]
    return 0
