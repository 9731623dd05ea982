"""Damage to the bytes of a file, whatever they mean."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

LONG = 2**16


@dataclass(frozen=True)
class Bytes:
    """A change of a file's bytes, always the same for a seed."""

    file: str
    act: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.file}: {self.act}{f' ({self.seed})' if self.seed else ''}"

    def __call__(self, work: Path) -> None:
        path, draw = work / self.file, Random(self.seed)
        path.write_bytes(_ACTS[self.act](path.read_bytes(), draw))


def _flip(data: bytes, draw: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 3, 20])):
        changed[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    return bytes(changed)


def _flip_early(data: bytes, draw: Random) -> bytes:
    """Near the beginning, where headers are."""
    return _flip(data[:200], draw) + data[200:]


def _inserted(data: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.randbytes(draw.choice([1, 8, 100])) + data[at:]


def _cut_out(data: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + data[at + draw.choice([1, 8, 100]) :]


def _words(data: bytes, draw: Random) -> bytes:
    """Two pieces change places."""
    first, second = sorted(draw.randrange(len(data)) for _ in range(2))
    size = min(draw.choice([4, 16]), second - first)
    return data[:first] + data[second : second + size] + data[first + size : second] + data[first : first + size] + data[second + size :]


_ACTS = {
    "flip": _flip,
    "flip early": _flip_early,
    "insert": _inserted,
    "cut out": _cut_out,
    "exchange": _words,
    "truncate": lambda data, draw: data[: draw.randrange(len(data))],
    "without its last byte": lambda data, _: data[:-1],
    "empty": lambda *_: b"",
    "zeros": lambda data, _: bytes(len(data)),
    "ones": lambda data, _: b"\xff" * len(data),
    "random": lambda data, draw: draw.randbytes(len(data)),
    "twice": lambda data, _: data + data,
    "lengthened": lambda data, draw: data + draw.randbytes(LONG),
    "byte order mark": lambda data, _: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data, _: data.decode("latin-1").encode("utf-16"),
    "brackets": lambda *_: b"[" * LONG,
    "braces": lambda *_: b'{"a":' * LONG,
    "null": lambda *_: b"null",
    "a list": lambda *_: b"[]",
    "an object": lambda *_: b"{}",
    "a number": lambda *_: b"1" * 5000,
    "spaces": lambda *_: b" \n" * 100,
    "a pickle": lambda *_: (
        b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94."
    ),
    "gzip": lambda *_: b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "escapes": lambda data, _: data.replace(b"a", b"\x1b[31ma"),
    "nul": lambda data, _: data.replace(b"a", b"\x00", 3),
}
DRAWN = ("flip", "flip early", "insert", "cut out", "exchange", "truncate", "random")


def changes(file: str, draw: Random, flips: int = 3) -> Iterator[Bytes]:
    """Every act, and those that are drawn several times."""
    for act in _ACTS:
        for _ in range(flips if act in DRAWN else 1):
            yield Bytes(file, act, draw.randrange(1, 10**6) if act in DRAWN else 0)
