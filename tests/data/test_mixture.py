"""Several data sets: their names, their classes, and rows drawn in proportion to weights."""

import doctest
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from transalg.data import datasets, mixture
from transalg.data.batches import DataPosition, Plan
from transalg.data.datasets import DataSets, blocks, dataset_name
from transalg.data.mixture import Mixture, of_head, split
from transalg.data.rows import Rows, whole_records
from transalg.data.sources import Source
from transalg.data.store import store
from transalg.tokenization import train

LARGE, SMALL = 103, 13


@pytest.fixture
def records(tmp_path: Path) -> Rows:
    """103 texts of `large`, which are longer, and 13 of `small`."""
    parts = []
    for name, texts, width in (("large", LARGE, 7), ("small", SMALL, 2)):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(f"{'ab'[i % 2]}\t{i} {'x ' * (i % width)}\n" for i in range(texts)))
        parts.append(Source(str(path), "labelled", ("text", "label")))
    source = DataSets.of(parts, ("large", "small"))
    tokenizer = train("word", (text for record in source.records() for text in record.texts))
    data = store(source, tokenizer, tmp_path / "cache")
    assert data.meta.labels == ("large/a", "large/b", "small/a", "small/b")
    return whole_records(data, {"x": 11}, str)[0].rows()


def mixed(records: Rows, **weights: float) -> Mixture:
    return mixture.mixture(records, blocks(records.store.meta.labels), weights)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(datasets) == (0, 2) and doctest.testmod(mixture) == (0, 1)


def test_a_folder_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "v1.2").mkdir()
    assert dataset_name(str(tmp_path / "v1.2")) == "v1.2" and dataset_name("a/20news.train.csv.gz") == "20news.train"


@pytest.mark.parametrize(("weights", "shares"), [((1, 1), (58, 58)), ((1, 0.5), (77, 39)), ((3, 1), (87, 29))], ids=str)
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_batch_has_its_share_of_each_data_set(
    records: Rows, weights: tuple[float, float], shares: tuple[int, int], shuffle: bool
) -> None:
    source = mixed(records, large=weights[0], small=weights[1])
    for epoch in (0, 1, 5):
        rows = source.rows(epoch=epoch)
        assert len(rows) == LARGE + SMALL and rows.sets is not None
        assert np.bincount(rows.sets).tolist() == list(shares)
        classes = rows.batch(np.arange(len(rows))).classes
        assert classes is not None and ((classes >= 2) == rows.sets).all()
        for index in Plan(11, shuffle=shuffle, seed=3).batches(rows, epoch):
            expected = len(index) * weights[0] / sum(weights)
            assert abs((rows.sets[index] == 0).sum() - expected) <= 1


def test_every_row_is_drawn_once_before_any_is_drawn_again(records: Rows) -> None:
    source = mixed(records, large=1.0, small=1.0)
    drawn = Counter[int]()
    for epoch in range(7):
        rows = source.rows(epoch=epoch)
        drawn.update(rows.records(np.arange(len(rows))).tolist())
        for texts in (range(LARGE), range(LARGE, LARGE + SMALL)):
            counts = [drawn[i] for i in texts]
            assert max(counts) - min(counts) <= 1
    assert set(drawn) == set(range(LARGE + SMALL))


def test_batches_continue_from_any_position(records: Rows) -> None:
    source, plan = mixed(records, large=1.0, small=2.0), Plan(11, seed=5)

    def drawn(position: DataPosition, count: int) -> list[tuple[DataPosition, list[int]]]:
        batches = plan.forever(source, position)
        return [(place, rows.records(index).tolist()) for place, rows, index in (next(batches) for _ in range(count))]

    all_of_them = drawn(DataPosition(), 31)
    assert all_of_them[-1][0].epoch == 2, "some epochs"
    for i in (0, 5, 10, 11, 19):
        assert drawn(all_of_them[i][0], 31 - i - 1) == all_of_them[i + 1 :]
    assert plan.count(source) == 11


def test_the_same_share_of_each_data_set_validates(records: Rows) -> None:
    heads = blocks(records.store.meta.labels)
    train_rows, valid_rows = (each.rows() for each in split(records, heads, (0.8, 1.0), seed=0))
    numbers = [set(rows.records(np.arange(len(rows))).tolist()) for rows in (train_rows, valid_rows)]
    assert not numbers[0] & numbers[1] and numbers[0] | numbers[1] == set(range(LARGE + SMALL))
    assert sum(i < LARGE for i in numbers[1]) == 21 and sum(i >= LARGE for i in numbers[1]) == 3
    small = of_head(valid_rows, heads, "small")
    assert set(small.records(np.arange(len(small))).tolist()) == {i for i in numbers[1] if i >= LARGE}
    with pytest.raises(ValueError, match="split: 13 records of small are too few to be split into 1% for validation and the rest"):
        split(records, heads, (0.99, 1.0), seed=0)
    with pytest.raises(ValueError, match="small: expected texts with labels, got none"):
        of_head(of_head(records, heads, "large"), heads, "small")
