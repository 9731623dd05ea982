"""Special tokens have explicit IDs: the paper's unless said otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.hyper import DHyper, SpecialTokens, from_dict

SIZES = {"N_V": 11, "ell_max": 7, "L": 2, "H": 3, "d_e": 6, "d_mlp": 13}
ids = st.none() | st.integers(0, 10)


def test_by_default_they_are_the_last_three() -> None:
    hyper = DHyper(**SIZES)
    assert hyper.special is None and (hyper.mask_token, hyper.bos_token, hyper.eos_token) == (8, 9, 10)
    assert hyper.replace(N_V=13).eos_token == 12


@given(mask=ids, bos=ids, eos=ids)
def test_ordinary_tokens_are_all_but_the_special_ones(mask: int | None, bos: int | None, eos: int | None) -> None:
    special = SpecialTokens(mask, bos, eos)
    count = 11 - len(special.ids)
    assert [special.ordinary(i) for i in range(count)] == special.without(range(11)) == [v for v in range(11) if v not in (mask, bos, eos)]


def test_others_go_through_a_file_and_one_may_be_lacking() -> None:
    hyper = DHyper(**SIZES, special=SpecialTokens(mask=None, bos=1, eos=2))
    assert from_dict(hyper.to_dict()) == hyper and hyper.departures() == {"special": hyper.special}
    assert (hyper.bos_token, hyper.eos_token) == (1, 2)
    with pytest.raises(ValueError, match="mask_token: this vocabulary has none"):
        _ = hyper.mask_token
    with pytest.raises(ValueError, match=r"special: expected IDs from 0 to N_V−1 with N_V = 11, got"):
        DHyper(**SIZES, special=SpecialTokens(mask=11, bos=1, eos=2))
