"""What a mask says without torch is what the formal Mask has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.hyper.mask import Band, Causal, Mask
from transalg.model.mask import MASKS


@given(ell=st.integers(1, 13), w=st.integers(1, 17))
def test_a_query_sees_as_many_keys_as_the_formal_mask_has(ell: int, w: int) -> None:
    examples = {Mask: Mask(), Causal: Causal(), Band: Band(w)}
    assert examples.keys() == MASKS.keys()
    for kind, mask in examples.items():
        formal = MASKS[kind].formal(mask, ell)
        assert mask.keys(ell) == pytest.approx(formal.sum().item() / ell)
        assert mask.causal == (not formal.tril(-1).any() and kind is not Mask)
