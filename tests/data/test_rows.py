"""Rows and batches: no token is lost, records are not mixed, training resumes at any position."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.data import rows as data_rows
from transalg.data.batches import DataPosition, Plan
from transalg.data.rows import FEW, RecordSubset, Rows, chunks, whole_records
from transalg.data.store import Meta, Store


def make(lengths: list[int], streams: tuple[str, ...] = ("x",), classes: bool = False) -> Store:
    """A store whose tokens are numbered through."""
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    tokens = np.arange(bounds[-1])
    meta = Meta(len(lengths), int(bounds[-1]), 0, 0, "int64", streams, ())
    return Store(
        meta, dict.fromkeys(streams, tokens), dict.fromkeys(streams, bounds), np.arange(len(lengths), dtype=np.int32) if classes else None
    )


def content(rows: Rows) -> list[list[int]]:
    batch = rows.batch(np.arange(len(rows)))
    ids, lengths = batch.streams["x"]
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


documents = st.lists(st.integers(2, 40), min_size=1, max_size=12)


@given(documents, st.integers(2, 9), st.integers(0, 1), st.integers(0, 50), st.booleans())
def test_chunks_cover_every_document_once(lengths: list[int], width: int, overlap: int, shift: int, pack: bool) -> None:
    documents, none = chunks(make(lengths), width, overlap, pack=pack)
    rows = content(documents.rows(shift))
    assert none is None and all(0 < len(row) <= width for row in rows)
    bounds = np.concatenate(([0], np.cumsum([sum(lengths)] if pack else lengths)))
    new = [row[overlap:] if row[0] not in bounds else row for row in rows]  # a chunk inside a document repeats its first tokens
    assert [token for row in new for token in row] == list(range(sum(lengths)))
    if not pack:
        assert all(np.searchsorted(bounds, row[0], "right") == np.searchsorted(bounds, row[-1], "right") for row in rows)


def test_a_shift_moves_the_cuts_of_long_documents_only() -> None:
    documents, _ = chunks(make([5, 12]), 5, 1)
    assert content(documents.rows(0)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [9, 10, 11, 12, 13], [13, 14, 15, 16]]
    assert content(documents.rows(3)) == [[0, 1, 2, 3, 4], [5, 6], [6, 7, 8, 9, 10], [10, 11, 12, 13, 14], [14, 15, 16]]


@given(st.lists(st.integers(20, 40), min_size=1, max_size=12), st.sampled_from([(0.9, 1.0), (0.0, 0.5), (0.25, 0.5)]), st.integers(0, 1))
def test_few_documents_are_cut_in_the_text(lengths: list[int], share: tuple[float, float], overlap: int) -> None:
    total = sum(lengths)
    lo, hi = round(total * share[0]), round(total * share[1])
    train, valid = chunks(make(lengths), 7, overlap, validation_range=share)
    inside = {token for row in content(valid.rows()) for token in row}
    outside = {token for row in content(train.rows()) for token in row}
    assert not inside & outside and inside <= set(range(lo, hi)) and outside <= set(range(total)) - set(range(lo, hi))
    if not overlap:
        assert len(inside) + len(outside) == total


def test_too_little_to_split() -> None:
    with pytest.raises(ValueError, match="5 tokens are too few to be split into 10% for validation"):
        chunks(make([5]), 7, 1, validation_range=(0.9, 1.0))


@pytest.mark.parametrize("lengths", [[3] * FEW, [3, 29] * (FEW // 2)])
def test_of_many_documents_some_are_drawn(lengths: list[int]) -> None:
    store = make(lengths)
    seen = []
    for fold in range(5):
        train, valid = chunks(store, 10, 1, validation_range=(fold / 5, (fold + 1) / 5), seed=3)
        tokens = [{token for row in content(part.rows()) for token in row} for part in (train, valid)]
        assert not tokens[0] & tokens[1] and len(tokens[0] | tokens[1]) == sum(lengths)
        seen += sorted(tokens[1])
    assert sorted(seen) == list(range(sum(lengths)))  # every fold another part
    other = chunks(store, 10, 1, validation_range=(0, 0.2), seed=4)[1]
    assert content(other.rows()) != content(chunks(store, 10, 1, validation_range=(0, 0.2), seed=3)[1].rows())


def test_pairs_and_labels_keep_their_bounds() -> None:
    store = make([3, 5, 2, 4], ("z", "x"), classes=True)

    def where(i: int) -> str:
        return f"a.txt:{i + 1}"

    with pytest.raises(ValueError, match=r"a\.txt:2: 5 tokens, and the model takes 4; give --too-long skip or cut"):
        whole_records(store, {"z": 4, "x": 5}, where)
    complete, _ = whole_records(store, {"z": 5, "x": 5}, where)
    assert content(complete.rows()) == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13]]
    skipped = whole_records(store, {"z": 5, "x": 4}, where, too_long="skip")[0].rows()
    assert content(skipped) == [[0, 1, 2], [8, 9], [10, 11, 12, 13]] and skipped.batch(np.arange(3)).classes.tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="all other records are longer"):
        whole_records(store, {"z": 1, "x": 1}, where, too_long="skip")
    train, valid = whole_records(store, {"z": 5, "x": 5}, where, validation_range=(0.75, 1.0), seed=1)
    labels = [part.rows().batch(np.arange(len(part.rows()))).classes.tolist() for part in (train, valid)]
    assert sorted(labels[0] + labels[1]) == [0, 1, 2, 3] and len(labels[1]) == 1
    for part in (train, valid):
        rows = part.rows()
        batch = rows.batch(np.arange(len(rows)))
        assert [row[0] for row in content(rows)] == [[0, 3, 8, 10][label] for label in batch.classes.tolist()]
    with pytest.raises(ValueError, match="too few to be split"):
        whole_records(store, {"z": 5, "x": 5}, where, validation_range=(0.99, 1.0))


@pytest.mark.parametrize("eos", [None, 99])
def test_a_record_that_is_cut_begins_with_bos_and_ends_with_eos(eos: int | None) -> None:
    store = replace(make([3, 5, 2, 4], ("z", "x")), eos=eos)
    records, _ = whole_records(store, {"z": 2, "x": 4}, str, too_long="cut")
    rows = records.rows()
    last = [eos, eos] if eos else [6, 1]
    assert content(rows) == [[0, 1, 2], [3, 4, 5, last[0]], [8, 9], [10, 11, 12, 13]]
    z, lengths = rows.batch(np.arange(4)).streams["z"]
    assert z.tolist() == [[0, eos or 1], [3, eos or 4], [8, 9], [10, eos or 11]] and lengths.tolist() == [2, 2, 2, 2]
    assert rows.lengths(np.arange(4)).tolist() == [5, 6, 4, 6]
    assert content(whole_records(store, {"z": 1, "x": 1}, str, too_long="cut")[0].rows()) == [[0], [3], [8], [10]]


def test_rows_that_were_cut_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_rows, "BLOCK", 3)
    store = make([3, 5, 2, 4] * 5, ("z", "x"))
    assert whole_records(store, {"z": 2, "x": 4}, str, too_long="cut")[0].rows().cut == 15
    assert whole_records(store, {"z": 9, "x": 4}, str, too_long="cut")[0].rows().cut == 5
    assert whole_records(store, {"z": 9, "x": 9}, str)[0].rows().cut == 0
    assert whole_records(store, {"z": 2, "x": 4}, str, too_long="skip")[0].rows().cut == 0
    train, valid = whole_records(store, {"z": 2, "x": 4}, str, too_long="cut", validation_range=(0.5, 1.0))
    assert train.rows().cut + valid.rows().cut == 15 and valid.rows().cut > 0
    assert chunks(store, 2, 0)[0].rows().cut == 0  # a document continues in the next chunk


def test_a_batch_of_some_rows_is_no_wider_than_they_are() -> None:
    rows = whole_records(make([3, 5, 2, 4], ("z", "x"), classes=True), {"z": 9, "x": 9}, str)[0].rows()
    batch = rows.batch(np.arange(4))
    some = batch.rows(slice(0, 4, 2))
    assert len(some) == 2 and some.streams["x"][0].tolist() == [[0, 1, 2], [8, 9, 9]] and some.classes.tolist() == [0, 2]
    assert batch.tokens == 2 * 14


@given(
    st.lists(st.integers(2, 9), min_size=1, max_size=300),
    st.integers(1, 7),
    st.none() | st.integers(1, 30),
    st.booleans(),
    st.integers(0, 3),
)
def test_every_row_is_in_one_batch_of_an_epoch(lengths: list[int], size: int, tokens: int | None, shuffle: bool, seed: int) -> None:
    documents, _ = whole_records(make(lengths), {"x": 9}, str)
    plan = Plan(size, tokens, seed, shuffle)
    rows = plan.epoch(documents, 0)
    batches = list(plan.batches(rows, 0))
    assert sorted(int(i) for index in batches for i in index) == list(range(len(lengths)))
    assert plan.count(documents) == len(batches)
    for index in batches:
        if tokens is None:
            assert 1 <= len(index) <= size
        else:
            assert len(index) == 1 or rows.lengths(index).sum() <= tokens
    if not shuffle:
        assert [int(i) for index in batches for i in index] == list(range(len(lengths)))


@given(st.integers(1, 40), st.integers(0, 60), st.none() | st.integers(5, 30))
def test_training_resumes_at_any_position(rows: int, skip: int, tokens: int | None) -> None:
    documents, _ = chunks(make([2 + i % 7 for i in range(rows)]), 5, 1)
    plan = Plan(3, tokens, 7, shift=True)
    all_batches = [(place, index.tolist()) for place, _, index in islice(plan.forever(documents, DataPosition()), skip + 5)]
    place = all_batches[skip - 1][0] if skip else DataPosition()
    assert [(place, index.tolist()) for place, _, index in islice(plan.forever(documents, place), 5)] == all_batches[skip:]


def test_epochs_and_seeds_have_other_orders() -> None:
    documents, _ = whole_records(make([3] * 50), {"x": 9}, str)

    def order(plan: Plan, epoch: int) -> list[int]:
        return [int(i) for index in plan.batches(plan.epoch(documents, epoch), epoch) for i in index]

    assert len({tuple(order(Plan(4, None, seed), epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_rows_of_like_length_come_together() -> None:
    rng = np.random.default_rng(0)
    documents, _ = whole_records(make(rng.integers(2, 100, 640).tolist()), {"x": 100}, str)
    rows = documents.rows()
    spread = [np.ptp(rows.lengths(index)) for index in Plan(10).batches(rows)]
    assert np.mean(spread) < 5  # about 85 in a random batch of ten
    firsts = [rows.lengths(index)[0] for index in Plan(10).batches(rows)]
    assert firsts != sorted(firsts) and firsts != sorted(firsts, reverse=True)


def test_subsets_take_no_memory() -> None:
    subset = RecordSubset(10**12, 0, 10**11, inside=True, seed=1)
    assert len(subset) == 10**11 and len(set(subset(np.arange(10**10, 10**10 + 9)).tolist())) == 9


def test_tokens_stay_on_disk(tmp_path: Path) -> None:
    tokens: Any = np.memmap(tmp_path / "x", np.uint16, "w+", shape=(1000,))
    store = Store(Meta(1, 1000, 0, 0, "uint16", ("x",), ()), {"x": tokens}, {"x": np.array([0, 1000])})
    batch = chunks(store, 10, 1)[0].rows().batch(np.array([0, 5]))
    assert batch.streams["x"][0].dtype == np.int64 and not isinstance(batch.streams["x"][0].base, np.memmap)
