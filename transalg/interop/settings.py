"""A checkpoint's settings, config.json say, read with care: whoever wrote them may have been wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transalg import reading
from transalg.checks import is_integer, is_real

LARGEST = 2**31  # no size of a model is larger
LAYERS = 10_000  # no model has more: names of tensors are made for each


@dataclass(frozen=True)
class Settings:
    """Values by name, and where they come from. Every getter refuses a value of another kind in words."""

    values: Mapping[str, Any]
    where: str = "config.json"

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def any_of(self, *names: str) -> str:
        """The first of these names that has a value; the first one if none has."""
        return next((name for name in names if self.has(name)), names[0])

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number, 1 or more."""
        value = self.values.get(name)
        value = default if value is None else value
        if not is_integer(value) or not 1 <= value < LARGEST:
            raise self.wrong(name, f"a whole number from 1 to {LARGEST - 1:,}", value)
        return int(value)

    def layers(self, name: str) -> int:
        """How many layers."""
        count = self.size(name)
        if count > LAYERS:
            raise self.wrong(name, f"at most {LAYERS:,} layers", count)
        return count

    def number(self, name: str, default: float | None = None) -> float:
        value = self.values.get(name)
        value = default if value is None else value
        if not is_real(value) or not abs(value) < float("inf"):
            raise self.wrong(name, "a number", value)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise self.wrong(name, "a name", value)
        return value

    def choice(self, name: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """What we call one of these."""
        value = self.text(name, default)
        if value not in choices:
            raise self.wrong(name, " or ".join(choices), value)
        return choices[value]

    def table(self, name: str) -> "Settings":
        """The settings below a name; none if it is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "a table", value)
        return Settings(value or {}, f"{self.where}: {name}")

    def token_ids(self, name: str) -> list[int]:
        """One token ID, or several; none if it is absent."""
        value = self.values.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(is_integer(one) for one in values):
            raise self.wrong(name, "a token ID, or a list of them", value)
        return [int(one) for one in values]

    def require(self, name: str, expected: object, why: str, default: object = None) -> None:
        """Refuse any other value: what it stands for is not known here."""
        value = self.values.get(name)
        value = default if value is None else value
        if value != expected:
            raise ValueError(f"{self.where}: {name}: expected {json.dumps(expected)}, {why}; got {shown(value)}")

    def wrong(self, name: str, expected: str, value: object) -> ValueError:
        return ValueError(f"{self.where}: {name}: expected {expected}, got {shown(value)}")


def shown(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = "nothing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:59] + "…"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that is a table."""
    data = reading.read_json(path)
    if not isinstance(data, dict):
        raise ValueError(f"{path}: expected a table, got {shown(data)}")
    return data
