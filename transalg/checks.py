"""Checks of numbers that people give: a ValueError names the argument, says what was expected and what came. No torch.

>>> real("top_p", 1.5, "(0, 1]")
Traceback (most recent call last):
ValueError: top_p: expected a number in (0, 1], got 1.5
"""

from math import inf
from typing import TypeGuard


def is_integer(value: object) -> TypeGuard[int]:
    """A whole number, and neither True nor False."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """A number, and neither True nor False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(symbol: str, value: object, least: int, most: int | None = None, *, limit: str = "") -> int:
    """A whole number of at least `least` and at most `most`, which may have a name: `limit`."""
    if not is_integer(value) or value < least or (most is not None and value > most):
        expected = f"{least} or more" if most is None else f"a whole number from {least} to {limit and limit + ' = '}{_short(most)}"
        raise ValueError(f"{symbol}: expected {expected}, got {_shortened(value)}")
    return value


def real(symbol: str, value: object, interval: str) -> float:
    """A number in an interval, which is written as in mathematics: "[0, ∞)" contains 0 and every number above it, but not ∞."""
    least, most = _ends(interval)
    if (
        not is_real(value)
        or not least <= value <= most
        or (value == least and interval[0] == "(")
        or (value == most and interval[-1] == ")")
    ):
        raise ValueError(f"{symbol}: expected a number in {interval}, got {_shortened(value)}")
    return value


def within(symbol: str, value: object, interval: str, *, whole: bool) -> float:
    """A number in an interval, whole or not: `integer` or `real`."""
    if not whole:
        return real(symbol, value, interval)
    least, most = _ends(interval)
    return integer(symbol, value, int(least), None if most == inf else int(most))


def in_words(interval: str, *, whole: bool) -> str:
    """How help states an interval.

    >>> in_words("[1, 9223372036854775807]", whole=True), in_words("[5, ∞)", whole=True), in_words("(0, 1]", whole=False)
    ('1 to 2^63 − 1', '5 or more', 'in (0, 1]')
    """
    least, most = _ends(interval)
    if not whole:
        return f"in {interval}"
    return f"{least} or more" if most == inf else f"{least} to {_short(int(most)).replace(',', '')}"  # help would break a line there


def _ends(interval: str) -> tuple[float, float]:
    least, most = (end.strip().replace("∞", "inf") for end in interval[1:-1].split(","))
    return _number(least), _number(most)


def _number(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)


def _shortened(value: object) -> str:
    """A number of a thousand digits is none that anyone meant."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:20]}…"


def _short(number: int) -> str:
    """2^63 − 1 rather than its 19 digits; 1,000,000."""
    return f"2^{number.bit_length()} − 1" if number > 2**16 and number + 1 == 1 << number.bit_length() else f"{number:,}"
