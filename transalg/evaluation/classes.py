"""The figures of a classifier, from its true classes and P̂ of every class: accuracy, F1, the confusion matrix, calibration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of the expected calibration error, as in Guo et al. (2017)


@dataclass(frozen=True)
class Bin:
    """The texts whose most probable class has a probability in (low, high]."""

    low: float
    high: float
    texts: int
    confidence: float  # the mean of that probability; 0 without texts
    accuracy: float  # how many of these classes are right; 0 without texts


def confusion_matrix(true: NDArray[np.int64], predicted: NDArray[np.int64], N_C: int) -> NDArray[np.int64]:
    """How many texts of each class, a row, are predicted to be of each class, a column."""
    matrix = np.zeros((N_C, N_C), np.int64)
    np.add.at(matrix, (true, predicted), 1)
    return matrix


def class_figures(confusion: NDArray[np.int64], labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and the number of texts of every class."""
    right, predicted, true = np.diag(confusion), confusion.sum(axis=0), confusion.sum(axis=1)
    precision, recall = right / np.maximum(1, predicted), right / np.maximum(1, true)
    f1 = 2 * right / np.maximum(1, predicted + true)
    return {
        label: {"precision": float(precision[i]), "recall": float(recall[i]), "F1": float(f1[i]), "texts": int(true[i])}
        for i, label in enumerate(labels)
    }


def calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_], bins: int = BINS) -> list[Bin]:
    """The texts in bins of equal width by the probability of their most probable class."""
    index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    texts = np.bincount(index, minlength=bins)
    means = (np.bincount(index, weights, bins) / np.maximum(1, texts) for weights in (confidence, right))
    return [
        Bin(i / bins, (i + 1) / bins, int(count), float(p), float(share))
        for i, (count, p, share) in enumerate(zip(texts, *means, strict=True))
    ]


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """Σ over the bins of (texts / all texts) · |accuracy − confidence|."""
    return sum(each.texts * abs(each.accuracy - each.confidence) for each in bins) / max(1, sum(each.texts for each in bins))


def most_confused(confusion: NDArray[np.int64], count: int) -> list[tuple[int, int, int]]:
    """The pairs (true, predicted) of different classes that occur most, with how often, most frequent first."""
    wrong = confusion - np.diag(np.diag(confusion))
    order = np.argsort(-wrong, axis=None, kind="stable")[:count]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)]
    return [(i, j, int(wrong[i, j])) for i, j in pairs if wrong[i, j]]
