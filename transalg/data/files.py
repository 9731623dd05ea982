"""The text of files, a block or a line at a time: UTF-8, compressed with gzip or not."""

import codecs
import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Progress = Callable[[int], object]  # called with how much is done since the last call: bytes, rows or texts
LONGEST = 2**26  # characters of a line, so that a small compressed file cannot fill the memory
BLOCK = 2**16  # bytes read at a time, and about the piece of a document that is tokenised at once


def suffix(path: Path) -> str:
    """What the name says of the format, in small letters; that of the file inside for one compressed with gzip."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def open_regular(path: Path) -> IO[bytes]:
    """A file open for reading; an OSError for a pipe or a device, which a folder from elsewhere has no business to contain."""
    no_wait = getattr(os, "O_NONBLOCK", 0)  # for the writer of a pipe
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | no_wait))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a file")
    return file


def check_rereadable(path: Path) -> None:
    """A ValueError for a pipe, a socket or a device: data are read several times, once for the vocabulary say."""
    mode = path.stat().st_mode if path.exists() else 0
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        raise ValueError(f"{path}: expected a file or a folder, got a pipe, which can be read once only; write it to a file first")
    check_finite(path)


def check_finite(path: Path) -> None:
    """A ValueError for a device, which may have no end; a terminal and /dev/null have."""
    mode = path.stat().st_mode if path.exists() else 0
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not os.path.samefile(path, os.devnull) and not _is_terminal(path)):
        raise ValueError(f"{path}: expected a file, got a device")


def _is_terminal(path: Path) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.isatty()
    except OSError:
        return False


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
        raise ValueError(f"{path}: not a complete gzip file; expected one from its first byte to its last") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def lines(path: Path, progress: Progress = no_progress, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without line ends."""
    number, unfinished, length = count(1), list[str](), 0  # the parts of a line whose end has not been read
    for block in blocks(path, progress, errors):
        first, *more = block.split("\n")
        unfinished.append(first)
        length += len(first)
        if length > LONGEST:
            raise ValueError(f"{path}:{next(number)}: expected a line of at most {LONGEST:,} characters, got a longer one")
        if more:
            yield next(number), "".join(unfinished).removesuffix("\r")
            *complete, last = more
            yield from ((next(number), line.removesuffix("\r")) for line in complete)
            unfinished, length = [last], len(last)
    if line := "".join(unfinished):
        yield next(number), line.removesuffix("\r")


def whole(path: Path, progress: Progress = no_progress) -> str:
    """All of the text of a file, which is one record."""
    parts, length = list[str](), 0
    for block in blocks(path, progress):
        parts.append(block)
        length += len(block)
        if length > LONGEST:
            raise ValueError(
                f"{path}: expected a text of at most {LONGEST:,} characters, got a longer one; --documents line or paragraph cuts it"
            )
    return "".join(parts)
