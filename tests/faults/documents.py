"""Files with fields, whatever their format: JSON, a line of JSON lines, TOML, the header of safetensors and the metadata in it."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

DEEP = "DEEP"  # a value that becomes lists in lists
DEPTH = 50_000


@dataclass(frozen=True)
class Document:
    """How the fields of a file are read, and how other fields are written to it."""

    read: Callable[[Path], Any]
    write: Callable[[Path, Any], None]


def _dumps(value: Any) -> str:
    return json.dumps(value).replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    path.write_text(_dumps(value), encoding="utf-8")


def _read_lines(path: Path) -> Any:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _write_lines(path: Path, values: Any) -> None:
    path.write_text("".join(_dumps(value) + "\n" for value in values) if isinstance(values, list) else _dumps(values), encoding="utf-8")


def _read_toml(path: Path) -> Any:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _write_toml(path: Path, value: Any) -> None:
    text = tomli_w.dumps(value).replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def read_header(path: Path) -> Any:
    """Of a safetensors file: every tensor's type, shape and place, and the metadata."""
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def write_header(path: Path, value: Any) -> None:
    data = path.read_bytes()
    text = _dumps(value).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :])


def _read_metadata(path: Path) -> Any:
    return json.loads(read_header(path)["__metadata__"]["transalg"])


def _write_metadata(path: Path, value: Any) -> None:
    header = read_header(path)
    header["__metadata__"]["transalg"] = _dumps(value)
    write_header(path, header)


JSON = Document(read_json, write_json)
LINES = Document(_read_lines, _write_lines)
TOML = Document(_read_toml, _write_toml)
HEADER = Document(read_header, write_header)
METADATA = Document(_read_metadata, _write_metadata)
