"""Baselines of a classifier: the most frequent class, and naive Bayes on the tokens."""

import numpy as np
from numpy.typing import NDArray

from transalg.data.rows import Rows


def most_frequent(train: Rows, valid: Rows) -> float:
    """The accuracy of always predicting the most frequent class of the training data."""
    return float((_classes(valid) == np.bincount(_classes(train)).argmax()).mean())


def naive_bayes(train: Rows, valid: Rows, N_V: int) -> float:
    """The accuracy of multinomial naive Bayes on the tokens, with Laplace smoothing (every count starts at 1)."""
    classes = _classes(train)
    counts = np.ones((int(classes.max()) + 1, N_V))
    for row, c in zip(_rows(train), classes, strict=True):
        np.add.at(counts[c], row, 1)
    log_P = np.log(counts / counts.sum(axis=1, keepdims=True))
    prior = np.log(np.bincount(classes) / len(classes))
    guesses = [int((prior + log_P[:, row].sum(axis=1)).argmax()) for row in _rows(valid)]
    return float((np.array(guesses) == _classes(valid)).mean())


def _classes(rows: Rows) -> NDArray[np.int64]:
    classes = rows.batch(np.arange(len(rows))).classes
    assert classes is not None
    return classes


def _rows(rows: Rows) -> list[NDArray[np.int64]]:
    ids, lengths = rows.batch(np.arange(len(rows))).streams["x"]
    return [row[:length] for row, length in zip(ids, lengths, strict=True)]
