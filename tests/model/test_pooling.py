"""Pooling of a ragged batch: every row as if it were alone, whatever stands in the padding."""

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.hyper import ClassifierHyper
from transalg.model import Classifier, build
from transalg.model.pooling import POOLINGS
from transalg.verify.cases import randomised, small


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_of_a_ragged_batch_is_the_row_alone(pooling: str) -> None:
    model = randomised(build(small(ClassifierHyper, pooling=pooling), dtype=torch.float64), rng(1)).eval()
    assert isinstance(model, Classifier)
    lengths = [3, 7, 1, 5]
    ids = torch.randint(20, (4, 7), generator=rng(2))
    ids[:, 0] = model.hyper.bos_token
    together = model(ids, lengths)
    alone = torch.cat([model(row[None, :length]) for row, length in zip(ids, lengths, strict=True)])
    assert_close(together, alone, rtol=0, atol=tolerance(torch.float64, terms=13, depth=2, size=10))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_head_comes_before_the_pooling(pooling: str) -> None:
    """Against lines 10 and 11 on every token, then the formal pooling, row by row; all values below 0 show what padding with 0 would do."""
    model = randomised(build(small(ClassifierHyper, pooling=pooling), dtype=torch.float64), rng(1)).eval()
    assert isinstance(model, Classifier)
    with torch.no_grad():
        model.beta.fill_(-50.0)
    lengths = [3, 7, 1, 5]
    ids = torch.randint(20, (4, 7), generator=rng(2))
    ids[:, 0] = model.hyper.bos_token
    X, tokens = model.encode(ids, lengths)
    by_row = tokens.pad(model.head(X))
    pooled = torch.stack([POOLINGS[pooling].formal(row[:length].T) for row, length in zip(by_row, lengths, strict=True)])
    expected = pooled @ model.W_c.T + model.b_c
    assert_close(model(ids, lengths), expected, rtol=0, atol=tolerance(torch.float64, terms=13, depth=2, size=500))
