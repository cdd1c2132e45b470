"""F1 and balanced accuracy by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import balanced_accuracy, f1_by_label, macro_f1
from fairgate.ground.errors import MetricError

# of 10 cats 6 are found, 4 are taken for dogs; of 5 dogs 4 are found, 1 is taken for a fox; there is no fox
HITS, GIVEN, ACTUAL = [6, 4, 0], [6, 8, 1], [10, 5, 0]


def test_f1_is_twice_the_hits_over_what_was_given_and_what_is_there() -> None:
    assert f1_by_label(HITS, GIVEN, ACTUAL) == pytest.approx([12 / 16, 8 / 13, 0])
    precision, recall = 4 / 8, 4 / 5
    assert f1_by_label(HITS, GIVEN, ACTUAL)[1] == pytest.approx(2 * precision * recall / (precision + recall))


def test_counts_of_few_bits_are_added_as_numbers() -> None:
    counts = np.array([200], np.uint8)  # 200 + 200 is 144 in 8 bits
    assert f1_by_label(counts, counts, counts).tolist() == [1.0]


def test_a_label_that_is_nowhere_has_no_f1_and_does_not_count_in_the_mean() -> None:
    found = f1_by_label([*HITS, 0], [*GIVEN, 0], [*ACTUAL, 0])
    assert np.isnan(found[3])
    assert macro_f1([*HITS, 0], [*GIVEN, 0], [*ACTUAL, 0]) == pytest.approx((12 / 16 + 8 / 13 + 0) / 3)
    assert np.isnan(macro_f1([0], [0], [0]))


def test_balanced_accuracy_is_the_mean_recall_of_the_labels_that_are_there() -> None:
    assert balanced_accuracy(HITS, ACTUAL) == pytest.approx((6 / 10 + 4 / 5) / 2)
    assert balanced_accuracy([95, 0], [95, 5]) == 0.5  # everyone is given the frequent label


def test_tables_are_counted_row_by_row() -> None:
    two = np.array([HITS, [1, 1, 1]]), np.array([GIVEN, [1, 1, 1]]), np.array([ACTUAL, [1, 1, 1]])
    assert macro_f1(*two) == pytest.approx([(12 / 16 + 8 / 13) / 3, 1.0])


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ((1, 2, 2), "counts have the shapes (), (), (), where (..., labels) of one shape are needed."),
        (([], [], []), "counts have the shapes (0,), (0,), (0,), where (..., labels) of one shape are needed."),
        (([1], [2], [1, 1]), "counts have the shapes (1,), (1,), (2,), where (..., labels) of one shape are needed."),
        *(
            (wrong, "a count is below 0 or NaN, or hits are more than the images that they are of.")
            for wrong in (([-1], [0], [0]), ([2], [1], [2]), ([2], [2], [1]), ([np.nan], [1], [1]))
        ),
    ],
    ids=range(7),
)
def test_counts_that_are_no_counts_of_the_same_labels_are_refused(counts: Any, problem: str) -> None:
    with pytest.raises(MetricError) as caught:
        f1_by_label(*counts)
    assert caught.value.problem == problem
