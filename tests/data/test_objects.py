"""Texts of a Python program become the records that files would have."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from transalg.data.objects import lines

PAIR, LABELLED = ("source", "target"), ("text", "label")


def read(data: Any, kind: Any, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines("data", data, kind, columns)]


class Frame:
    """What a pandas DataFrame shows of itself: `columns`, and a column by its name."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns, self.values = list(columns), columns

    def __getitem__(self, name: str) -> list[Any]:
        return self.values[name]


class ClassLabel:
    def int2str(self, value: int) -> str:
        return ("bad", "good")[value]


class Dataset:
    """What a datasets.Dataset shows of itself: rows as mappings, and `features` that name classes."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.features = rows, {"text": object(), "label": ClassLabel()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


class Number:
    """A number of NumPy's."""

    def item(self) -> int:
        return 7


def test_texts() -> None:
    assert read(iter(["a", "b\n c"]), "documents", ("text",)) == [{"text": "a"}, {"text": "b\n c"}]


def test_pairs_may_have_several_targets() -> None:
    assert read([("a", "b"), ["c", ["d", "e"]]], "pairs", PAIR) == [{"source": "a", "target": "b"}, {"source": "c", "target": ["d", "e"]}]


def test_labels_are_texts_or_numbers() -> None:
    found = read([("a", "yes"), ("b", 1), ("c", True), ("d", Number())], "labelled", LABELLED)
    assert [row["label"] for row in found] == ["yes", "1", "true", "7"]


@pytest.mark.parametrize(
    "table",
    [
        {"more": [0, 1], "label": ["x", "y"], "text": ["a", "b"]},
        Frame(more=[0, 1], label=["x", "y"], text=["a", "b"]),
        [{"text": "a", "label": "x", "more": 0}, {"label": "y", "text": "b"}],
    ],
    ids=["mapping", "frame", "rows"],
)
def test_tables_by_columns(table: Any) -> None:
    assert read(table, "labelled", LABELLED) == [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]


def test_a_dataset_names_its_classes() -> None:
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    assert [row["label"] for row in read(Dataset(rows), "labelled", LABELLED)] == ["good", "bad"]


@pytest.mark.parametrize(
    ("data", "kind", "columns", "message"),
    [
        ([], "documents", ("text",), "data: expected texts, got none"),
        (7, "documents", ("text",), "data: expected texts, a table, or the name of a file, got int 7"),
        (["a", None], "documents", ("text",), "data, record 2: expected a text, got NoneType None"),
        (["a \ud800"], "documents", ("text",), "data, record 1: half of a surrogate pair"),
        (["a"], "pairs", PAIR, r"data, record 1: expected \(source, target\), or columns source and target; got str 'a'"),
        ([("a", "b", "c")], "pairs", PAIR, r"data, record 1: expected \(source, target\)"),
        ([("a", [])], "pairs", PAIR, "data, record 1: expected a text, got list"),
        ([("a", float("nan"))], "labelled", LABELLED, "data, record 1: expected a label, got float nan"),
        ([("a", None)], "labelled", LABELLED, "data, record 1: expected a label, got NoneType None"),
        ({"text": ["a"], "class": ["b"]}, "labelled", LABELLED, "data: expected a column 'label', got text, class; name yours with"),
        ([{"a": "b"}], "documents", ("text",), "data, record 1: expected a column 'text', got a"),
        ({"text": ["a"], "label": []}, "labelled", LABELLED, "data: expected columns of one length"),
    ],
)
def test_what_is_no_record(data: Any, kind: Any, columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(data, kind, columns)
