"""Files to records, and what is said about files that are not as expected."""

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.data import files
from transalg.data.sources import Source, last_gap
from transalg.tokenization import train


def put(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def read(name: str, kind: Any = "documents", **options: Any) -> list[Any]:
    return list(Source(name, kind, **options).records())


def test_a_text_file_is_a_document_as_it_is(tmp_path: Path) -> None:
    text = "\ufeffeins\r\nzwei ü\n\n"
    for name in ("a.txt", "b.txt.gz", "c.md"):
        (record,) = read(put(tmp_path, name, text))
        assert record.texts == ("eins\r\nzwei ü\n\n",) and record.begins and record.ends


def test_lines_and_paragraphs(tmp_path: Path) -> None:
    name = put(tmp_path, "a.txt", "a\r\nb\n\n\n c\nd")
    assert [(r.texts[0], r.where) for r in read(name, unit="line")] == [
        ("a", f"{name}:1"),
        ("b", f"{name}:2"),
        (" c", f"{name}:5"),
        ("d", f"{name}:6"),
    ]
    assert [(r.texts[0], r.where) for r in read(name, unit="paragraph")] == [("a\nb", f"{name}:1"), (" c\nd", f"{name}:5")]


def test_json_lines_and_tables_by_name(tmp_path: Path) -> None:
    rows = [{"q": 'one, "two"', "n": 3, "a": "x\ty"}, {"q": "ü", "n": 4, "a": "z"}]
    jsonl = put(tmp_path, "a.jsonl.gz", "\n".join(json.dumps(row) for row in rows) + "\n\n")
    table = put(tmp_path, "a.csv", 'n,q,a\n3,"one, ""two""",x\ty\n4,"ü\nv",z\n')
    tabs = put(tmp_path, "a.tsv", 'n\tq\ta\n3\t"one\tx\n')
    assert [r.texts for r in read(jsonl, columns=("q",))] == [('one, "two"',), ("ü",)]
    assert [r.texts for r in read(jsonl, "pairs", columns=("q", "a"))] == [('one, "two"', "x\ty"), ("ü", "z")]
    assert [(r.texts, r.label) for r in read(jsonl, "labelled", columns=("q", "n"))] == [(('one, "two"',), "3"), (("ü",), "4")]
    assert [(r.texts, r.where) for r in read(table, columns=("q",))] == [(('one, "two"',), f"{table}:2"), (("ü\nv",), f"{table}:4")]
    assert [r.texts for r in read(tabs, "pairs", columns=("q", "a"))] == [('"one', "x")]


def test_tab_separated_text(tmp_path: Path) -> None:
    name = put(tmp_path, "a.txt", "one\ttwo\tthree\n\nü\t\n")
    assert [r.texts for r in read(name, "pairs", columns=("source", "target"))] == [("one", "two\tthree"), ("ü", "")]
    assert [(r.label, r.texts[0]) for r in read(name, "labelled", columns=("text", "label"))] == [("one", "two\tthree"), ("ü", "")]


def test_folders(tmp_path: Path) -> None:
    for name, text in (("b/1.txt", "one"), ("a/2.txt", "two"), ("a/.hidden", "no"), (".git/x", "no"), ("a/c/3.txt", "three")):
        put(tmp_path, name, text)
    assert [r.texts[0] for r in read(str(tmp_path))] == ["two", "three", "one"]
    labelled = [(r.texts[0], r.label) for r in read(str(tmp_path), "labelled", columns=("text", "label"))]
    assert labelled == [("two", "a"), ("three", "a"), ("one", "b")]


@pytest.mark.parametrize(
    ("name", "data", "kind", "message"),
    [
        ("a.txt", b"one\ntwo\xff\n", "documents", ":2: expected UTF-8, got the byte 0xff"),
        ("a.txt", b"one\ntw\xc3", "documents", ":2: expected UTF-8"),
        ("a.txt", b" \n\t\n", "documents", "nothing but white space"),
        ("a.txt", b"", "pairs", "nothing but white space"),
        ("a.txt", b"a\tb\nc\n", "pairs", ":2: expected source, a tab, target"),
        ("a.txt", b"a\tb\n\nc\n", "labelled", ":3: expected label, a tab, text"),
        ("a.csv", b"source,other\na,b\n", "pairs", ":1: expected a column 'target', got source, other; name yours with --source-column"),
        ("a.jsonl", b'{"text": null}\n', "documents", ":1: expected a text as 'text', got null"),
        ("a.csv", b"Text,kind\na,b\n", "labelled", ":1: expected a column 'text', got Text, kind; name yours"),
        ("a.tsv", b"x\ty\tz\n", "pairs", "--source-column and --target-column, or give the number of the column, from 1"),
        ("a.tsv", b"x\ty\n", "documents", ":1: expected a column 'text', got x, y; name yours with --text-column, or give the number"),
        ("a.tsv", b"one\teins\n\ntwo\tzwei\tdrei\n", "pairs", ":3: expected 2 columns, as in the first row, got 3"),
        ("a.tsv", b"one\teins\ntwo\n", "pairs", ":2: expected 2 columns, as in the first row, got 1"),
        ("a.csv", b"text,label\na\n", "labelled", ":2: expected 2 columns, as in the first row, got 1"),
        ("a.csv", b'text\n"a\n', "documents", ":2: not CSV"),
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', "documents", ":2: not JSON"),
        ("a.jsonl", b'{"text": "a\\ud800b"}\n', "documents", ":1: half of a surrogate pair"),
        ("a.jsonl", b'{"text": "a"}\n[1]\n', "documents", ":2: expected a JSON object"),
        ("a.jsonl", b'{"text": "a"}\n{"txt": "a"}\n', "documents", ":2: expected a column 'text', got txt; name yours with --text-column"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, name: str, data: bytes, kind: Any, message: str) -> None:
    columns = {"documents": ("text",), "pairs": ("source", "target"), "labelled": ("text", "label")}[kind]
    path = put(tmp_path, name, data)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read(path, kind, columns=columns)
    assert path in str(caught.value) and "\n" not in str(caught.value)


def test_bad_gzip_and_bad_names(tmp_path: Path) -> None:
    complete = gzip.compress(b"some text " * 1000)
    (tmp_path / "a.txt.gz").write_bytes(complete[:-9])
    (tmp_path / "b.txt.gz").write_bytes(b"no gzip")
    for name in ("a.txt.gz", "b.txt.gz"):
        with pytest.raises(ValueError, match="not a complete gzip file"):
            read(str(tmp_path / name))
    with pytest.raises(ValueError, match="no such file or folder, nor built-in data \\(pydocs\\)"):
        Source(str(tmp_path / "none"), "documents")
    with pytest.raises(ValueError, match="dates: these are pairs of texts; expected documents"):
        Source("dates", "documents")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="expected files in this folder"):
        read(str(tmp_path / "empty"))


def test_a_long_document_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 16)
    text = "".join(f"word{i}  \n and, don't {i * i}\n" for i in range(40))
    records = read(put(tmp_path, "a.txt", text))
    assert len(records) > 10 and "".join(record.texts[0] for record in records) == text
    assert [record.begins for record in records] == [True] + [False] * (len(records) - 1)
    assert [record.ends for record in records] == [False] * (len(records) - 1) + [True]


@given(st.text(st.sampled_from("ab1 \n\t.'sü\u00a0"), max_size=60))
def test_pieces_have_the_tokens_of_the_document(text: str) -> None:
    at = last_gap(text)
    for tokenizer in TOKENIZERS:
        apart = [one for piece in (text[:at], text[at:]) for one in tokenizer.encode(piece, ends=False)]
        assert apart == tokenizer.encode(text, ends=False)
    if at:
        assert text[at] in " \n" and not text[at - 1].isspace()


TOKENIZERS = [
    train("char", ["ab1 \n\t.'sü\u00a0"]),
    train("word", ["a b 1 ab ba aa . ' s ü a1"]),
    train("bpe", ["ab ab ba 's a's  a \n\n b . .. 11 1 üü ü\u00a0\u00a0a"] * 9, 300),
]


def test_digests_tell_what_was_read(tmp_path: Path) -> None:
    one, two = put(tmp_path, "1/a.txt", "one\ttwo"), put(tmp_path, "2/b.txt", "one\ttwo")
    assert Source(one, "documents").digest() == Source(two, "documents").digest()
    others = [Source(one, "documents", unit="line"), Source(one, "pairs", ("source", "target")), Source("pydocs", "documents")]
    others += [Source(put(tmp_path, "3.txt", "one\ttwo "), "documents"), Source(str(tmp_path / "1"), "documents")]
    assert len({source.digest() for source in [Source(one, "documents"), *others]}) == 6


def test_where_records_are(tmp_path: Path) -> None:
    name = put(tmp_path, "a.txt", "a\tb\n\nc\td\n")
    assert Source(name, "pairs", ("source", "target")).where(1) == f"{name}:3"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.tsv", "a.jsonl"])
def test_progress_hears_of_every_byte_once(tmp_path: Path, name: str) -> None:
    text = "".join(f'{{"text": "{i}"}}\n' for i in range(20_000)) if name == "a.jsonl" else "text\n" + "some words\n" * 20_000
    source = Source(put(tmp_path, name, text), "documents")
    sizes: list[int] = []
    assert list(source.records(sizes.append)) == list(source.records())
    assert sum(sizes) == source.size() > 0 and (len(sizes) > 2 or name == "a.txt.gz")


def test_what_can_be_read_once_only_is_no_data(tmp_path: Path) -> None:
    """The vocabulary and the tokens are made in two passes; a pipe would wait for ever, or be empty the second time."""
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(
        ValueError, match=r"a\.txt: expected a file or a folder, got a pipe, which can be read once only; write it to a file"
    ):
        Source(str(tmp_path / "a.txt"), "documents")
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(ValueError, match=f"{device}: expected a file, got a device"):
            Source(device, "documents")
    with pytest.raises(ValueError, match="/dev/null: expected documents, got nothing"):
        list(Source("/dev/null", "documents").records())


def test_a_small_file_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gzip bomb: of a line, or of a file that is one labelled text, no more is held than the limit."""
    monkeypatch.setattr(files, "LONGEST", 1000)
    monkeypatch.setattr(files, "BLOCK", 100)
    bomb = gzip.compress(b"a" * 10**6)
    (tmp_path / "a.jsonl.gz").write_bytes(bomb)
    with pytest.raises(ValueError, match=r"a\.jsonl\.gz:1: expected a line of at most 1,000 characters, got a longer one"):
        list(Source(str(tmp_path / "a.jsonl.gz"), "documents").records())
    (tmp_path / "texts" / "good").mkdir(parents=True)
    (tmp_path / "texts" / "good" / "a.txt.gz").write_bytes(bomb)
    with pytest.raises(ValueError, match=r"a\.txt\.gz: expected a text of at most 1,000 characters, got a longer one"):
        list(Source(str(tmp_path / "texts"), "labelled", ("text", "label")).records())


def test_json_in_plain_words(tmp_path: Path) -> None:
    for line, said in (
        ("{", r"not JSON: expecting property name .* at character 2"),
        ("[" * 100_000, "not JSON that can be read: nested too deeply"),
        ('{"text": 1' + "0" * 5000 + "}", "a number of too many digits"),
        ('{"text": "\\ud800"}', "half of a surrogate pair, which is no character"),
    ):
        (tmp_path / "a.jsonl").write_text(line)
        with pytest.raises(ValueError, match=r"a\.jsonl:1: ") as refusal:
            list(Source(str(tmp_path / "a.jsonl"), "documents").records())
        assert re.search(said, str(refusal.value)) and len(str(refusal.value)) < 300
