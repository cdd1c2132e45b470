"""What comparisons, corrections and resamples refuse: problem, place and remedy to the letter."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.errors import StatisticsError
from fairgate.randomness import stream
from fairgate.statistics import (
    Resamples,
    bonferroni,
    bootstrap,
    cluster_ols,
    holm,
    moods_median_test,
    set_counts,
)

GROUPS, SETS, Y = list("ababab"), [7, 7, 8, 8, 9, 9], [1.0, 2, 2, 2, 3, 5]

SAMPLES = "pass two samples or more, without gaps (drop incomplete sets and count them); ties: below, above or ignore"
ONE_SIDE = "count ties on the other side; where all values are the same, there is nothing to compare"
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
    "one sample": Refusal(
        lambda: moods_median_test([1.0, 2.0]),
        "1 samples under ties='below' were given; empty or with values that are not finite: none.",
        "moods_median_test",
        SAMPLES,
    ),
    "an empty sample": Refusal(
        lambda: moods_median_test([1.0, 2.0], []),
        "2 samples under ties='below' were given; empty or with values that are not finite: [1].",
        "moods_median_test",
        SAMPLES,
    ),
    "a sample with a gap": Refusal(
        lambda: moods_median_test([1.0, np.nan], [1.0, 2.0]),
        "2 samples under ties='below' were given; empty or with values that are not finite: [0].",
        "moods_median_test",
        SAMPLES,
    ),
    "unknown ties": Refusal(
        lambda: moods_median_test([1.0], [2.0], ties="left"),
        "2 samples under ties='left' were given; empty or with values that are not finite: none.",
        "moods_median_test",
        SAMPLES,
    ),
    "nobody above the median": Refusal(
        lambda: moods_median_test([1.0, 1.0], [1.0, 1.0]),
        "the median of all values is 1, and with ties='below' 0 values lie above it, 4 below it, by sample [0, "
        "0] and [2, 2].",
        "moods_median_test",
        ONE_SIDE,
    ),
    "nobody below the median": Refusal(
        lambda: moods_median_test([1.0, 1.0], [1.0, 2.0], ties="above"),
        "the median of all values is 1, and with ties='above' 4 values lie above it, 0 below it, by sample [2, "
        "2] and [0, 0].",
        "moods_median_test",
        ONE_SIDE,
    ),
    "a sample of ties": Refusal(
        lambda: moods_median_test([2.0, 2.0], [1.0, 3.0], ties="ignore"),
        "the median of all values is 2, and with ties='ignore' 1 values lie above it, 1 below it, by sample "
        "[0, 1] and [0, 1].",
        "moods_median_test",
        ONE_SIDE,
    ),
    "an undeclared reference": Refusal(
        lambda: cluster_ols(Y, GROUPS, SETS, reference="c"),
        "the reference is 'c' and the groups are ['a', 'b']; without rows: none; in the data but not declared: none.",
        "cluster_ols",
        DECLARE,
    ),
    "a mistyped reference": Refusal(
        lambda: cluster_ols(Y, ["black", "white"] * 3, SETS, reference="whit"),
        "the reference is 'whit' and the groups are ['black', 'white']; without rows: none; in the data but "
        "not declared: none.",
        "cluster_ols",
        "did you mean 'white'?",
    ),
    "a group without rows": Refusal(
        lambda: cluster_ols(Y, GROUPS, SETS, reference="a", groups=["a", "b", "c"]),
        "the reference is 'a' and the groups are ['a', 'b', 'c']; without rows: ['c']; in the data but not "
        "declared: none.",
        "cluster_ols",
        DECLARE,
    ),
    "a group undeclared": Refusal(
        lambda: cluster_ols(Y, GROUPS, SETS, reference="a", groups=["a"]),
        "the reference is 'a' and the groups are ['a']; without rows: none; in the data but not declared: ['b'].",
        "cluster_ols",
        DECLARE,
    ),
    "outcomes with a gap": Refusal(
        lambda: cluster_ols([1.0, np.nan, 2, 2, 3, 5], GROUPS, SETS, reference="a"),
        "outcome (6,) with 1 values not finite, group (6,), cluster (6,) and alpha 0.05 do not make a regression.",
        "cluster_ols",
        ROWS,
    ),
    "fewer outcomes": Refusal(
        lambda: cluster_ols([1.0, 2.0], GROUPS, SETS, reference="a"),
        "outcome (2,) with 0 values not finite, group (6,), cluster (6,) and alpha 0.05 do not make a regression.",
        "cluster_ols",
        ROWS,
    ),
    "alpha of 1": Refusal(
        lambda: cluster_ols(Y, GROUPS, SETS, reference="a", alpha=1.0),
        "outcome (6,) with 0 values not finite, group (6,), cluster (6,) and alpha 1.0 do not make a regression.",
        "cluster_ols",
        ROWS,
    ),
    "one cluster": Refusal(
        lambda: cluster_ols(Y, GROUPS, [7] * 6, reference="a"),
        "the outcome takes 4 value(s) in 1 cluster(s): there is no spread to judge by.",
        "cluster_ols",
        NO_SPREAD,
    ),
    "an outcome that never varies": Refusal(
        lambda: cluster_ols([3.0] * 6, GROUPS, SETS, reference="a"),
        "the outcome takes 1 value(s) in 3 cluster(s): there is no spread to judge by.",
        "cluster_ols",
        NO_SPREAD,
    ),
    "a group of one cluster": Refusal(
        lambda: cluster_ols(Y, list("aaaaab"), SETS, reference="a"),
        "of 2 group(s), ['b'] stand in one cluster only.",
        "cluster_ols",
        LONELY,
    ),
    "one group of outcomes": Refusal(
        lambda: cluster_ols(Y, ["a"] * 6, SETS, reference="a"),
        "of 1 group(s), none stand in one cluster only.",
        "cluster_ols",
        LONELY,
    ),
    "a p-value above 1": Refusal(
        lambda: bonferroni([1.1]),
        "p-values of shape (1,) are not all numbers from 0 to 1.",
        "p",
        FAMILY,
    ),
    "a p-value that is none": Refusal(
        lambda: holm([0.1, np.nan]),
        "p-values of shape (2,) are not all numbers from 0 to 1.",
        "p",
        FAMILY,
    ),
    "p-values of two axes": Refusal(
        lambda: holm([[0.1]]),
        "p-values of shape (1, 1) are not all numbers from 0 to 1.",
        "p",
        FAMILY,
    ),
    "a p-value below 0": Refusal(
        lambda: holm([-0.1]),
        "p-values of shape (1,) are not all numbers from 0 to 1.",
        "p",
        FAMILY,
    ),
    "draws of no sets": Refusal(
        lambda: set_counts(0, 5, rng()),
        "5 draws of 0 sets were asked for.",
        "set_counts",
        AT_LEAST_ONE,
    ),
    "no draws of sets": Refusal(
        lambda: set_counts(5, 0, rng()),
        "0 draws of 5 sets were asked for.",
        "set_counts",
        AT_LEAST_ONE,
    ),
    "resamples of other sets": Refusal(
        lambda: set_counts(5, 2, Resamples(4, 2, rng())),
        "2 resamples of 5 sets were asked of 2 resamples of 4 sets.",
        "Resamples",
        SHARED,
    ),
    "more resamples than were made": Refusal(
        lambda: set_counts(4, 3, Resamples(4, 2, rng())),
        "3 resamples of 4 sets were asked of 2 resamples of 4 sets.",
        "Resamples",
        SHARED,
    ),
    "one set alone": Refusal(
        lambda: bootstrap([0.1], 1, rng()),
        "1 set cannot be resampled.",
        "sets",
        "score at least two sets, better thirty",
    ),
    "a value not finite": Refusal(
        lambda: bootstrap([0.1, np.nan], 2, rng()),
        "2 values of shape (2,), 1 of them not finite, do not fit 2 sets.",
        "values",
        VALUES,
    ),
    "values of two axes": Refusal(
        lambda: bootstrap([[0.1, 0.2]], 2, rng()),
        "2 values of shape (1, 2), 0 of them not finite, do not fit 2 sets.",
        "values",
        VALUES,
    ),
    "a set without a value": Refusal(
        lambda: bootstrap([0.1, 0.2], [0, 2], rng()),
        "2 values of shape (2,), 0 of them not finite, do not fit 3 sets.",
        "values",
        VALUES,
    ),
    "values of other sets": Refusal(
        lambda: bootstrap([0.1, 0.2], 3, rng()),
        "2 values of shape (2,), 0 of them not finite, do not fit 3 sets.",
        "values",
        VALUES,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_samples_that_cannot_carry_a_statistic_are_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
