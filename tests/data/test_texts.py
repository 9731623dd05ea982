"""Files of texts: every row has its number, and a bad one says what is wrong and spoils no other."""

import gzip
from pathlib import Path

import pytest

from transalg.data.texts import TextRow, text_rows


def note(text: str) -> None:
    raise AssertionError(f"no note is wanted: {text}")


GOOD = [TextRow(1, "a cat"), TextRow(3, "ran")]


@pytest.mark.parametrize(
    ("name", "data", "wrong"),
    [
        ("a.txt", b"a cat\n \nran\n", "expected a text, got none"),
        ("a.txt", b"\xef\xbb\xbfa cat\r\n\xff\r\nran\r\n", "expected UTF-8, got the byte 0xff"),
        ("a.txt.gz", gzip.compress(b"a cat\n\nran\n", mtime=0), "expected a text, got none"),
        ("a.csv", b'id,text\n1,a cat\n2\n3,"ran"\n', "expected 2 columns, as in the first row, got 1; quote a cell that has the delimiter in it"),
        ("a.csv", b"text,id\na cat,1\n,2\nran,3\n", "expected a text, got none"),
        ("a.tsv", b"text\tid\na cat\t1\nc\xe4t\t2\nran\t3\n", "expected UTF-8, got the byte 0xe4"),
        ("a.csv", b'text\na cat\n"\n"\nran\n', "expected a text, got none"),
        ("a.jsonl", b'{"text": "a cat"}\n{"text": }\n{"text": "ran"}', "not JSON: expecting value at character 10"),
        ("a.jsonl", b'{"text": "a cat"}\n["ran"]\n{"text": "ran"}', "expected a JSON object with a name for every value, got list"),
        ("a.jsonl", b'{"text": "a cat"}\n{"txt": "x", "b": null}\n{"text": "ran"}', "expected a column 'text', got txt; name yours with --column"),
        ("a.jsonl", b'{"text": "a cat"}\n{"txt": "x", "text": null}\n{"text": "ran"}', "expected a text as 'text', got null"),
        ("a.jsonl", b'{"text": "a cat"}\n{"text": "c\xe4t"}\n{"text": "ran"}', "expected UTF-8, got the byte 0xe4"),
        ("a.jsonl", b'{"text": "a cat"}\n{"text": "\\ud800"}\n{"text": "ran"}', "half of a surrogate pair, which is no character"),
        ("a.ndjson", b'{"text": "a cat"}\n{"text": ""}\n{"text": "ran"}', "expected a text, got none"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_and_the_others_are_read(tmp_path: Path, name: str, data: bytes, wrong: str) -> None:
    (tmp_path / name).write_bytes(data)
    rows = list(text_rows(tmp_path / name, "text", note))
    assert [row for row in rows if not row.wrong] == GOOD
    assert [(row.number, row.wrong) for row in rows if row.wrong] == [(2, wrong)]


def test_numbers_are_lines_of_json_and_rows_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": 7}\n\n{"text": "b"}\n')
    assert list(text_rows(tmp_path / "a.jsonl", "text", note)) == [TextRow(1, "7"), TextRow(3, "b")]
    (tmp_path / "a.csv").write_text('text\n"a\nb"\n\nc\n')
    assert list(text_rows(tmp_path / "a.csv", "text", note)) == [TextRow(1, "a\nb"), TextRow(2, "c")]


def test_a_header_without_the_column_is_an_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,txt\n1,a\n")
    with pytest.raises(ValueError, match=r"a\.csv:1: expected a column 'text', got id, txt; name yours with --column, or give the number"):
        list(text_rows(tmp_path / "a.csv", "text", note))
    notes = list[str]()
    assert list(text_rows(tmp_path / "a.csv", "2", notes.append)) == [TextRow(1, "txt"), TextRow(2, "a")]
    assert notes == [f"{tmp_path / 'a.csv'}: columns by number (text: 2); the first line is data"]
