"""The figures of predicted texts with one reference or several."""

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from transalg.evaluation.pairs import bleu, edits, exact_match, token_error_rate
from transalg.tokenization import train
from transalg.training.validation import _bleu


@given(st.lists(st.integers(0, 3), max_size=7), st.lists(st.integers(0, 3), max_size=7))
def test_edits(one: list[int], other: list[int]) -> None:
    def plain(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(plain(a[1:], b) + 1, plain(a, b[1:]) + 1, plain(a[1:], b[1:]) + (a[0] != b[0]))

    assert edits(one, other) == plain(tuple(one[:5]), tuple(other[:5])) if max(len(one), len(other)) <= 5 else True
    assert edits(one, other) == edits(other, one) and (edits(one, other) == 0) == (one == other)


def test_any_reference_may_match() -> None:
    references = [[[1, 2, 3], [1, 5]], [[7]], [[2, 2], [3, 3, 3]]]
    assert exact_match([[1, 5], [8], [2, 2]], references) == 2 / 3
    assert exact_match([[1, 5], [7], [3, 3]], references) == 2 / 3


def test_the_error_rate_is_that_of_the_nearest_reference() -> None:
    assert token_error_rate([[1, 5], [8]], [[[1, 2, 3], [1, 5]], [[7]]]) == 1 / 3, "0 of 2 tokens, 1 of 1"
    assert token_error_rate([[1, 2, 3, 4, 6]], [[[1], [1, 2, 3, 4, 5]][::-1]]) == 1 / 5
    assert token_error_rate([[1]], [[[2], [1, 1, 1]]]) == 2 / 3, "one edit of 1 token is a larger rate than two of 3"


def test_bleu_has_as_many_references_as_there_are() -> None:
    guesses = ["the cat sat on the mat", "a dog ran in the garden"]
    first, second = ["a cat sat on a mat", "the dog ran in a garden"], "the cat sat on the mat"
    assert bleu(guesses, [[one] for one in first]) == pytest.approx(sacrebleu.corpus_bleu(guesses, [first]).score)
    several = bleu(guesses, [[first[0], second], [first[1]]])
    assert several > bleu(guesses, [[one] for one in first])
    assert several == pytest.approx(sacrebleu.corpus_bleu(guesses, [first, [second, None]]).score)  # type: ignore[list-item]


def test_texts_that_are_tokenized_are_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    tokenized = [f"this is the number {n} ." for n in range(101)]
    assert bleu(tokenized, [[one] for one in tokenized]) == pytest.approx(100)
    tokenizer = train("char", tokenized)
    ids = [tokenizer.encode(one) for one in tokenized]
    assert _bleu(ids, ids, tokenizer) == pytest.approx(100)
    assert not caplog.records
