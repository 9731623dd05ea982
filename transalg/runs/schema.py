"""What a value from a run's files may be: small checks that are put together. A ValueError names the field and what came instead."""

from collections.abc import Callable, Mapping
from typing import Any

from transalg.checks import is_integer, is_real
from transalg.reading import shown

Check = Callable[[str, Any], None]  # takes the name of a field and its value
LARGEST = 2**63  # of the whole numbers that a run counts with
FINITE = 1e308  # no NaN and no whole number beyond floats is less


def require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")


def count(name: str, value: Any) -> None:
    require(is_integer(value) and 0 <= value < LARGEST, name, value, "a whole number of 0 or more")


def number(name: str, value: Any) -> None:
    require(is_real(value) and abs(value) < FINITE, name, value, "a finite number")


def text(name: str, value: Any) -> None:
    require(isinstance(value, str), name, value, "a text")


def flag(name: str, value: Any) -> None:
    require(isinstance(value, bool), name, value, "true or false")


def one_of(*choices: str) -> Check:
    return lambda name, value: require(isinstance(value, str) and value in choices, name, value, " or ".join(choices))


def optional(check: Check) -> Check:
    """null, or what the check lets through."""
    return lambda name, value: None if value is None else check(name, value)


def items(check: Check) -> Check:
    """A list, every element of which passes the check."""

    def checked(name: str, value: Any) -> None:
        require(isinstance(value, list), name, value, "a list")
        for i, each in enumerate(value):
            check(f"{name}[{i}]", each)

    return checked


def mapping(check: Check) -> Check:
    """An object with any keys, every value of which passes the check."""

    def checked(name: str, value: Any) -> None:
        require(isinstance(value, dict), name, value, "an object")
        for key, each in value.items():
            check(f"{name}.{shown(key)[1:-1]}", each)

    return checked


def record(fields: Mapping[str, Check], *, may_lack: tuple[str, ...] = (), closed: bool = True) -> Check:
    """An object with these keys, and no others if it is closed."""

    def checked(name: str, value: Any) -> None:
        require(isinstance(value, dict), name, value, "an object")
        for key in fields:
            if key not in value and key not in may_lack:
                raise ValueError(f"{name}.{key}: is missing")
        for key, each in value.items():
            if key in fields:
                fields[key](f"{name}.{key}", each)
            elif closed:
                raise ValueError(f"{name}: expected {', '.join(fields)}, got {shown(key)} as well")

    return checked
