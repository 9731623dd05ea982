"""Every numbered line has a sentence on why it is there, and errata mark the lines that they concern."""

from pathlib import Path

import pytest

from transalg.trace.errata import ERRATA, errata_of, find_erratum, markdown
from transalg.trace.source import Algorithm, algorithms, find
from transalg.trace.why import WHY, why_of


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda algorithm: algorithm.name)
def test_every_numbered_line_has_a_sentence(algorithm: Algorithm) -> None:
    assert len(WHY[algorithm.name]) == len(algorithm.lines)
    for line in algorithm.lines:
        sentence = why_of(algorithm, line)
        assert sentence[:1].isupper() or sentence[0] in "−τzx", sentence
        assert sentence.endswith(".") and len(sentence) <= 160, sentence


def test_there_is_no_sentence_without_its_line() -> None:
    assert set(WHY) == {algorithm.name for algorithm in algorithms()}


def test_a_sentence_that_names_a_line_names_the_right_one() -> None:
    """P is a function of θ, for the line of the gradient differentiates through it."""
    for name in ("EDTraining", "ETraining", "DTraining", "ECTraining"):
        algorithm = find(name)
        gradient = next(line.number for line in algorithm.lines if "∇" in line.math)
        (said,) = (sentence for sentence in WHY[name] if "differentiates" in sentence)
        assert f"line {gradient} " in said


def test_the_page_of_errata_is_the_table() -> None:
    """`python -m transalg.trace.errata > docs/errata.md` writes it anew."""
    assert (Path(__file__).parents[2] / "docs/errata.md").read_text(encoding="utf-8") == markdown()


def test_a_line_whose_tag_names_an_erratum_is_marked() -> None:
    for algorithm in algorithms():
        for line in algorithm.lines:
            numbers = [erratum.number for erratum in errata_of(algorithm, line)]
            assert line.erratum is None or line.erratum in numbers, f"{algorithm.name} {line.number}"


def test_errata_name_lines_that_exist() -> None:
    for erratum in ERRATA:
        for name, lines in erratum.lines.items():
            assert set(lines) <= {line.number for line in find(name).lines}


def test_an_erratum_is_found_by_its_number() -> None:
    assert find_erratum("07") is ERRATA[6]
    for wrong in ("0", "22", "x", ""):
        with pytest.raises(ValueError, match="there is no erratum"):
            find_erratum(wrong)
