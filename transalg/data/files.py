"""The text of files, a block or a line at a time: UTF-8, compressed with gzip or not."""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Progress = Callable[[int], object]  # called with how much is done since the last call: bytes, rows or texts
BLOCK = 2**16  # bytes read at a time, and about the piece of a document that is tokenised at once


def suffix(path: Path) -> str:
    """What the name says of the format, in small letters; that of the file inside for one compressed with gzip."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def no_progress(_: int) -> None:
    """For callers who do not watch."""


class _WatchedFile(io.FileIO):
    """A file that reports the bytes read from it."""

    def __init__(self, path: Path, progress: Progress) -> None:
        super().__init__(path)
        self.progress = progress

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        size = super().readinto(buffer)
        self.progress(size or 0)
        return size


def blocks(path: Path, progress: Progress = no_progress, errors: str = "strict") -> Iterator[str]:
    """The text of a file, a block at a time; UTF-8, with or without a byte order mark; `errors` as for `bytes.decode`."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors)
    line = 1
    try:
        with io.BufferedReader(_WatchedFile(path, progress), BLOCK) as raw:
            file = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
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
        raise ValueError(f"{path}: not a complete gzip file: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def lines(path: Path, progress: Progress = no_progress, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without line ends."""
    number, unfinished = count(1), list[str]()  # the parts of a line whose end has not been read
    for block in blocks(path, progress, errors):
        first, *more = block.split("\n")
        unfinished.append(first)
        if more:
            yield next(number), "".join(unfinished).removesuffix("\r")
            *complete, last = more
            yield from ((next(number), line.removesuffix("\r")) for line in complete)
            unfinished = [last]
    if line := "".join(unfinished):
        yield next(number), line.removesuffix("\r")
