"""Tables: columns by name or by number, with a header or without; what was chosen is said."""

from pathlib import Path

import pytest

from transalg.data.builtin import Kind
from transalg.data.sources import Record, Source, named_rows
from transalg.data.tables import COLUMNS, SAMPLE

REVIEWS = [("good", "a fine film"), ("bad", "a dull film"), ("good", "what a cast"), ("bad", "what a waste"), ("good", "see it")]


def source(folder: Path, name: str, lines: list[str], kind: Kind, *columns: str) -> Source:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return Source(str(folder / name), kind, columns or COLUMNS[kind])


def labelled(records: list[Record]) -> list[tuple[str | None, str]]:
    return [(record.label, record.texts[0]) for record in records]


@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ",")])
@pytest.mark.parametrize("label_first", [True, False])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_two_columns_without_a_header_are_label_and_text(tmp_path: Path, name: str, delimiter: str, label_first: bool, count: int) -> None:
    rows = REVIEWS[:count]
    reviews = source(tmp_path, name, [delimiter.join(row if label_first else row[::-1]) for row in rows], "labelled")
    records = list(reviews.records())
    assert labelled(records) == rows and records[1].where == f"{tmp_path / name}:2"
    order = (
        "the first column is read as label, the second as text" if label_first else "the first column is read as text, the second as label"
    )
    assert reviews.notes() == [f"{tmp_path / name}: no header with text and label; {order}"]


def test_of_equal_columns_the_first_is_the_label(tmp_path: Path) -> None:
    assert labelled(list(source(tmp_path, "a.tsv", ["aa\tbb", "cc\tdd"], "labelled").records())) == [("aa", "bb"), ("cc", "dd")]


def test_two_columns_without_a_header_are_source_and_target(tmp_path: Path) -> None:
    pairs = source(tmp_path, "a.tsv", ["one\teins", "two\tzwei"], "pairs")
    assert [record.texts for record in pairs.records()] == [("one", "eins"), ("two", "zwei")]
    assert pairs.notes() == [
        f"{tmp_path / 'a.tsv'}: no header with source and target; the first column is read as source, the second as target"
    ]


def test_a_header_of_other_names_is_no_data(tmp_path: Path) -> None:
    """A label that occurs in the first line alone, while others occur again and again, is the name of a column."""
    rows = REVIEWS * 3
    reviews = source(tmp_path, "a.csv", ["stars,review", *(",".join(row) for row in rows)], "labelled")
    assert labelled(list(reviews.records())) == rows
    assert reviews.notes()[0].endswith("the second as text; the first line is taken for a header")
    by_number = source(tmp_path, "b.csv", ["review,stars", *(",".join(row[::-1]) for row in rows)], "labelled", "1", "2")
    assert labelled(list(by_number.records())) == rows and by_number.notes()[0].endswith("the first line is a header")


def test_a_rare_label_in_a_short_table_is_data(tmp_path: Path) -> None:
    rows = [("odd", "who knows"), *REVIEWS]
    assert labelled(list(source(tmp_path, "a.tsv", ["\t".join(row) for row in rows], "labelled").records())) == rows


@pytest.mark.parametrize("header", ["text\tlabel", "label\ttext\tid"])
def test_with_a_header_columns_have_their_names(tmp_path: Path, header: str) -> None:
    named = [{"text": text, "label": label, "id": "7"} for label, text in REVIEWS]
    lines = [header, *("\t".join(row[name] for name in header.split("\t")) for row in named)]
    reviews = source(tmp_path, "a.tsv", lines, "labelled")
    assert labelled(list(reviews.records())) == REVIEWS and reviews.notes() == []


@pytest.mark.parametrize("header", [[], ["label\ttext"], ["Label\tid\tTEXT"]])
def test_columns_by_number(tmp_path: Path, header: list[str]) -> None:
    text = header[0].split("\t").index("TEXT") if header and "TEXT" in header[0] else 1
    rows = [(label, body) if text == 1 else (label, "7", body) for label, body in REVIEWS]
    reviews = source(tmp_path, "a.tsv", [*header, *("\t".join(row) for row in rows)], "labelled", str(text + 1), "1")
    assert labelled(list(reviews.records())) == REVIEWS
    what = "a header" if header else "data"
    assert reviews.notes() == [f"{tmp_path / 'a.tsv'}: columns by number (text and label: {text + 1} and 1); the first line is {what}"]


def test_numbers_in_the_first_line_are_no_names(tmp_path: Path) -> None:
    """A number is a position, also where labels are numbers."""
    reviews = source(tmp_path, "a.tsv", ["1\t2", "2\tthree"], "labelled", "2", "1")
    assert labelled(list(reviews.records())) == [("1", "2"), ("2", "three")]


def test_a_name_and_a_number(tmp_path: Path) -> None:
    reviews = source(tmp_path, "a.csv", ["id,review,stars", "7,fine,5"], "labelled", "review", "3")
    assert labelled(list(reviews.records())) == [("5", "fine")]


def test_documents_by_number(tmp_path: Path) -> None:
    documents = source(tmp_path, "a.tsv", ["7\tone", "8\ttwo"], "documents", "2")
    assert [record.texts for record in documents.records()] == [("one",), ("two",)]


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (["a\tb"], ("3", "1"), r"a\.tsv:1: expected at least 3 columns, got 2"),
        (["a\tb", "c"], ("2", "1"), r"a\.tsv:2: expected 2 columns, as in the first row, got 1"),
        (["a\tb"], ("review", "label"), r"a\.tsv:1: expected a column 'review', got a, b; .*or give the number of the column, from 1"),
        (["a\tb"], ("0", "1"), r"a\.tsv:1: expected a column '0', got a, b"),
        (
            ["a\tb\tc"],
            ("text", "label"),
            r"a\.tsv:1: expected a column 'text', got a, b, c; name yours with --text-column and --label-column",
        ),
    ],
)
def test_columns_that_do_not_exist(tmp_path: Path, lines: list[str], columns: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(source(tmp_path, "a.tsv", lines, "labelled", *columns).records())


def test_a_table_longer_than_the_sample(tmp_path: Path) -> None:
    rows = [(str(i % 7), f"text {i}") for i in range(SAMPLE + 5)]
    records = list(source(tmp_path, "a.tsv", ["\t".join(row) for row in rows], "labelled").records())
    assert labelled(records) == rows and records[-1].where == f"{tmp_path / 'a.tsv'}:{SAMPLE + 5}"


def test_keys_of_json_lines_are_names_even_if_they_are_numbers(tmp_path: Path) -> None:
    lines = ['{"2": "one", "1": "eins"}']
    pairs = source(tmp_path, "a.jsonl", lines, "pairs", "2", "1")
    assert [record.texts for record in pairs.records()] == [("one", "eins")] and pairs.notes() == []


def test_notes_of_a_folder_name_each_table(tmp_path: Path) -> None:
    for name in ("a.tsv", "b.txt", "c.csv"):
        (tmp_path / name).write_text("one,\teins\ntwo,\tzwei\n")
    assert [note.split(": ")[0] for note in Source(str(tmp_path), "pairs", ("source", "target")).notes()] == [
        str(tmp_path / "a.tsv"),
        str(tmp_path / "c.csv"),
    ]
    assert Source("dates", "pairs", ("source", "target")).notes() == []


def test_rows_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('q,a\n"1, 2",3\n4,\n')
    assert list(named_rows(tmp_path / "a.csv")) == [(2, {"q": "1, 2", "a": "3"}), (3, {"q": "4", "a": ""})]
    for table, said in (
        ("q,a\n1\n", r":2: expected 2 columns, as in the first row, got 1"),
        ("q,q\n1,2\n", r":1: .*different names, got 'q' twice"),
    ):
        (tmp_path / "a.csv").write_text(table)
        with pytest.raises(ValueError, match=said):
            list(named_rows(tmp_path / "a.csv"))
    (tmp_path / "empty.csv").write_text("")
    assert list(named_rows(tmp_path / "empty.csv")) == []


@pytest.mark.parametrize("columns", [("text", "label"), ("1", "2")])
def test_ragged_rows_are_refused(tmp_path: Path, columns: tuple[str, str]) -> None:
    """A comma in a text that is not quoted shifts the cells after it: the label of the row would be half of its text."""
    for row, count in (("a film, and a good one,good,7", 4), ("a film", 1)):
        reviews = source(tmp_path, "a.csv", ["text,label,id", "a dull film,bad,3", row], "labelled", *columns)
        with pytest.raises(ValueError, match=rf"a\.csv:3: expected 3 columns, as in the first row, got {count}; quote a cell"):
            list(reviews.records())


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    reviews = source(tmp_path, "a.csv", ["text,label,label", "a dull film,bad,3"], "labelled")
    with pytest.raises(ValueError, match=r"a\.csv:1: expected columns of different names, got 'label' twice, columns 2 and 3; rename one"):
        list(reviews.records())
    numbered = source(tmp_path, "a.csv", ["text,label,label", "a dull film,bad,3"], "labelled", "1", "2")
    assert labelled(list(numbered.records())) == [("bad", "a dull film")]
    unnamed = source(tmp_path, "a.csv", [",,text,label", "1,2,a dull film,bad"], "labelled")
    assert labelled(list(unnamed.records())) == [("bad", "a dull film")]


def test_csv_that_is_none_in_plain_words(tmp_path: Path) -> None:
    for row, said in (('"a', "a quotation mark is opened and never closed"), ('"a"b,c', "something follows a closing quotation mark")):
        with pytest.raises(ValueError, match=f"not CSV: {said}"):
            list(source(tmp_path, "a.csv", ["text,label", row], "labelled").records())
    with pytest.raises(ValueError, match=r"got c0, c1, .* and 1,988 more; name yours"):
        list(source(tmp_path, "a.csv", [",".join(f"c{i}" for i in range(2000))], "labelled").records())
