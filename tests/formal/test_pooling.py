"""Pooling: laws of each, and the classifier that uses it."""

from functools import partial

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import D, fill, normal, rng
from transalg.formal import ETheta
from transalg.formal.classification import EClassifier, ECTheta
from transalg.formal.notation import softmax
from transalg.formal.pooling import bos_pooling, max_pooling, mean_pooling

exactly = {"rtol": 0, "atol": 1e-12}
seeds = st.integers(0, 2**16)


@given(seeds)
def test_each_pools_what_its_name_says(seed: int) -> None:
    X = normal(seed, 7, 5)
    assert_close(bos_pooling(X), X[:, 0], **exactly)
    assert_close(mean_pooling(X), X @ torch.full((5,), 1 / 5, dtype=X.dtype), **exactly)
    assert_close(max_pooling(X), torch.stack([row.sort().values[-1] for row in X]), **exactly)


@given(seeds)
def test_one_token_pools_to_itself_and_order_matters_to_bos_alone(seed: int) -> None:
    X = normal(seed, 7, 5)
    for pooling in (bos_pooling, mean_pooling, max_pooling):
        assert_close(pooling(X[:, :1]), X[:, 0], **exactly)
    order = torch.randperm(5, generator=rng(seed))
    for pooling in (mean_pooling, max_pooling):
        assert_close(pooling(X[:, order]), pooling(X), **exactly)


@given(seeds)
def test_the_classifier_takes_any_pooling(seed: int) -> None:
    """With W_c = 0 it does not matter; otherwise the logits are W_c times what was pooled."""
    theta = fill(ECTheta.from_encoder(fill(ETheta.init(**D, L=2, d_f=5), seed), 3), seed)
    pooled = []

    def recording(X: torch.Tensor) -> torch.Tensor:
        pooled.append(X.shape)
        return mean_pooling(X)

    p = EClassifier([9, 1, 2, 4], theta, pooling=recording)
    assert pooled == [(5, 4)]
    assert_close(p, EClassifier([9, 1, 2, 4], theta, pooling=mean_pooling), **exactly)
    ones = torch.ones(5, dtype=p.dtype)
    of_ones = partial(EClassifier, [9, 1, 2, 4], theta, pooling=lambda X: ones)
    assert_close(of_ones(), softmax(theta.W_c @ ones + theta.b_c), **exactly)
