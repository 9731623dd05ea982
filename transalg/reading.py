"""JSON and TOML that others wrote: one way to read them. What is wrong is a ValueError in words, however deep or odd the file."""

import json
import stat
import tomllib
from pathlib import Path
from reprlib import Repr
from typing import Any

from transalg.atomic import StrPath

DEPTH = 100  # of values in one another: more would end this program somewhere else, where they are copied or printed
DEEP = "its values lie too deep in one another"
_REPR = Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 2, 60, 60, 40


def shown(value: object) -> str:
    """A value from outside in a message: short, however large it is.

    >>> shown("a" * 1000), shown([[[[1]]]])
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaaaaaaaaaaaa'", '[[[...]]]')
    """
    return _REPR.repr(value)


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says.

    >>> parse_json('{"a": [1]}')
    {'a': [1]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: not JSON: its values lie too deep in one another
    """
    try:
        value = json.loads(text)
        if _is_deep(value):
            raise RecursionError
        return value
    except RecursionError as error:
        raise ValueError(f"not JSON: {DEEP}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: {_not_utf8(error)}") from error
    except ValueError as error:
        raise ValueError("not JSON: a number in it has too many digits") from error


def parse_toml(text: str) -> dict[str, Any]:
    """What a TOML text says."""
    try:
        values = tomllib.loads(text)
        if _is_deep(values):
            raise RecursionError
        return values
    except RecursionError as error:
        raise ValueError(f"not TOML: {DEEP}") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from error
    except ValueError as error:
        raise ValueError("not TOML: a number or a date in it is none") from error


def read_text(path: StrPath) -> str:
    """The text of a file; a ValueError names the file. A pipe in a folder would wait for ever."""
    path = Path(path)
    try:
        if stat.S_ISFIFO(path.stat().st_mode) and path.parts[:2] != ("/", "dev"):  # `<(command)` of a shell is /dev/fd/63
            raise ValueError(f"{path}: expected a file, got a pipe")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {_not_utf8(error)}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def read_json(path: StrPath) -> Any:
    """What a JSON file says; a ValueError names the file."""
    return _of_file(path, parse_json)


def read_toml(path: StrPath) -> dict[str, Any]:
    """What a TOML file says; a ValueError names the file."""
    values: dict[str, Any] = _of_file(path, parse_toml)
    return values


def _is_deep(value: Any) -> bool:
    """Whether values lie more than so deep in one another; without recursion."""
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _of_file(path: StrPath, parse: Any) -> Any:
    text = read_text(path)
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"expected UTF-8, got the byte 0x{error.object[error.start]:02x} at {error.start:,}"
