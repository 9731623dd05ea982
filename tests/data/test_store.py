"""Token files: the tokens of every record, made once."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenization.rearrange import rearranged
from transalg.data import files
from transalg.data import store as stores
from transalg.data.rows import whole_records
from transalg.data.sources import Source
from transalg.data.store import Store, store
from transalg.hyper import SpecialTokens
from transalg.tokenization import KINDS, Tokenizer, train
from transalg.tokenization.vocabulary import Kind

TEXT = "A cat sat. Ünd 1234 — naïve cats' hats\n"
BPE = train("bpe", [TEXT * 3], 280)


def record(data: Store, i: int, stream: str = "x") -> list[int]:
    bounds = data.bounds[stream]
    return [int(one) for one in data.tokens[stream][bounds[i] : bounds[i + 1]]]


@given(lines=st.lists(st.text(max_size=9).map(lambda text: text.replace("\n", "").replace("\r", "") + "a"), min_size=1, max_size=30))
def test_every_record_has_its_tokens(tmp_path_factory: Any, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("store")
    (folder / "a.txt").write_bytes("\n".join(lines).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "BATCH", 13)
        data = store(Source(str(folder / "a.txt"), "documents", unit="line"), BPE, folder)
    assert len(data) == len(lines)
    assert [record(data, i) for i in range(len(lines))] == BPE.encode_many(lines)
    assert data.meta.text_bytes == sum(len(line.encode()) for line in lines)


@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_characters_are_looked_up_as_the_library_does(tmp_path_factory: Any, text: str, known: str) -> None:
    folder = tmp_path_factory.mktemp("store")
    tokenizer = train("char", [known])
    (folder / "a.jsonl").write_text(json.dumps({"text": "a" + text}) + "\n" + json.dumps({"text": ""}))
    data = store(Source(str(folder / "a.jsonl"), "documents"), tokenizer, folder)
    assert [record(data, i) for i in range(2)] == tokenizer.encode_many(["a" + text, ""])
    assert data.meta.unknown == sum(one not in known for one in "a" + text) and data.meta.parts == len("a" + text)


def test_a_document_in_pieces_has_one_bos_and_one_eos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 32)
    monkeypatch.setattr(stores, "BATCH", 100)
    for name, text in (("a.txt", TEXT * 11), ("b.txt", ""), ("c.txt", TEXT)):
        (tmp_path / name).write_text(text)
    data = store(Source(str(tmp_path), "documents"), BPE, tmp_path / "cache")
    assert [record(data, i) for i in range(3)] == BPE.encode_many([TEXT * 11, "", TEXT])


def test_pairs_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("b\tone cat\na\ttwo\nb\t\n")
    pairs = store(Source(str(path), "pairs", ("source", "target")), BPE, tmp_path / "cache")
    assert [record(pairs, i, "z") for i in range(3)] == BPE.encode_many(["b", "a", "b"])
    assert [record(pairs, i, "x") for i in range(3)] == BPE.encode_many(["one cat", "two", ""])
    labelled = Source(str(path), "labelled", ("text", "label"))
    data = store(labelled, BPE, tmp_path / "cache")
    assert data.meta.labels == ("a", "b") and data.classes is not None and data.classes.tolist() == [1, 0, 1]
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
    store(Source(str(path), "documents", unit="line"), BPE, cache)
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
    tokens = (folder / "x.tokens").read_bytes()
    for name, data in (("x.tokens", tokens[:-2]), ("x.tokens", b""), ("meta.json", b"{"), ("x.bounds", b"")):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        with pytest.raises(ValueError, match="damaged: "):
            store(Source(str(path), "documents"), BPE, cache)
        (folder / name).write_bytes(before)


def made(folder: Path) -> tuple[Path, Source, Tokenizer]:
    """The token files of five labelled texts."""
    rows = [("good", "a fine film"), ("bad", "a dull film"), ("good", "what a cast"), ("bad", "what a waste"), ("good", "see it")]
    (folder / "a.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    source = Source(str(folder / "a.tsv"), "labelled", ("text", "label"))
    store(source, BPE, folder / "cache")
    (cache,) = (folder / "cache").iterdir()
    return cache, source, BPE


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dtype", "O", "dtype: expected uint16 or uint32, got O"),  # NumPy would take the file's bytes for pointers
        ("dtype", "float64", "dtype: expected uint16 or uint32, got float64"),
        ("dtype", "<u2", "dtype: expected uint16 or uint32, got <u2"),
        ("dtype", None, "dtype: expected"),
        ("dtype", "uint32", r"bounds: damaged: expected positions from 0 up to|tokens: damaged: expected a multiple of 4 bytes"),
        ("streams", ["../../x"], "streams: expected"),
        ("streams", "x", "streams: expected"),
        ("labels", [3, 4], "labels: expected a list of texts"),
        ("labels", ["good"], "classes: damaged: expected numbers from 0 to 0"),
        ("records", -1, "records: expected a whole number, got -1"),
        ("records", 0, "records: expected at least 1, got 0"),
        ("records", 2**62, r"x\.bounds: damaged: expected .* bytes"),
        ("records", True, "records: expected a whole number, got True"),
        ("tokens", 3, "tokens: expected .*, as the files have, got 3"),
        ("color", "red", "color: there is no such field"),
    ],
)
def test_a_strangers_token_files(tmp_path: Path, field: str, value: object, said: str) -> None:
    """What meta.json says is checked before a byte of the other files is read."""
    cache, source, tokenizer = made(tmp_path)
    meta = json.loads((cache / "meta.json").read_text())
    (cache / "meta.json").write_text(json.dumps(meta | {field: value}))
    with pytest.raises(ValueError, match=said) as refusal:
        store(source, tokenizer, cache.parent)
    assert str(cache) in str(refusal.value) and str(refusal.value).endswith(f"delete {cache}, and it is made again")


@pytest.mark.parametrize("content", ["[]", "null", "7", "{", "[" * 100_000, "\x00"])
def test_a_meta_that_is_none(tmp_path: Path, content: str) -> None:
    cache, source, tokenizer = made(tmp_path)
    (cache / "meta.json").write_text(content)
    with pytest.raises(ValueError, match=r"meta\.json: damaged: (expected a JSON object|not JSON); delete"):
        store(source, tokenizer, cache.parent)


@pytest.mark.parametrize(
    ("name", "numbers", "said"),
    [
        ("x.bounds", [0, 9, 3, 4, 5, -1], "x.bounds: damaged: expected positions from 0 up to"),
        ("x.bounds", [1, 1, 3, 4, 5, -1], "x.bounds: damaged: expected positions from 0 up to"),
        ("x.bounds", [-(2**40), 1, 3, 4, 5, -1], "x.bounds: damaged: expected positions from 0 up to"),
    ],
)
def test_bounds_stay_in_the_file(tmp_path: Path, name: str, numbers: list[int], said: str) -> None:
    cache, source, tokenizer = made(tmp_path)
    total = len((cache / "x.tokens").read_bytes()) // 2
    np.array([*numbers[:-1], total], np.int64).tofile(cache / name)
    with pytest.raises(ValueError, match=said):
        store(source, tokenizer, cache.parent)


def test_classes_are_those_of_the_labels(tmp_path: Path) -> None:
    cache, source, tokenizer = made(tmp_path)
    for classes in ([0, 1, 2, 0, 1], [0, -1, 1, 0, 1], [0, 1]):
        np.array(classes, np.int32).tofile(cache / "classes")
        with pytest.raises(ValueError, match=r"classes: damaged: expected (numbers from 0 to 1|20 bytes, got 8)"):
            store(source, tokenizer, cache.parent)


def test_a_pipe_in_a_cache_is_no_file(tmp_path: Path) -> None:
    cache, source, tokenizer = made(tmp_path)
    for name in ("x.tokens", "meta.json"):
        (cache / name).rename(tmp_path / name)
        os.mkfifo(cache / name)
        with pytest.raises(ValueError, match=f"{name}: damaged: cannot be read: not a file"):
            store(source, tokenizer, cache.parent)
        (cache / name).unlink()
        (tmp_path / name).rename(cache / name)


@pytest.mark.parametrize("name", ["x.tokens", "x.bounds", "classes"])
def test_a_file_that_shrinks_while_it_is_mapped_is_an_error_and_no_crash(tmp_path: Path, name: str) -> None:
    """Reading what a mapped file has lost ends a process by a signal, without a word."""
    cache, source, tokenizer = made(tmp_path)
    data = store(source, tokenizer, cache.parent)
    records, _ = whole_records(data, {"x": 99}, source.where)
    assert len(records.rows().batch(np.arange(5)).streams["x"][1]) == 5
    os.truncate(cache / name, 0)
    for read in (lambda: records.rows().batch(np.arange(5)), lambda: records.rows().lengths(np.arange(5))):
        with pytest.raises(ValueError, match=rf"{name}: expected \d+ bytes, got 0: something cut it while it was in use"):
            read()


def test_tokens_that_the_vocabulary_lacks_are_refused(tmp_path: Path) -> None:
    cache, source, tokenizer = made(tmp_path)
    tokens = np.fromfile(cache / "x.tokens", np.uint16)
    tokens[3] = tokenizer.N_V
    tokens.tofile(cache / "x.tokens")
    records, _ = whole_records(store(source, tokenizer, cache.parent), {"x": 99}, source.where)
    with pytest.raises(ValueError, match=f"expected token IDs below {tokenizer.N_V:,}, got {tokenizer.N_V:,}; delete the folder"):
        records.rows().batch(np.arange(5))


def test_large_vocabularies_have_wider_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(" ".join(chr(0x4E00 + i // 100) + str(i) for i in range(70000)))
    tokenizer: Tokenizer = train("word", [path.read_text()], 80_000)
    data = store(Source(str(path), "documents"), tokenizer, tmp_path / "cache")
    assert tokenizer.N_V > 2**16 and data.meta.dtype == "uint32" and record(data, 0) == tokenizer.encode(path.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_may_stand_anywhere(tmp_path: Path, kind: Kind) -> None:
    """Token files of a vocabulary with bos first and eos in the middle, where mask is lacking."""
    path = tmp_path / "a.txt"
    path.write_text(TEXT + "unseen: ж\n")
    last_three = train(kind, [TEXT])
    anywhere = rearranged(last_three)
    assert anywhere.special_tokens == SpecialTokens(None, 0, 7) and anywhere.kind == kind
    usual, other = (store(Source(str(path), "documents", unit="line"), each, tmp_path / "cache") for each in (last_three, anywhere))
    for i, text in enumerate((TEXT.strip(), "unseen: ж")):
        assert record(other, i) == anywhere.encode(text) and anywhere.decode(record(other, i)) == last_three.decode(record(usual, i))
        assert record(other, i)[0] == 0 and record(other, i)[-1] == 7
    assert other.meta.unknown == usual.meta.unknown and other.eos == 7
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_special_token_that_is_a_character_is_text_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ab|ba")
    core = train("char", ["ab|"]).core
    bar = core.token_to_id("|")
    tokenizer = Tokenizer(core, special=SpecialTokens(None, bar, bar))
    data = store(Source(str(path), "documents"), tokenizer, tmp_path / "cache")
    assert record(data, 0) == tokenizer.encode("ab|ba") == [bar, 0, 1, bar, 1, 0, bar] and data.meta.unknown == 0
    store(Source(str(path), "documents"), train("char", ["ab|"]), tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2, "other special tokens, other token files"


def test_a_vocabulary_without_eos_gives_no_token_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    with pytest.raises(ValueError, match="eos_token: this vocabulary has none"):
        store(Source(str(tmp_path / "a.txt"), "documents"), Tokenizer(BPE.core, special=SpecialTokens(None, 3, None)), tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_vocabulary_without_bos_has_records_that_begin_with_their_text(tmp_path: Path) -> None:
    """GPT-2's, say."""
    (tmp_path / "a.txt").write_text("a cat\n\na dog\n")
    tokenizer = Tokenizer(BPE.core, special=SpecialTokens(None, None, 3))
    data = store(Source(str(tmp_path / "a.txt"), "documents", unit="line"), tokenizer, tmp_path / "cache")
    assert [record(data, i) for i in range(data.meta.records)] == [tokenizer.encode(text) for text in ("a cat", "a dog")]
    assert record(data, 0)[0] == BPE.encode("a cat", ends=False)[0]


def test_z_may_have_no_bos_where_x_has_one(tmp_path: Path) -> None:
    """Marian's."""
    (tmp_path / "a.tsv").write_text("a cat\ta dog\n")
    tokenizer = Tokenizer(BPE.core, special=SpecialTokens(None, 5, 3, context_bos=False))
    data = store(Source(str(tmp_path / "a.tsv"), "pairs", ("source", "target")), tokenizer, tmp_path / "cache")
    assert data.tokens["z"].tolist() == [*tokenizer.encode("a cat", ends=False), 3]
    assert data.tokens["x"].tolist() == [5, *tokenizer.encode("a dog", ends=False), 3]


def test_a_text_that_is_cut_ends_with_eos(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\tone cat sat\nb\ttwo\n")
    data = store(Source(str(tmp_path / "a.txt"), "labelled", ("text", "label")), BPE, tmp_path / "cache")
    rows = whole_records(data, {"x": 5}, str, too_long="cut")[0].rows()
    ids, lengths = rows.batch(np.arange(1)).streams["x"]
    assert ids.tolist() == [[*BPE.encode("one cat sat")[:4], BPE.eos_token]] and lengths.tolist() == [5] and rows.cut == 1
