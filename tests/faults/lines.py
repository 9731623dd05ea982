"""Damage to data files as people make it, and as strangers do: ragged rows, other encodings, hostile labels, bombs."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

BOMB = 2**27  # bytes that unpack from a small file

Change = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Rows:
    """A change of the rows of a data file."""

    file: str
    act: str

    def __str__(self) -> str:
        return f"{self.file}: {self.act}"

    def __call__(self, work: Path) -> None:
        path = work / self.file
        data = path.read_bytes()
        packed = self.file.endswith(".gz")
        changed = _ACTS[self.act](gzip.decompress(data) if packed else data)
        path.write_bytes(gzip.compress(changed, 1) if packed else changed)


def _line(number: int, change: Change) -> Change:
    def act(data: bytes) -> bytes:
        rows = data.split(b"\n")
        rows[number] = change(rows[number])
        return b"\n".join(rows)

    return act


_ACTS: dict[str, Change] = {
    "a ragged row": _line(3, lambda row: row + b",more\tmore"),
    "a short row": _line(3, lambda row: row[:2]),
    "a quote": _line(3, lambda row: b'"' + row),
    "an empty row": _line(3, lambda _: b""),
    "a row of spaces": _line(3, lambda _: b"  \t "),
    "no header": lambda data: data.partition(b"\n")[2],
    "header alone": lambda data: data.partition(b"\n")[0] + b"\n",
    "doubled header": _line(0, lambda row: row + b"," + row + b"\t" + row),
    "other header": _line(0, lambda row: row.replace(b"t", b"\x1b[31m")),
    "doubled columns": _line(0, lambda row: row.replace(b"label", b"text")),
    "bytes that are not UTF-8": lambda data: data.replace(b"cat", b"c\xe4t\xff"),
    "latin-1 row": _line(2, lambda row: row.replace(b"a", b"\xe9")),
    "NUL": lambda data: data.replace(b"cat", b"c\x00t"),
    "surrogates": lambda data: data.replace(b"cat", b"\\ud800").replace(b"dog", b"\xed\xa0\x80"),
    "escapes": lambda data: data.replace(b"cat", b"\x1b]0;title\x07\x1b[2J"),
    "markup": lambda data: data.replace(b"cat", b"[/oops]").replace(b"other", b"[bold red]"),
    "script": lambda data: data.replace(b"cat", b"<!--<script>"),
    "one class": lambda data: data.replace(b"other", b"cat"),
    "many classes": lambda data: b"\n".join(row.replace(b"other", b"other%d" % i) for i, row in enumerate(data.split(b"\n") * 300)),
    "empty labels": lambda data: data.replace(b"cat\t", b"\t").replace(b"cat,", b",").replace(b'"cat"', b'""'),
    "numbers": lambda data: data.replace(b'"cat"', b"NaN").replace(b'"other"', b"1e999"),
    "null": lambda data: data.replace(b'"cat"', b"null"),
    "no objects": lambda data: data + b"[]\n1\n",
    "deep": lambda data: data + b'{"text": ' + b"[" * 100_000 + b"\n",
    "Windows line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "Macintosh line ends": lambda data: data.replace(b"\n", b"\r"),
    "one line": lambda data: data.replace(b"\n", b" "),
    "a long row": _line(2, lambda row: row + b" a cat" * 50_000),
    "one row": lambda data: b"\n".join(data.split(b"\n")[:2]),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "other characters": lambda data: data.replace(b"a", "猫".encode()).replace(b"o", "\u202e\u200b".encode()),
}


def changes(file: str) -> Iterator[Rows]:
    return (Rows(file, act) for act in _ACTS)


def bomb(work: Path) -> None:
    """A small file that unpacks to a large one, one line of it."""
    with gzip.GzipFile(work / "lines.txt.gz", "wb", 9, mtime=0) as file:
        for _ in range(BOMB // 2**20):
            file.write(bytes(2**20))
