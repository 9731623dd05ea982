"""Checks of numbers: what passes, what is refused, and in which words."""

from math import inf, nan

import pytest

from transalg.checks import integer, real


def test_what_is_in_range_passes_unchanged() -> None:
    assert integer("k", 3, 3) == integer("k", 3, 1, 3) == 3
    assert [real("x", value, "[0, ∞]") for value in (0, 2.5, inf)] == [0, 2.5, inf]
    assert real("x", 1, "(0, 1]") == 1 and real("x", -inf, "[-∞, 0)") == -inf


@pytest.mark.parametrize("value", [2, True, 3.0, "3", None])
def test_integers(value: object) -> None:
    with pytest.raises(ValueError, match=f"^k: expected 3 or more, got {value!r}$"):
        integer("k", value, 3)


def test_limits_are_named() -> None:
    with pytest.raises(ValueError, match=r"^k: expected a whole number from 1 to 5, got 6$"):
        integer("k", 6, 1, 5)
    with pytest.raises(ValueError, match=r"^k: expected a whole number from 1 to N = 5, got 6$"):
        integer("k", 6, 1, 5, limit="N")
    with pytest.raises(ValueError, match=r"^seed: expected a whole number from 0 to 2\^63 − 1, got -1$"):
        integer("seed", -1, 0, 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "interval"),
    [(0, "(0, 1]"), (1.0, "[0, 1)"), (nan, "[0, ∞]"), (inf, "[0, ∞)"), (-1, "[0, ∞]"), (True, "[0, 1]"), ("1", "[0, 1]"), (None, "[0, 1]")],
)
def test_real_numbers(value: object, interval: str) -> None:
    with pytest.raises(ValueError, match=r"^x: expected a number in ") as refusal:
        real("x", value, interval)
    assert str(refusal.value) == f"x: expected a number in {interval}, got {value!r}"
