"""Bad input is refused in words, before any kernel runs."""

from typing import Any

import pytest
import torch

from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.verify.cases import small

D, E, ED = DTransformer(small(DHyper)), ETransformer(small(EHyper, segments=2)), EDTransformer(small(EDHyper))
IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        ([[1, 2]], None, r"ids: expected a tensor of token IDs, B × ℓ, neither of them 0, got list"),
        (IDS[0], None, r"ids: expected a tensor of token IDs, B × ℓ, .*got the shape \(3,\)"),
        (IDS[:, :0], None, r"ids: expected .*got the shape \(2, 0\)"),
        (IDS.double(), None, r"ids: expected token IDs, whole numbers, got torch.float64"),
        (IDS > 2, None, r"ids: expected token IDs, whole numbers, got torch.bool"),
        (IDS + 17, None, r"ids: expected IDs from 0 to N_V−1 with N_V = 23, got 23"),
        (IDS - 2, None, r"ids: expected IDs from 0 to N_V−1 with N_V = 23, got -1"),
        (IDS.repeat(1, 3), None, r"ids: expected at most ℓ_max = 7 tokens a row, got ℓ = 9"),
        (IDS, [3], r"lengths: expected a length for each of the 2 rows, got 1 of them"),
        (IDS, [3, 0], r"lengths: expected lengths from 1 to ℓ = 3, got 0 in row 1"),
        (IDS, [4, 3], r"lengths: expected lengths from 1 to ℓ = 3, got 4 in row 0"),
        (IDS, [1.5, 3], r"lengths: expected lengths from 1 to ℓ = 3, got 1.5 in row 0"),
        (IDS, torch.tensor([1.0, 3.0]), r"lengths: expected whole numbers, got torch.float32"),
        (IDS, torch.tensor([[1, 3]]), r"lengths: expected a length for each of the 2 rows, got the shape \(1, 2\)"),
        (IDS, 3, r"lengths: expected a length for each of the 2 rows, got int"),
    ],
)
def test_tokens_and_lengths(ids: Any, lengths: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        D(ids, lengths)


def test_ids_of_any_whole_type_and_anything_in_the_padding() -> None:
    expected = D(IDS, [2, 3])
    assert D(IDS.int(), torch.tensor([2, 3])).equal(expected) and D(IDS.to(torch.uint8), (2, 3)).equal(expected)
    padded = IDS.clone()
    padded[0, 2] = -100
    assert D(padded, [2, 3]).equal(expected)
    assert (expected[0, 2] == 0).all() and (expected[1, 2] != 0).all()


def test_segments() -> None:
    with pytest.raises(ValueError, match=r"segments: expected a segment for every token, \(2, 3\), got \(2, 2\)"):
        E(IDS, segments=IDS[:, :2])
    with pytest.raises(ValueError, match=r"segments: expected IDs from 0 to N_S−1 with N_S = 2, got 6"):
        E(IDS, segments=IDS)
    with pytest.raises(ValueError, match=r"segments: expected None, for this model has no segment embeddings"):
        ETransformer(small(EHyper))(IDS, segments=IDS)
    assert not E(IDS, segments=IDS % 2).equal(E(IDS))
    assert E(IDS, segments=0 * IDS).equal(E(IDS))


def test_pairs() -> None:
    with pytest.raises(ValueError, match=r"x: expected as many rows as z, 2, got 1"):
        ED(IDS, IDS[:1])
    with pytest.raises(ValueError, match=r"z: expected IDs from 0"):
        ED(IDS - 2, IDS)
    with pytest.raises(ValueError, match=r"x: expected IDs from 0"):
        ED(IDS, IDS + 20)
    with pytest.raises(ValueError, match=r"x_lengths: expected lengths from 1 to ℓ = 3, got 9 in row 0"):
        ED(IDS, IDS, None, [9, 1])
    with pytest.raises(ValueError, match=r"z_lengths: expected lengths from 1 to ℓ = 3, got 0 in row 1"):
        ED(IDS, IDS, [1, 0])


def test_the_cache() -> None:
    cache = D.cache(2, ell=4)
    D.decode(IDS, cache)
    with pytest.raises(ValueError, match=r"cache: expected at most 4 tokens a row, as it was made for, got 3 \+ 2 in row 0"):
        D.decode(IDS[:, :2], cache)
    assert cache.lengths == [3, 3]
    D.decode(IDS[:, :1], cache, [1, 0])
    assert cache.lengths == [4, 3]
    with pytest.raises(ValueError, match=r"got 4 \+ 1 in row 0"):
        D.decode(IDS[:, :1], cache)
    with pytest.raises(ValueError, match=r"ids: expected the cache's 2 rows, got 1"):
        D.decode(IDS[:1], cache)
    with pytest.raises(ValueError, match=r"ids: expected IDs from 0 to N_V−1"):
        D.decode(IDS[:, :1] + 40, cache, [0, 1])
    with pytest.raises(ValueError, match=r"rows: expected 2 of the cache's rows 0, …, 1, got \[0, 2\]"):
        cache.reorder([0, 2])
    with pytest.raises(ValueError, match=r"lengths: expected 0 to 3 tokens to keep in row 1, got 4"):
        cache.truncate([2, 4])
    for wrong in ([1], [1.5, 1]):
        with pytest.raises(ValueError, match=r"lengths: expected how many tokens to keep of each of the 2 rows"):
            cache.truncate(wrong)
    with pytest.raises(ValueError, match=r"rows: expected 2 of the cache's rows"):
        cache.reorder(1)
    for relative in ({}, {"positions": "relative", "d_r": 4}):
        empty = DTransformer(small(DHyper, **relative))
        assert (empty.decode(IDS, empty.cache(2), [0, 0]) == 0).all()
    with pytest.raises(ValueError, match=r"ell: expected room for 1 to ℓ_max = 7 tokens a row, got 3.5"):
        D.cache(2, ell=3.5)
    for ell in (0, 8):
        with pytest.raises(ValueError, match=rf"ell: expected room for 1 to ℓ_max = 7 tokens a row, got {ell}"):
            D.cache(2, ell=ell)
    with pytest.raises(ValueError, match=r"batch: expected at least 1 row, got 0"):
        D.cache(0)


def test_a_cache_of_another_model() -> None:
    with pytest.raises(ValueError, match=r"cache: expected one that this model made, by its method `cache`, got NoneType"):
        D.decode(IDS, None)
    deeper = DTransformer(small(DHyper, L=3))
    with pytest.raises(ValueError, match=r"cache: expected one that this model made, .*got another"):
        D.decode(IDS, deeper.cache(2))
    with pytest.raises(ValueError, match=r"cache: expected one that this model made, .*got another"):
        ED.decode(IDS, DTransformer(small(DHyper, L=1)).cache(2))
    with pytest.raises(ValueError, match=r"cache: expected torch.float32 on cpu, as the model is, got torch.float64 on cpu"):
        D.decode(IDS, DTransformer(small(DHyper), dtype=torch.float64).cache(2))


def test_what_a_model_is_made_of() -> None:
    with pytest.raises(ValueError, match=r"hyper: expected a DHyper for a DTransformer, got EHyper"):
        DTransformer(small(EHyper))
    with pytest.raises(ValueError, match=r"hyper: expected a EHyper for a ETransformer, got ClassifierHyper"):
        ETransformer(small(ClassifierHyper))
    with pytest.raises(ValueError, match=r"dtype: expected real numbers, got torch.int64"):
        Classifier(small(ClassifierHyper), dtype=torch.long)
