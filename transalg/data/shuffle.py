"""Shuffling any number of rows in no memory: a random permutation that is computed, not stored."""

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
ROUNDS = 6


def permuted(index: Index, n: int, *key: int) -> Index:
    """Where a random permutation of 0, …, n−1 puts each index; another permutation for every key.

    A Feistel network permutes the numbers of an even count of bits: halves swap, and one is xored with a hash of the other. What falls outside
    0, …, n−1 is permuted again until it falls inside.
    """
    half = np.uint64(max(1, -(-(n - 1).bit_length() // 2)))
    low = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence([part & 0xFFFFFFFFFFFFFFFF for part in key]).generate_state(ROUNDS, np.uint64)
    values = np.array(index, dtype=np.uint64)
    outside = np.ones(values.shape, dtype=bool)
    while outside.any():
        left, right = values[outside] >> half, values[outside] & low
        for each in keys:
            left, right = right, left ^ (_mixed(right, each) & low)
        values[outside] = left << half | right
        outside[outside] = values[outside] >= n
    return values.astype(np.int64)


def derive_seed(limit: int, *key: int) -> int:
    """A random number from 0 to limit − 1, another for every key."""
    return int(np.random.default_rng([part & 0xFFFFFFFFFFFFFFFF for part in key]).integers(limit))


def _mixed(value: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """A hash of 64 bits: additions, xors with higher bits, products with odd numbers."""
    with np.errstate(over="ignore"):
        value = (value + key) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ value >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
        return value ^ value >> np.uint64(32)
