"""Masks, each against its definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import theta_d
from transalg.formal import DTransformer, unidirectional
from transalg.formal.mask import banded, sparse

exactly = {"rtol": 0, "atol": 1e-12}


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_band_is_w_wide(ell: int, w: int) -> None:
    Mask = banded(ell, w)
    for t_z in range(ell):
        for t_x in range(ell):
            assert Mask[t_z, t_x] == (t_x - w < t_z <= t_x)


def test_sparse_layers_alternate_with_dense_ones() -> None:
    Mask = sparse(2)
    assert [Mask(5, l).equal(unidirectional(5)) for l in range(4)] == [True, False, True, False]
    assert Mask(5, 1).equal(banded(5, 2))
    theta = theta_d(L=2)
    assert_close(DTransformer([1, 2], theta, Mask=sparse(2)), DTransformer([1, 2], theta), **exactly)  # the band covers two tokens
    assert not torch.allclose(DTransformer([1, 2, 3], theta, Mask=sparse(2)), DTransformer([1, 2, 3], theta))
    with pytest.raises(ValueError, match="w: expected a width of at least 1, got 0"):
        banded(3, 0)


def test_a_window_of_all_tokens_is_dense() -> None:
    for ell in range(1, 8):
        assert banded(ell, ell).equal(unidirectional(ell))
        assert ell == 1 or not banded(ell, ell - 1).equal(unidirectional(ell))
    theta = theta_d(L=2)
    x = [9, 1, 2, 3]
    assert DTransformer(x, theta, Mask=sparse(4, "1")).equal(DTransformer(x, theta))
    assert not torch.allclose(DTransformer(x, theta, Mask=sparse(3, "1")), DTransformer(x, theta))


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [("1", "11111"), ("0", "00000"), ("01", "01010"), ("10", "10101"), ("110", "11011"), ("1000000", "10000")],
)
def test_the_pattern_says_which_layers_have_the_band(pattern: str, layers: str) -> None:
    """Layer l, counted from 0, has character l of the pattern, repeated."""
    Mask = sparse(2, pattern)
    assert [Mask(5, l).equal(banded(5, 2)) for l in range(5)] == [layer == "1" for layer in layers]
    assert [Mask(5, l).equal(unidirectional(5)) for l in range(5)] == [layer == "0" for layer in layers]
    assert pattern != "01" or all(Mask(5, l).equal(sparse(2)(5, l)) for l in range(5)), "GPT-3's unless another is given"
