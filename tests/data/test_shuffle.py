"""Permutations that are computed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transalg.data.shuffle import derive_seed, permuted


@given(st.integers(1, 700), st.integers(-3, 2**70), st.integers(0, 9))
def test_every_index_once(n: int, seed: int, epoch: int) -> None:
    order = permuted(np.arange(n), n, seed, epoch)
    assert sorted(order.tolist()) == list(range(n))
    assert [int(permuted(np.array([i]), n, seed, epoch)[0]) for i in range(0, n, 97)] == order[::97].tolist()


def test_orders_differ_and_are_even() -> None:
    n, keys = 11, 4000
    order = np.stack([permuted(np.arange(n), n, 5, key) for key in range(keys)])
    assert len({tuple(row) for row in order.tolist()}) > 0.99 * keys
    counts = np.stack([np.bincount(order[:, i], minlength=n) for i in range(n)])  # how often i goes where
    chi = float(((counts - keys / n) ** 2 / (keys / n)).sum())
    assert chi < 200, "expected about 100 for n = 11"  # 100 degrees of freedom: 200 is 7 deviations away
    neighbours = np.mean(np.diff(order, axis=1) == 1)
    assert abs(neighbours - 1 / n) < 0.02


def test_a_billion_rows_take_no_memory() -> None:
    order = permuted(np.arange(10**9 - 5, 10**9), 10**9, 1)
    assert len(set(order.tolist())) == 5 and order.max() < 10**9 and order.min() >= 0


def test_numbers() -> None:
    assert {derive_seed(3, 1, key) for key in range(40)} == {0, 1, 2}
    assert derive_seed(2**31, 1, 2) == derive_seed(2**31, 1, 2) != derive_seed(2**31, 2, 1)
