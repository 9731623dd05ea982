"""The texts of a Python program as records: strings, pairs, texts with labels, tables by columns; each a JSON line, one at a time.

Tables are known by what they can do, not by their class: what has `columns` is a DataFrame, what yields mappings is a `datasets.Dataset`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from transalg.data.builtin import Kind
from transalg.data.sources import SURROGATE
from transalg.terminal import listed

TUPLES: dict[Kind, str] = {"documents": "a text", "pairs": "(source, target)", "labelled": "(text, label)"}


def lines(option: str, data: Iterable[Any], kind: Kind, columns: tuple[str, ...]) -> Iterator[str]:
    """The records of some data as JSON lines with these columns; a ValueError names the option and the record."""
    name_of_class = _class_names(data, columns[-1]) if kind == "labelled" else None
    empty = True
    for i, item in enumerate(_items(option, data, columns), 1):
        where = f"{option}, record {i:,}"
        values = _values(where, item, kind, columns)
        if name_of_class is not None and not isinstance(values[-1], str):
            values = (*values[:-1], name_of_class(values[-1]))
        texts = (values[0], *([] if kind == "labelled" else _several(values[1:])))
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"{where}: expected a text, got {_shown(text)}")
        if kind == "labelled":
            values = (values[0], _label(where, values[1]))
        if any(SURROGATE.search(text) for text in (*texts, *(values[1:] if kind == "labelled" else ()))):
            raise ValueError(f"{where}: half of a surrogate pair, which is no character")
        yield json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)
        empty = False
    if empty:
        raise ValueError(f"{option}: expected texts, got none")


def _items(option: str, data: Iterable[Any], columns: tuple[str, ...]) -> Iterable[Any]:
    """A table's rows, as tuples in the order of `columns`; what else is iterated over yields its own."""
    names = list(data) if isinstance(data, Mapping) else list(getattr(data, "columns", ()))
    if names:
        for column in columns:
            _require_column(option, column, names)
        return _rows(option, data, columns)
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise ValueError(f"{option}: expected texts, a table, or the name of a file, got {_shown(data)}")
    return data


def _rows(option: str, table: Any, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    missing = object()
    for i, row in enumerate(zip_longest(*(table[column] for column in columns), fillvalue=missing)):
        for column, value in zip(columns, row, strict=True):
            if value is missing:
                raise ValueError(f"{option}: expected columns of one length, got only {i:,} values of {column!r}")
        yield row


def _values(where: str, item: Any, kind: Kind, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of one record in the order of `columns`."""
    if isinstance(item, Mapping):
        for column in columns:
            _require_column(where, column, list(item))
        return tuple(item[column] for column in columns)
    if kind == "documents":
        return tuple(item) if isinstance(item, tuple) and len(item) == 1 else (item,)
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise ValueError(f"{where}: expected {TUPLES[kind]}, or columns {' and '.join(columns)}; got {_shown(item)}")
    return tuple(item)


def _require_column(where: str, column: str, names: list[Any]) -> None:
    if column not in names:
        options = "text_column, label_column, source_column or target_column"
        raise ValueError(f"{where}: expected a column {column!r}, got {listed(names)}; name yours with {options}")


def _several(values: Iterable[Any]) -> Iterator[Any]:
    """A pair may have several targets."""
    for value in values:
        yield from value if isinstance(value, list | tuple) and value else (value,)


def _label(where: str, value: Any) -> str:
    """A class by its name; a number, of NumPy or not, is named as in JSON."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    raise ValueError(f"{where}: expected a label, got {_shown(value)}")


def _class_names(data: Any, column: str) -> Callable[[Any], str] | None:
    """What a `datasets.Dataset` calls its classes, which it has as numbers."""
    features = getattr(data, "features", None)
    feature = features.get(column) if isinstance(features, Mapping) else None
    names: Callable[[Any], str] | None = getattr(feature, "int2str", None)
    return names


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '…'}"
