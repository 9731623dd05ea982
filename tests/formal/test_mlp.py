"""The MLP as a component, and its activations."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import normal
from transalg.formal.mlp import tanh_GELU

exactly = {"rtol": 0, "atol": 1e-12}
seeds = st.integers(0, 2**16)


@given(seeds)
def test_tanh_gelu_is_torchs(seed: int) -> None:
    A = 3 * normal(seed, 5, 7)
    assert_close(tanh_GELU(A), torch.nn.functional.gelu(A, approximate="tanh"), **exactly)
