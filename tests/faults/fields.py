"""Damage to the fields of a file: one is dropped, renamed, doubled in its container, or gets a value that does not belong there."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.documents import DEEP, TOML, Document

Place = tuple[str | int, ...]
VALUES: tuple[Any, ...] = (
    None, {}, [], "", "x", -1, 0, 1, 3, 1.5, True, nan, inf, -inf, 2**31, 2**63, 2**70, 1e308, [[]], [None], {"": None}, [1, 2], "[/oops]",
    "\x1b[31mred\x1b[0m", "\ud800", "🐈\u202e", "line\nline\nline", "../../canary/file", "y" * 5000, DEEP,
)  # fmt: skip
SHOWN = 5  # entries of a large container whose fields are changed


def places(value: Any, draw: Random, before: Place = ()) -> Iterator[Place]:
    """Where the fields of a document are; of large lists and tables only some."""
    keys: list[str | int] = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if len(keys) > 40 or (isinstance(value, list) and len(keys) > SHOWN):
        keys = [keys[0], *draw.sample(keys[1:-1], SHOWN - 2), keys[-1]]
    for key in keys:
        yield (*before, key)
        yield from places(value[key], draw, (*before, key))


@dataclass(frozen=True)
class Field:
    """A change of one field: what is done, and with which value."""

    file: str
    document: Document
    place: Place
    act: str
    value: Any = None

    def __str__(self) -> str:
        shown = repr(self.value)
        detail = "" if self.act in ("drop", "rename", "wrap") else f" {shown if len(shown) < 40 else shown[:36] + '…'}"
        return f"{self.file}: {'.'.join(map(str, self.place)) or 'all'}: {self.act}{detail}"

    def __call__(self, work: Path) -> None:
        path = work / self.file
        root = [deepcopy(self.document.read(path))]
        container, key = self._found(root)
        old = container[key]
        if self.act == "drop":
            del container[key]
        elif self.act == "rename":
            container[f"{key}_"] = container.pop(key)
        elif self.act == "wrap":
            container[key] = [old]
        elif self.act == "beside":
            container[key] = old | {"unknown": self.value} if isinstance(old, dict) else [*old, self.value]
        else:
            container[key] = self.value
        self.document.write(path, root[0])

    def _found(self, root: list[Any]) -> tuple[Any, Any]:
        container: Any = root
        key: str | int = 0
        for step in self.place:
            container, key = container[key], step
        return container, key


def changes(folder: Path, file: str, document: Document, draw: Random, each: int) -> Iterator[Field]:
    """Every field dropped, and some other changes of it."""
    content = document.read(folder / file)
    toml = document is TOML
    for place in ((), *places(content, draw)):
        value = content
        for step in place:
            value = value[step]
        if place:
            yield Field(file, document, place, "drop")
        acts = [Field(file, document, place, "set", one) for one in VALUES if not (toml and (one is None or not place or _none_in(one)))]
        if not (toml and not place):
            acts.append(Field(file, document, place, "wrap"))
        if place and isinstance(place[-1], str):
            acts.append(Field(file, document, place, "rename"))
        if isinstance(value, dict | list):
            acts.append(Field(file, document, place, "beside", draw.choice([1, "x", 1.5])))
        yield from draw.sample(acts, min(each, len(acts)))


def _none_in(value: Any) -> bool:
    """TOML has no null."""
    return isinstance(value, list | dict) and None in (value.values() if isinstance(value, dict) else value)
