"""Token files: the tokens of every record, made once."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.data import sources
from transalg.data import store as stores
from transalg.data.sources import Source
from transalg.data.store import Store, store
from transalg.tokenization import Tokenizer, train

TEXT = "A cat sat. Ünd 1234 — naïve cats' hats\n"
BPE = train("bpe", [TEXT * 3], 280)


def record(found: Store, i: int, stream: str = "x") -> list[int]:
    bounds = found.bounds[stream]
    return [int(one) for one in found.tokens[stream][bounds[i] : bounds[i + 1]]]


@given(lines=st.lists(st.text(max_size=9).map(lambda text: text.replace("\n", "").replace("\r", "") + "a"), min_size=1, max_size=30))
def test_every_record_has_its_tokens(tmp_path_factory: Any, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("store")
    (folder / "a.txt").write_bytes("\n".join(lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "BATCH", 13)
        found = store(Source(str(folder / "a.txt"), "documents", cut="line"), BPE, folder)
    assert len(found) == len(lines)
    assert [record(found, i) for i in range(len(lines))] == BPE.encode_many(lines)
    assert found.meta.text_bytes == sum(len(line.encode()) for line in lines)


@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_characters_are_looked_up_as_the_library_does(tmp_path_factory: Any, text: str, known: str) -> None:
    folder = tmp_path_factory.mktemp("store")
    tokenizer = train("char", [known])
    (folder / "a.jsonl").write_text(json.dumps({"text": "a" + text}) + "\n" + json.dumps({"text": ""}))
    found = store(Source(str(folder / "a.jsonl"), "documents"), tokenizer, folder)
    assert [record(found, i) for i in range(2)] == tokenizer.encode_many(["a" + text, ""])
    assert found.meta.unknown == sum(one not in known for one in "a" + text)


def test_a_document_in_pieces_has_one_bos_and_one_eos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 32)
    monkeypatch.setattr(stores, "BATCH", 100)
    for name, text in (("a.txt", TEXT * 11), ("b.txt", ""), ("c.txt", TEXT)):
        (tmp_path / name).write_text(text)
    found = store(Source(str(tmp_path), "documents"), BPE, tmp_path / "cache")
    assert [record(found, i) for i in range(3)] == BPE.encode_many([TEXT * 11, "", TEXT])


def test_pairs_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("b\tone cat\na\ttwo\nb\t\n")
    pairs = store(Source(str(path), "pairs", ("source", "target")), BPE, tmp_path / "cache")
    assert [record(pairs, i, "z") for i in range(3)] == BPE.encode_many(["b", "a", "b"])
    assert [record(pairs, i, "x") for i in range(3)] == BPE.encode_many(["one cat", "two", ""])
    labelled = Source(str(path), "labelled", ("text", "label"))
    found = store(labelled, BPE, tmp_path / "cache")
    assert found.meta.labels == ("a", "b") and found.classes is not None and found.classes.tolist() == [1, 0, 1]
    known = store(labelled, BPE, tmp_path / "cache", labels=("b", "c", "a"))
    assert known.classes is not None and known.classes.tolist() == [0, 2, 0]
    with pytest.raises(ValueError, match=r"a\.txt:2: expected one of the model's classes, b, c; got 'a'"):
        store(labelled, BPE, tmp_path / "cache", labels=("b", "c"))
    path.write_text("b\tone\nb\ttwo\n")
    with pytest.raises(ValueError, match="at least 2 classes, got 2 that are all 'b'"):
        store(labelled, BPE, tmp_path / "other")
    assert not list((tmp_path / "other").glob("*.part"))


def test_unseen_characters_and_words_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a cat! a dog")
    for kind, text, unknown in (("char", "a ct!", 3), ("word", "a cat ?", 2)):
        assert store(Source(str(path), "documents"), train(kind, [text]), tmp_path / "cache").meta.unknown == unknown  # type: ignore[arg-type]


def test_made_once_and_again_when_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text(TEXT)
    made = []
    monkeypatch.setattr(stores, "_write", lambda *a, write=stores._write: made.append(a[0]) or write(*a))
    for _ in range(2):
        store(Source(str(path), "documents"), BPE, cache)
    assert len(made) == 1
    store(Source(str(path), "documents", cut="line"), BPE, cache)
    store(Source(str(path), "documents"), train("char", [TEXT]), cache)
    path.write_text(TEXT + " ")
    store(Source(str(path), "documents"), BPE, cache)
    assert len(made) == len(list(cache.iterdir())) == 4


def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_bytes(TEXT.encode() * 9 + b"\xff")
    with pytest.raises(ValueError, match=":10: expected UTF-8"):
        store(Source(str(path), "documents"), BPE, cache)
    assert not list(cache.iterdir())
    path.write_text(TEXT)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stores._Stream, "add", full)
    with pytest.raises(ValueError, match="cannot be written: No space left on device"):
        store(Source(str(path), "documents"), BPE, cache)
    assert not list(cache.iterdir())


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path, cache = tmp_path / "a.txt", tmp_path / "cache"
    path.write_text(TEXT)
    store(Source(str(path), "documents"), BPE, cache)
    (folder,) = cache.iterdir()
    whole = (folder / "x.tokens").read_bytes()
    for name, data in (("x.tokens", whole[:-2]), ("x.tokens", b""), ("meta.json", b"{"), ("x.bounds", b"")):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        with pytest.raises(ValueError, match="damaged token files"):
            store(Source(str(path), "documents"), BPE, cache)
        (folder / name).write_bytes(before)


def test_large_vocabularies_have_wider_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(" ".join(chr(0x4E00 + i // 100) + str(i) for i in range(70000)))
    tokenizer: Tokenizer = train("word", [path.read_text()])
    found = store(Source(str(path), "documents"), tokenizer, tmp_path / "cache")
    assert tokenizer.N_V > 2**16 and found.meta.dtype == "uint32" and record(found, 0) == tokenizer.encode(path.read_text())
