"""Cleaning: what a text becomes, which rows stay, and that twice is as once."""

import csv
import doctest
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transalg.data import cleaning, duplicates
from transalg.data.cleaning import NAMES, Report, Rules, clean, decide, misfit, normalise
from transalg.data.rewriting import form
from transalg.data.sources import Source

COLUMNS = {name: name for name in ("text", "label", "source", "target")}
DIRTY = st.text(st.sampled_from("aA é\u0301\u1100\u1161\x00\t\r\n\x0b\u2028\u00a0\ufeff\u200bﬁ&amp;#10lt"), max_size=17)


def staying(texts: list[str], losses: Any = None, **rules: Any) -> list[int]:
    return [row for row, reason in enumerate(decide([((text,), None) for text in texts], Rules(**rules), losses).reason) if reason < 0]


def run(data: Path, out: Path, *, kind: Any = None, unit: Any = "file", removed: Path | None = None, **rules: Any) -> Report:
    return clean(form(data, out, COLUMNS, kind, unit), Rules(**rules), out, removed)


# Texts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        ("o\u0308", {}, "ö"),
        ("o\u0308", {"unicode": "none"}, "o\u0308"),
        ("ﬁ\u00b2", {}, "ﬁ\u00b2"),
        ("ﬁ\u00b2", {"unicode": "NFKC"}, "fi2"),
        ("a\x00b\x1b\x7fc\ufeffd\u200be", {}, "abcde"),
        ("a\r\nb\rc\u2028d\x85e", {}, "a\nb\nc\nd\ne"),
        ("  a \t\u00a0b \n\n\n\n c  ", {}, "a b\n\nc"),
        ("\n  a  b \n\n\n\n    c\t\n", {"white_space": "trim"}, "  a  b\n\n\n\n    c"),
        ("  a  b \n", {"white_space": "keep"}, "  a  b \n"),
        ("a &amp; b", {}, "a &amp; b"),
        ("a &amp;lt; b", {"unescape": True}, "a < b"),
        ("o\x00\u0308", {}, "ö"),
    ],
)
def test_normalisation(text: str, rules: dict[str, Any], expected: str) -> None:
    assert normalise(text, Rules(**rules)) == expected


@given(
    DIRTY | st.text(),
    st.sampled_from(["NFC", "NFKC", "none"]),
    st.sampled_from(["collapse", "trim", "keep"]),
    st.booleans(),
    st.sampled_from(["all", "lines", "none"]),
)
@example("&\x00amp;", "NFC", "keep", True, "all")
@example("\x00\u0301", "NFC", "collapse", False, "all")
def test_normalising_twice_is_as_once(text: str, unicode: Any, white_space: Any, unescape: bool, breaks: Any) -> None:
    rules = Rules(unicode=unicode, white_space=white_space, unescape=unescape)
    once = normalise(text, rules, breaks)
    assert normalise(once, rules, breaks) == once
    assert not (set("\r\x00\ufeff") & set(once))
    if breaks == "none":
        assert not (set("\n\t") & set(once))
    if breaks == "lines":
        assert all(line.strip() for line in once.split("\n")[1:-1])


@pytest.mark.parametrize(
    ("texts", "rules", "rule"),
    [
        ((" ",), {}, "empty"),
        (("a", ""), {}, "empty"),
        (("abc",), {"min_chars": 4}, "min_chars"),
        (("abc",), {"min_chars": 3, "max_chars": 3}, None),
        (("abc",), {"max_chars": 2}, "max_chars"),
        (("a b",), {"min_words": 3}, "min_words"),
        (("a b",), {"min_words": 2, "max_words": 2}, None),
        (("a b",), {"max_words": 1}, "max_words"),
        (("abc", "a"), {"min_chars": 2}, "min_chars"),
        (("abcdef", "abc"), {"max_ratio": 2}, None),
        (("abc", "abcdefg"), {"max_ratio": 2}, "max_ratio"),
    ],
)
def test_lengths(texts: tuple[str, ...], rules: dict[str, Any], rule: str | None) -> None:
    assert misfit(texts, Rules(**rules)) == rule


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"min_chars": 0}, "--min-chars: expected 1 or more, got 0"),
        ({"min_words": 5, "max_words": 3}, "--max-words: expected at least --min-words, 5, got 3"),
        ({"near": 1.5}, r"--near: expected a number in \(0, 1\], got 1.5"),
        ({"keep": 0.0}, r"--keep: expected a number in \(0, 1\], got 0.0"),
        ({"max_perplexity": 1.0}, r"--max-perplexity: expected a number in \(1, ∞\), got 1.0"),
        ({"shingle_size": 0}, "--shingle-size: expected 1 or more, got 0"),
    ],
)
def test_impossible_rules(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rules(**rules)


def test_the_examples_in_docstrings() -> None:
    assert all(doctest.testmod(module) == (0, 1) for module in (cleaning, duplicates))


# Rows ------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["a cat", "A cat", "a dog", "", "a cat sat on the mat", "a cat sat on the mat!"]), max_size=13))
def test_of_equal_texts_the_first_stays(texts: list[str]) -> None:
    stays = staying(texts)
    assert [texts[row] for row in stays] == [text for text in dict.fromkeys(texts) if text]
    assert stays == sorted(stays)
    assert staying([texts[row] for row in stays]) == list(range(len(stays)))
    near = [texts[row] for row in staying(texts, near=0.7)]
    assert not {"a cat", "A cat"} <= set(near) and not {"a cat sat on the mat", "a cat sat on the mat!"} <= set(near)
    assert staying(near, near=0.7) == list(range(len(near)))
    assert staying(texts, keep_duplicates=True) == [row for row, text in enumerate(texts) if text]


def test_contradictions_are_found_among_duplicates() -> None:
    with pytest.raises(ValueError, match="--drop-contradictions: expected no --keep-duplicates"):
        Rules(keep_duplicates=True, drop_contradictions=True)


def test_the_sides_of_a_pair_are_told_apart() -> None:
    pairs = [("a cat", "ein Hund"), ("ein Hund", "a cat"), ("a ca", "tein Hund"), ("a cat", "ein Hund")]
    decisions = decide([(pair, None) for pair in pairs], Rules(near=0.9))
    assert decisions.reason.tolist() == [-1, -1, -1, NAMES.index("duplicate")] and decisions.of[3] == 0


def test_labels() -> None:
    """Equal texts are duplicates whatever their labels, which is reported; near ones only with the same label."""
    records = [(("a cat sat on the mat",), "x"), (("a cat sat on the mat",), "y"), (("a cat sat on the mat!",), "y"), (("a dog",), "x")]
    decisions = decide(records, Rules(near=0.7))
    assert [NAMES[reason] if reason >= 0 else "" for reason in decisions.reason] == ["", "contradiction", "", ""]
    assert decisions.contradictions == [(1, 0)] and decisions.of.tolist() == [-1, 0, -1, -1]
    decisions = decide(records, Rules(near=0.7, drop_contradictions=True))
    assert [NAMES[reason] if reason >= 0 else "" for reason in decisions.reason] == ["contradiction", "contradiction", "", ""]
    assert decide([*records[:1], (records[2][0], "x")], Rules(near=0.7)).reason.tolist() == [-1, NAMES.index("near")]


def test_losses() -> None:
    losses = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 2.0, "e": 0.5}
    scored = list[str]()

    def model(texts: Any) -> list[float]:
        scored.extend(texts)
        return [losses[text] for text in texts]

    texts = ["a", "b", "a", "c", "d", "", "e"]
    assert staying(texts, model, max_perplexity=8.0) == [0, 3, 4, 6]  # log 8 = 2.08
    assert scored == ["a", "b", "c", "d", "e"], "what other rules removed is not scored"
    assert staying(texts, model, keep=0.6) == [0, 3, 6], "of equal losses the first"
    assert staying(texts, model, keep=0.01) == [6], "one at least"
    assert staying(texts, model, max_perplexity=8.0, keep=0.5) == [0, 6]
    assert staying([f"{i}" for i in range(600)], lambda texts: [float(text) for text in texts], keep=0.5) == list(range(300)), "in batches"


# Files -----------------------------------------------------------------------------------------------------------------


def test_other_columns_stay(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        'id,text,more,label\n1,"a  ""cat"", so",  z ,p\n2,"a ""cat"", so",,p\n3,"two\n\nlines","x\ry",q\n', encoding="utf-8", newline=""
    )
    report = run(tmp_path / "x.csv", tmp_path / "y.csv", removed=tmp_path / "r.jsonl")
    with open(tmp_path / "y.csv", encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["id", "text", "more", "label"],
            ["1", 'a "cat", so', "  z ", "p"],
            ["3", "two\n\nlines", "x\ry", "q"],
        ]
    assert (report.rows, report.left, report.changed, report.removed) == (3, 2, 1, {"duplicate": 1})
    removed = json.loads((tmp_path / "r.jsonl").read_text())
    assert removed == {"reason": "duplicate", "row": 2, "where": f"{tmp_path}/x.csv:3", "of": 1, "text": 'a "cat", so', "label": "p"}


def test_json_lines(tmp_path: Path) -> None:
    lines = ['{"text":"a cat","n":1.50,"label":3}', '{"n": 2e3, "text": "a  dög", "label": 5}', "", '{"text": "a cat", "label": 5}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    report = run(tmp_path / "x.jsonl", tmp_path / "y.jsonl")
    assert (tmp_path / "y.jsonl").read_text(encoding="utf-8").splitlines() == [lines[0], '{"n": 2000.0, "text": "a dög", "label": 5}']
    assert report.removed == {"contradiction": 1} and report.contradictions == 1 and report.examples["contradiction"].of == 1


def test_pairs_and_tabs(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text('source\ttarget\tmore\na "cat\tb\t1\na "cat\tc\t2\n\u00a0\tc\t3\na "cat\tb\t4\n', encoding="utf-8")
    assert run(tmp_path / "x.tsv", tmp_path / "y.tsv").removed == {"empty": 1, "duplicate": 1}
    assert (tmp_path / "y.tsv").read_text() == 'source\ttarget\tmore\na "cat\tb\t1\na "cat\tc\t2\n'
    (tmp_path / "x.txt").write_text("p\ta&#9;b&#10;c\r\nq\td\n")
    run(tmp_path / "x.txt", tmp_path / "y.txt", kind="labelled", unescape=True)
    assert (tmp_path / "y.txt").read_text() == "p\ta b c\nq\td\n"


@pytest.mark.parametrize("white_space", ["collapse", "trim", "keep"])
@pytest.mark.parametrize("unit", ["file", "paragraph", "line"])
def test_documents_stay_documents(tmp_path: Path, unit: Any, white_space: Any) -> None:
    """As many as the report says, when the result is read again."""
    (tmp_path / "x.txt").write_text("a cat \r\nsat&#10;&#10;down\n\n\n a cat\u2028sat\n\na cat\nsat&#10;&#10;down\n", encoding="utf-8")
    report = run(tmp_path / "x.txt", tmp_path / "y.txt", unit=unit, unescape=True, white_space=white_space)
    records = list(Source(str(tmp_path / "y.txt"), "documents", unit=unit).records())
    apart = white_space == "keep" and unit != "file"  # "a cat " and "a cat"
    assert len(records) == report.left == {"file": 1, "paragraph": 2, "line": 3}[unit] + apart
    again = run(tmp_path / "y.txt", tmp_path / "z.txt", unit=unit, unescape=True, white_space=white_space)
    assert (again.left, again.changed, again.removed) == (report.left, 0, {})
    assert (tmp_path / "z.txt").read_bytes() == (tmp_path / "y.txt").read_bytes()


def test_a_folder_becomes_json_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in (("a.txt", "one\n\ntwo\n"), ("b.md", "one\n\n\ntwo"), ("c.txt", ""), ("d.txt", "three")):
        (tmp_path / "in" / name).write_text(text)
    report = run(tmp_path / "in", tmp_path / "y.jsonl")
    assert [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()] == [{"text": "one\n\ntwo"}, {"text": "three"}]
    assert report.removed == {"empty": 1, "duplicate": 1}
    assert run(tmp_path / "in", tmp_path / "y.txt", unit="paragraph").left == 3
    assert (tmp_path / "y.txt").read_text() == "one\n\ntwo\n\nthree\n"


@given(st.lists(st.tuples(DIRTY, st.sampled_from("xy")), max_size=11), st.sampled_from([".csv", ".tsv", ".jsonl", ".jsonl.gz"]))
def test_cleaning_twice_is_as_once(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], suffix: str) -> None:
    folder = tmp_path_factory.mktemp("rows")
    rows = [*rows, ("a row that stays", "x")]
    if suffix == ".tsv":
        rows = [(text.replace("\t", " ").replace("\n", " ").replace("\r", " "), label) for text, label in rows]
    first, second, third = (folder / f"{name}{suffix}" for name in "abc")
    if ".jsonl" in suffix:
        data = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows).encode()
        first.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    else:
        with open(first, "w", encoding="utf-8", newline="") as file:
            quoting = {"quoting": csv.QUOTE_NONE, "delimiter": "\t"} if suffix == ".tsv" else {"quoting": csv.QUOTE_ALL}
            csv.writer(file, lineterminator="\n", **quoting).writerows([("text", "label"), *rows])
    report = run(first, second, near=0.6)
    again = run(second, third, near=0.6)
    assert (again.rows, again.left, again.changed, again.removed) == (report.left, report.left, 0, {})
    assert [record.texts for record in Source(str(second), "labelled", ("text", "label")).records()] == [
        record.texts for record in Source(str(third), "labelled", ("text", "label")).records()
    ]
