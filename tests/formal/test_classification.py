"""The classifier is Algorithm 9 with another last line."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import D, fill, normal, rng, sizes
from transalg.formal import (
    ETheta,
    ETransformer,
)
from transalg.formal.classification import EClassifier, ECTheta

exactly = {"rtol": 0, "atol": 1e-12}
seeds = st.integers(0, 2**16)


@given(sizes("d_f", "N_C"), seeds)
def test_the_classifier_is_algorithm_9_up_to_its_last_line(d: dict[str, int], seed: int) -> None:
    """With the rows of W_u as classes and b_c = 0, EClassifier gives column 1 of ETransformer."""
    encoder = fill(ETheta.init(**D, L=2, d_f=d["d_f"]), seed)
    theta = replace(ECTheta.from_encoder(encoder, 11), W_c=encoder.W_u)
    assert_close(EClassifier([9, 1, 2], theta), ETransformer([9, 1, 2], encoder)[:, 0], **exactly)
    b_c = normal(seed, 11)
    shifted = ETransformer([9, 1, 2], encoder)[:, 0] * b_c.exp()
    assert_close(EClassifier([9, 1, 2], replace(theta, b_c=b_c)), shifted / shifted.sum(), **exactly)
    assert ECTheta.from_encoder(encoder, d["N_C"], rng(0)).sizes()["N_C"] == d["N_C"]
