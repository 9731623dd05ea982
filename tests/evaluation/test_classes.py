"""The figures of classes, against plain counting."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tolerance import tolerance
from transalg.evaluation.classes import BINS, calibration, class_figures, confusion_matrix, expected_calibration_error, most_confused

Pairs = list[tuple[float, bool]]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=29))
def test_the_calibration_error_is_a_mean_over_bins(texts: Pairs) -> None:
    bins = calibration(np.array([p for p, _ in texts]), np.array([right for _, right in texts]))
    error = 0.0
    for i in range(BINS):
        inside = [(p, right) for p, right in texts if i < p * BINS <= i + 1 or (i == 0 and p == 0)]
        assert bins[i].texts == len(inside)
        error += abs(sum(right - p for p, right in inside)) / len(texts)
    assert expected_calibration_error(bins) == pytest.approx(error, abs=tolerance(torch.float64, terms=len(texts)))


def test_who_is_always_as_right_as_sure_is_calibrated() -> None:
    confidence, right = np.repeat([0.2, 0.7], 10), np.arange(20) % 10 < np.repeat([2, 7], 10)
    assert expected_calibration_error(calibration(confidence, right)) == pytest.approx(0, abs=1e-15)
    assert expected_calibration_error(calibration(confidence, ~right)) == pytest.approx((0.6 + 0.4) / 2)


def test_a_bin_has_its_upper_end() -> None:
    bins = calibration(np.array([1 / 5, 1.0]), np.array([True, True]), 5)
    assert [each.texts for each in bins] == [1, 0, 0, 0, 1] and bins[0].high == 1 / 5


def test_confusion_has_a_row_for_every_true_class() -> None:
    confusion = confusion_matrix(np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 1, 1, 0, 2]), 3)
    assert confusion.tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 1]]
    assert most_confused(confusion, 5) == [(0, 1, 2), (2, 0, 1)] and most_confused(confusion, 1) == [(0, 1, 2)]
    assert class_figures(confusion, "abc")["b"] == {"precision": 1 / 3, "recall": 1.0, "F1": 0.5, "texts": 1}
