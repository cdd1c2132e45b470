"""What comparisons, corrections and resamples refuse, with the remedy of each."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.statistics import (
    Resamples,
    bonferroni,
    bootstrap,
    cluster_ols,
    holm,
    moods_median_test,
    set_counts,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

GROUPS, SETS, Y = list("ababab"), [7, 7, 8, 8, 9, 9], [1.0, 2, 2, 2, 3, 5]

SAMPLES = "pass two samples or more, without gaps (drop incomplete sets and count them)"
ONE_SIDE = "where more than half of all values are the largest one, there is nothing to compare"
DECLARE = "declare exactly the groups that the rows hold, and choose the reference among them"
ROWS = "pass three arrays (rows,) without gaps, and alpha between 0 and 1"
NO_SPREAD = "an outcome that never varies has no group effects to estimate; score at least two sets"
LONELY = "give at least two groups, each in two clusters or more; leave out rarer ones and say so"
FAMILY = "pass (tests,); a test without a p-value is an error and must not be left out of its family"
AT_LEAST_ONE = "both must be at least 1"
SHARED = "share resamples among tests on the same sets, with no more draws than were made; else pass a generator"
VALUES = "pass finite values (rows,) with the set code 0, 1, ... of each, or one per set and their number"


def rng() -> np.random.Generator:
    return stream(0, "refused")


REFUSALS = {
    "one sample": Refusal(lambda: moods_median_test([1.0, 2.0]), SAMPLES),
    "an empty sample": Refusal(lambda: moods_median_test([1.0, 2.0], []), SAMPLES),
    "a sample with a gap": Refusal(lambda: moods_median_test([1.0, np.nan], [1.0, 2.0]), SAMPLES),
    "nobody above the median": Refusal(lambda: moods_median_test([1.0, 1.0], [1.0, 1.0]), ONE_SIDE),
    "an undeclared reference": Refusal(lambda: cluster_ols(Y, GROUPS, SETS, reference="c"), DECLARE),
    "a mistyped reference": Refusal(
        lambda: cluster_ols(Y, ["black", "white"] * 3, SETS, reference="whit"), "did you mean 'white'?"
    ),
    "a group without rows": Refusal(
        lambda: cluster_ols(Y, GROUPS, SETS, reference="a", groups=["a", "b", "c"]), DECLARE
    ),
    "a group undeclared": Refusal(lambda: cluster_ols(Y, GROUPS, SETS, reference="a", groups=["a"]), DECLARE),
    "outcomes with a gap": Refusal(lambda: cluster_ols([1.0, np.nan, 2, 2, 3, 5], GROUPS, SETS, reference="a"), ROWS),
    "fewer outcomes": Refusal(lambda: cluster_ols([1.0, 2.0], GROUPS, SETS, reference="a"), ROWS),
    "alpha of 1": Refusal(lambda: cluster_ols(Y, GROUPS, SETS, reference="a", alpha=1.0), ROWS),
    "one cluster": Refusal(lambda: cluster_ols(Y, GROUPS, [7] * 6, reference="a"), NO_SPREAD),
    "an outcome that never varies": Refusal(lambda: cluster_ols([3.0] * 6, GROUPS, SETS, reference="a"), NO_SPREAD),
    "a group of one cluster": Refusal(lambda: cluster_ols(Y, list("aaaaab"), SETS, reference="a"), LONELY),
    "one group of outcomes": Refusal(lambda: cluster_ols(Y, ["a"] * 6, SETS, reference="a"), LONELY),
    "a p-value above 1": Refusal(lambda: bonferroni([1.1]), FAMILY),
    "a p-value that is none": Refusal(lambda: holm([0.1, np.nan]), FAMILY),
    "p-values of two axes": Refusal(lambda: holm([[0.1]]), FAMILY),
    "a p-value below 0": Refusal(lambda: holm([-0.1]), FAMILY),
    "draws of no sets": Refusal(lambda: set_counts(0, 5, rng()), AT_LEAST_ONE),
    "no draws of sets": Refusal(lambda: set_counts(5, 0, rng()), AT_LEAST_ONE),
    "resamples of other sets": Refusal(lambda: set_counts(5, 2, Resamples(4, 2, rng())), SHARED),
    "more resamples than were made": Refusal(lambda: set_counts(4, 3, Resamples(4, 2, rng())), SHARED),
    "one set alone": Refusal(lambda: bootstrap([0.1], 1, rng()), "score at least two sets, better thirty"),
    "a value not finite": Refusal(lambda: bootstrap([0.1, np.nan], 2, rng()), VALUES),
    "values of two axes": Refusal(lambda: bootstrap([[0.1, 0.2]], 2, rng()), VALUES),
    "a set without a value": Refusal(lambda: bootstrap([0.1, 0.2], [0, 2], rng()), VALUES),
    "values of other sets": Refusal(lambda: bootstrap([0.1, 0.2], 3, rng()), VALUES),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_samples_that_cannot_carry_a_statistic_are_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
