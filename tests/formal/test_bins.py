"""Real numbers as tokens: mu-law, bins, and the way back."""

from math import inf, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transalg.formal.bins import Bin, Bin_inverse, mu_law, mu_law_inverse
from transalg.hyper.modalities import BINS, MU, M

N_TEXT = 37
numbers = st.floats(-1e6, 1e6)


def test_mu_law_has_the_published_values() -> None:
    assert mu_law(0.0) == 0 and mu_law(M) == pytest.approx(1) and mu_law(-M) == pytest.approx(-1)
    assert mu_law(1.0) == pytest.approx(0.454674, abs=1e-6)  # log 101 / log 25601
    assert MU == 100 and M == 256 and BINS == 1024


@given(v=numbers)
def test_mu_law_can_be_undone(v: float) -> None:
    assert mu_law_inverse(mu_law(v)) == pytest.approx(v, rel=1e-9, abs=1e-9)
    assert mu_law(-v) == -mu_law(v)


@given(v=numbers, w=numbers)
def test_mu_law_keeps_the_order(v: float, w: float) -> None:
    assert (v < w) <= (mu_law(v) <= mu_law(w))


@given(y=st.floats(-1, 1))
@example(y=1.0)
@example(y=-1.0)
@example(y=0.0)
def test_decoding_errs_by_at_most_half_a_bin(y: float) -> None:
    x = Bin(y, N_TEXT, compress=False)
    assert N_TEXT <= x < N_TEXT + BINS
    assert abs(Bin_inverse(x, N_TEXT, compress=False) - y) <= 1 / BINS + 1e-12


@given(v=numbers)
@example(v=1e6)
@example(v=-1e6)
def test_every_number_has_a_bin_with_and_without_mu_law(v: float) -> None:
    """Beyond the ends the end counts."""
    for compress in (True, False):
        x = Bin(v, N_TEXT, compress=compress)
        assert N_TEXT <= x < N_TEXT + BINS
        y = min(max(mu_law(v) if compress else v, -1), 1)
        assert abs(mu_law(Bin_inverse(x, N_TEXT)) - y if compress else Bin_inverse(x, N_TEXT, compress=False) - y) <= 1 / BINS + 1e-9


@given(x=st.integers(N_TEXT, N_TEXT + BINS - 1), compress=st.booleans())
def test_a_token_stands_for_a_number_that_is_that_token(x: int, compress: bool) -> None:
    assert Bin(Bin_inverse(x, N_TEXT, compress=compress), N_TEXT, compress=compress) == x


def test_the_ends_are_the_first_and_the_last_bin() -> None:
    assert Bin(-1.0, N_TEXT, compress=False) == N_TEXT and Bin(1.0, N_TEXT, compress=False) == N_TEXT + 1023
    assert Bin(-1.0, 5, 8, compress=False) == 5 and Bin(0.999, 5, 8, compress=False) == 12 and Bin(0.0, 5, 8, compress=False) == 9


@pytest.mark.parametrize("wrong", [nan, inf, -inf, "1", None])
def test_what_is_no_number_is_refused(wrong: object) -> None:
    for function in (mu_law, mu_law_inverse):
        with pytest.raises(ValueError, match="expected a number, neither NaN nor ±∞"):
            function(wrong)
    with pytest.raises(ValueError, match="v: expected a number"):
        Bin(wrong, N_TEXT)
