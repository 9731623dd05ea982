"""What a classifier has to beat: the most frequent class, and naive Bayes on the tokens."""

import numpy as np
from numpy.typing import NDArray

from transalg.data.rows import Rows


def most_frequent(train: Rows, held: Rows) -> float:
    """The accuracy of always saying the class that is most frequent in training."""
    return float((_classes(held) == np.bincount(_classes(train)).argmax()).mean())


def naive_bayes(train: Rows, held: Rows, N_V: int) -> float:
    """The accuracy of naive Bayes: classes by their frequency and by that of their tokens, each counted once more than it occurs."""
    classes = _classes(train)
    counts = np.ones((int(classes.max()) + 1, N_V))
    for row, c in zip(_rows(train), classes, strict=True):
        np.add.at(counts[c], row, 1)
    log_P = np.log(counts / counts.sum(axis=1, keepdims=True))
    prior = np.log(np.bincount(classes) / len(classes))
    found = [int((prior + log_P[:, row].sum(axis=1)).argmax()) for row in _rows(held)]
    return float((np.array(found) == _classes(held)).mean())


def _classes(rows: Rows) -> NDArray[np.int64]:
    classes = rows.batch(np.arange(len(rows))).classes
    assert classes is not None
    return classes


def _rows(rows: Rows) -> list[NDArray[np.int64]]:
    ids, lengths = rows.batch(np.arange(len(rows))).streams["x"]
    return [row[:length] for row, length in zip(ids, lengths, strict=True)]
