"""Near-duplicates: MinHash (Broder 1997) finds texts whose sets of shingles have a large Jaccard similarity, without comparing all pairs.

A shingle is a run of some characters or words. J(A, B) = |A ∩ B| / |A ∪ B|. Under a random hash function, the smallest hash of A and that of B
are equal with probability J. A signature has the smallest hash under each of K functions, so the share of equal entries of two signatures is
an estimate of J without bias, of variance J(1 − J)/K. Locality-sensitive hashing compares only the signatures that agree in all of some band.

It is written here, with NumPy alone, because it is a page long and has to give the same result on every machine and in every version; a
library for it would be one more dependency.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import numpy as np
from numpy.typing import NDArray

K = 128  # hash functions; a standard deviation of the estimate is at most 1 / (2√K), 0.044
RECALL = 0.99  # probability, at least, that two texts exactly at the threshold are compared
CHUNK = 128  # shingles that are hashed at once
ShingleKind = Literal["characters", "words"]
Hashes = NDArray[np.uint64]
Signature = NDArray[np.uint32]

GOLDEN = 0x9E3779B97F4A7C15  # of splitmix64, as are the numbers of `_mix`
FACTOR = np.uint64(0xD6E8FEB86659FD93)  # odd


def _mix(x: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele et al. 2014): a bijection of 64 bits that looks random."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


SEEDS = _mix(np.arange(1, K + 1, dtype=np.uint64) * np.uint64(GOLDEN))


@lru_cache(2**16)
def _word(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")


def shingles(text: str, size: int, kind: ShingleKind = "characters") -> Hashes:
    """The hash of every run of `size` characters or words of the case-folded text; of all of it, where it is shorter."""
    folded = text.casefold()
    if kind == "words":
        units = np.array([_word(word) for word in folded.split()], np.uint64)
    else:
        units = _mix(np.frombuffer(folded.encode("utf-32-le"), np.uint32).astype(np.uint64))
    size = min(size, len(units))
    hashed = np.zeros(len(units) - size + 1 if size else 0, np.uint64)
    for i in range(size):
        hashed = hashed * FACTOR + units[i : len(units) - size + 1 + i]
    return _mix(hashed)


def signature(hashes: Hashes) -> Signature:
    """MinHash: the smallest hash under each of K functions, its upper 32 bits."""
    if not len(hashes):
        raise ValueError("hashes: expected those of at least one shingle, got none")
    least = np.full(K, np.iinfo(np.uint64).max, np.uint64)
    for i in range(0, len(hashes), CHUNK):
        least = np.minimum(least, _mix(hashes[i : i + CHUNK, None] ^ SEEDS).min(axis=0))
    return (least >> np.uint64(32)).astype(np.uint32)


def similarity(first: Signature, other: Signature) -> NDArray[np.float64]:
    """The estimated Jaccard similarity of signatures: the share of equal entries, over the last axis."""
    return np.asarray((first == other).mean(axis=-1))


def band_width(threshold: float) -> int:
    """Entries in a band: as many as leave the probability that some band of two signatures agrees, 1 − (1 − J^r)^⌊K/r⌋, at RECALL or more.

    >>> band_width(0.5), band_width(0.8), band_width(1.0)
    (3, 6, 128)
    """
    return max(r for r in range(1, K + 1) if r == 1 or 1 - (1 - threshold**r) ** (K // r) >= RECALL)


def near_duplicates(signatures: Signature, threshold: float, classes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For every row, the first row that stays and is of estimated similarity ≥ threshold; −1 for rows that stay themselves.

    Rows are decided in their order, and only those that stay remove others. With classes, rows of different classes never do.
    """
    r = band_width(threshold)
    groups = dict[int, list[int]]()  # of rows in several bands: the numbers of the bands' values that others share
    count = 0
    for start in range(0, K - r + 1, r):
        band = np.ascontiguousarray(signatures[:, start : start + r]).view(f"V{4 * r}").ravel()
        _, value, shared = np.unique(band, return_inverse=True, return_counts=True)
        for row in np.flatnonzero(shared[value] > 1).tolist():
            groups.setdefault(row, []).append(count + int(value[row]))
        count += len(shared)
    staying = dict[int, list[int]]()  # rows that stay, by the bands' values
    result = np.full(len(signatures), -1, np.int64)
    for row in sorted(groups):
        candidates = sorted({other for group in groups[row] for other in staying.get(group, ())})
        if classes is not None:
            candidates = [other for other in candidates if classes[other] == classes[row]]
        near = np.flatnonzero(similarity(signatures[candidates], signatures[row]) >= threshold)
        if len(near):
            result[row] = candidates[near[0]]
            continue
        for group in groups[row]:
            staying.setdefault(group, []).append(row)
    return result
