"""Weight tying."""

import pytest

from tests.strategies import D
from transalg.formal import (
    ETheta,
    ETransformer,
)
from transalg.formal.unembedding import tied


def test_tying_needs_a_matrix_that_fits() -> None:
    assert ETransformer([1], tied(ETheta.init(**D, L=1, d_f=6))).shape == (11, 1)
    with pytest.raises(ValueError, match=r"theta: expected d_f = 5 in W_u ∈ ℝ\^\{N_V×d_f\}, as in W_f, got 6"):
        tied(ETheta.init(**D, L=1, d_f=5))
