"""MinHash estimates the Jaccard similarity, and bands find what a comparison of all pairs finds."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.data.duplicates import RECALL, K, band_width, near_duplicates, shingles, signature, similarity

WORDS = [
    "a",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    "while",
    "seven",
    "dogs",
    "ran",
    "home",
    "over",
    "five",
    "green",
    "hills",
    "and",
    "eleven",
    "rivers",
]


def jaccard(first: str, other: str, size: int, kind: str) -> float:
    """By definition."""

    def parts(text: str) -> set[tuple[str, ...]]:
        units = text.casefold().split() if kind == "words" else list(text.casefold())
        return {tuple(units[i : i + size]) for i in range(max(1, len(units) - size + 1))}

    a, b = parts(first), parts(other)
    return len(a & b) / len(a | b)


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts, every second one of which is the one before it with some words changed."""
    rng = np.random.default_rng(seed)
    made = list[str]()
    for i in range(count):
        words = made[-1].split() if i % 2 else rng.choice(WORDS, 29).tolist()
        for _ in range(int(rng.integers(0, 7)) if i % 2 else 0):
            words[int(rng.integers(len(words)))] = str(rng.choice(WORDS))
        made.append(" ".join(words))
    return made


@pytest.mark.parametrize(("size", "kind"), [(5, "characters"), (2, "words")])
def test_the_estimate_is_near_the_jaccard_similarity(size: int, kind: str) -> None:
    """Without bias, and of variance J(1 − J)/K: over n pairs, sums of squares of normal errors have mean n and variance 2n."""
    errors = []
    made = texts(400)
    for first, other in zip(made[::2], made[1::2], strict=True):
        J = jaccard(first, other, size, kind)
        estimate = similarity(signature(shingles(first, size, kind)), signature(shingles(other, size, kind)))
        if J == 1:
            assert estimate == 1
        else:
            errors.append((estimate - J) / (J * (1 - J) / K) ** 0.5)
    n = len(errors)
    assert n > 100
    assert abs(np.sum(errors)) < 5 * n**0.5
    assert abs(np.sum(np.square(errors)) - n) < 5 * (2 * n) ** 0.5
    assert max(map(abs, errors)) < 5


@given(st.text(min_size=1), st.integers(1, 7), st.sampled_from(["characters", "words"]))
def test_shingles_are_those_of_the_definition(text: str, size: int, kind: str) -> None:
    units = text.casefold().split() if kind == "words" else list(text.casefold())
    expected = {tuple(units[i : i + size]) for i in range(max(1, len(units) - size + 1))} if units else set()
    assert len(set(shingles(text, size, kind).tolist())) == len(expected)


def test_shingles_know_the_order_and_not_the_case() -> None:
    assert set(shingles("ab", 2).tolist()) != set(shingles("ba", 2).tolist())
    assert set(shingles("a b", 2, "words").tolist()) != set(shingles("b a", 2, "words").tolist())
    np.testing.assert_array_equal(shingles("A Cat", 3), shingles("a cat", 3))
    with pytest.raises(ValueError, match="expected those of at least one shingle"):
        signature(shingles("", 3))


def test_a_signature_does_not_depend_on_order_repetition_or_chunks() -> None:
    hashes = shingles(" ".join(texts(211)), 5)
    assert len(hashes) > 4096
    np.testing.assert_array_equal(signature(hashes), signature(np.concatenate((hashes[::-1], hashes[:7]))))


def test_signatures_are_the_same_in_every_process() -> None:
    code = (
        "from transalg.data.duplicates import *; print(*(signature(shingles('a cat sat', 2, kind))[7] for kind in ('words', 'characters')))"
    )
    prints = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }
    ours = " ".join(str(signature(shingles("a cat sat", 2, kind))[7]) for kind in ("words", "characters"))
    assert prints == {ours + "\n"}


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.97, 1.0])
def test_bands_miss_little_at_the_threshold(threshold: float) -> None:
    r = band_width(threshold)
    assert 1 - (1 - threshold**r) ** (K // r) >= RECALL
    assert r == K or 1 - (1 - threshold ** (r + 1)) ** (K // (r + 1)) < RECALL


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_bands_find_what_all_pairs_find(threshold: float) -> None:
    made = texts(200, seed=1)
    signatures = np.stack([signature(shingles(text, 5)) for text in made])
    expected, staying = np.full(len(made), -1), list[int]()
    for row in range(len(made)):
        near = [other for other in staying if similarity(signatures[row], signatures[other]) >= threshold]
        if near:
            expected[row] = near[0]
        else:
            staying.append(row)
    assert 20 < (expected >= 0).sum() <= 100
    np.testing.assert_array_equal(near_duplicates(signatures, threshold), expected)


def test_only_rows_that_stay_remove_others_and_only_of_their_class() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2**32, K, np.uint32)
    second, third = first.copy(), first.copy()
    second[:17] += 1
    third[:34] += 1
    third[:17] = second[:17]
    chain = np.stack([first, second, third])
    assert [similarity(*chain[[i, j]]) for i, j in ((0, 1), (1, 2), (0, 2))] == [111 / K, 111 / K, 94 / K]
    np.testing.assert_array_equal(near_duplicates(chain, 0.8), [-1, 0, -1])
    np.testing.assert_array_equal(near_duplicates(chain[[1, 0, 2]], 0.73), [-1, 0, 0])
    np.testing.assert_array_equal(near_duplicates(chain[[0, 0, 0]], 0.8, np.array([3, 5, 3])), [-1, -1, 0])
