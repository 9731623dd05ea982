"""The classifier is Algorithm 9 with another last line; the heads of several data sets are blocks of its classes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad
from torch.testing import assert_close

from tests.strategies import D, fill, normal, rng, sizes
from tests.trace.shapes import check_shapes
from transalg.formal import (
    ETheta,
    ETransformer,
)
from transalg.formal.classification import EClassifier, ECTheta, MultiTaskClassifier
from transalg.trace.record import run

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


HEADS = [[0, 1], [2, 3, 4]]
THETA = fill(ECTheta.init(L=2, d_f=5, N_C=5, N_V=13, ell_max=7, H=3, d_e=6, d_mlp=11), 0)
X = torch.tensor([11, 3, 5, 3])


@pytest.mark.parametrize("C", HEADS, ids=str)
def test_a_head_is_the_classifier_given_that_the_class_is_one_of_its_own(C: list[int]) -> None:
    p = EClassifier(X, THETA)[C]
    assert_close(MultiTaskClassifier(X, C, THETA), p / p.sum(), **exactly)


def test_a_head_s_loss_does_not_depend_on_the_rows_of_other_heads() -> None:
    C, others = HEADS
    gradient = grad(lambda theta: -MultiTaskClassifier(X, C, theta)[1].log())(THETA)
    assert gradient.W_c[C].all() and not gradient.W_c[others].any() and not gradient.b_c[others].any()
    W_c = THETA.W_c.clone()
    W_c[others] = normal(1, 3, 5)
    assert MultiTaskClassifier(X, C, replace(THETA, W_c=W_c)).equal(MultiTaskClassifier(X, C, THETA))
    assert not EClassifier(X, replace(THETA, W_c=W_c)).equal(EClassifier(X, THETA))


def test_the_heads_are_traced_with_their_shapes() -> None:
    trace = run(MultiTaskClassifier, X, HEADS[1], THETA)
    check_shapes(trace)
    assert [step.line.number for step in trace.steps] == [1, 2] and len(trace.steps[-1].value) == 3


@pytest.mark.parametrize(
    ("C", "message"),
    [
        ([], r"C: expected at least one class, each once, got \[\]"),
        ([1, 1], r"C: expected at least one class, each once, got \[1, 1\]"),
        ([4, 5], "C: expected one of 0, …, N_C−1 with N_C = 5, got 5"),
        (3, "C: expected a list of classes, got 3"),
    ],
)
def test_heads_that_are_not(C: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiTaskClassifier(X, C, THETA)
