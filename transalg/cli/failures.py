"""What went wrong in one line or two: the file or the option, what was expected, what to do. No words of Python's or torch's own."""

import errno
import os

from transalg.memory import is_out_of_memory, out_of_memory
from transalg.terminal import short, shown

LINES, CHARACTERS = 2, 1000  # of a message


def message(error: BaseException) -> str:
    """The message of an exception that a user has caused, as it is printed."""
    lines = [line.strip() for line in _words(error).strip().splitlines() if line.strip()] or ["failed without a word"]
    lines = [*lines[: LINES - 1], " ".join(lines[LINES - 1 :])] if len(lines) > LINES else lines
    return "\n".join(shown(short(line, CHARACTERS // len(lines))) for line in lines)


def _words(error: BaseException) -> str:
    if is_out_of_memory(error):
        return out_of_memory(error)
    if isinstance(error, UnicodeError):
        part = getattr(error, "object", "")[getattr(error, "start", 0) : getattr(error, "end", 0)]
        return f"text: expected UTF-8, got {part!r}, which is no character"
    if isinstance(error, OSError) and error.errno is not None:
        reason = os.strerror(error.errno)
        if error.filename is not None:
            return f"{_name(error.filename)}: {reason[0].lower()}{reason[1:]}"
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG):
            return f"standard output: cannot be written: {reason}"
        return reason
    return str(error)


def _name(name: object) -> str:
    return os.fsdecode(name) if isinstance(name, bytes | str | os.PathLike) else str(name)
