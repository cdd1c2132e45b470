"""What cannot be ranked, counted or recalled is refused: problem, place and remedy to the letter."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.errors import MetricError
from fairgate.metrics import (
    bias_at_k,
    entropy_of_counts,
    misclassification_table,
    recall_at_k,
    skew_at_k,
    skew_of_counts,
)

ONE = [[0.1, 0.4, 0.2, 0.3]]
HALVES = np.array([0, 1, 0, 1])

DECLARE_ALL = "declare every group of the attribute, also those that a gallery may lack"
ADD_IMAGES = "add images of these groups, or declare only the groups that the dataset records"
SMALLER_K = "choose k between 1 and 4; images with an undefined group do not count"
SHARES = "pass 2 positive shares with sum 1: a share of 0 makes every skew infinite"
TWO_GROUPS = "name two different groups between 0 and 1"
POSITIONS = "pass one position per query, shape (1,), or bool of shape (1, 4)"
IN_THE_GALLERY = "pass positions in the gallery, and leave out queries whose image is not in it"

REFUSALS = {
    "scores of one axis": Refusal(
        lambda: skew_at_k([0.1], HALVES, 1, groups=2),
        "scores has shape (1,), but (queries, images) with at least one entry is needed.",
        "scores",
        "pass an array with the axes (queries, images)",
    ),
    "scores of no image": Refusal(
        lambda: skew_at_k(np.zeros((1, 0)), np.zeros(0, int), 1, groups=2),
        "scores has shape (1, 0), but (queries, images) with at least one entry is needed.",
        "scores",
        "pass an array with the axes (queries, images)",
    ),
    "scores not finite": Refusal(
        lambda: skew_at_k([[0.1, 0.2], [np.inf, np.nan]], np.array([0, 1]), 1, groups=2),
        "2 of 4 scores are not finite (NaN or infinite).",
        "scores: first at queries 1, images 0",
        "find out why the model returns no number there; such rows are never ranked or averaged silently",
    ),
    "labels too few": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1]), 1, groups=2),
        "labels has shape (2,), but there are 4 images.",
        "labels",
        "pass one code per image: shape (4,)",
    ),
    "labels of two axes": Refusal(
        lambda: skew_at_k(ONE, np.array([[0, 1, 0, 1]]), 1, groups=2),
        "labels has shape (1, 4), but there are 4 images.",
        "labels",
        "pass one code per image: shape (4,)",
    ),
    "labels that are floats": Refusal(
        lambda: skew_at_k(ONE, np.array([0.0, 1.0, 0.0, 1.0]), 1, groups=2),
        "labels holds float64 values, not integer codes.",
        "labels",
        "code the groups as 0, 1, ... and undefined as -1",
    ),
    "a label undeclared": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 2, 1]), 1, groups=2),
        "labels holds the code 2, outside -1..1.",
        "labels: first at image 2",
        "declare more than 2, or correct the codes (-1 is undefined)",
    ),
    "a label below -1": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 0, -2]), 1, groups=2),
        "labels holds the code -2, outside -1..1.",
        "labels: first at image 3",
        "declare more than 2, or correct the codes (-1 is undefined)",
    ),
    "a code undefined where none may be": Refusal(
        lambda: misclassification_table(np.array([0, -1]), np.array([0, 0]), np.array([0, 0]), 1, 2),
        "predicted holds the code -1, outside 0..1.",
        "predicted: first at image 1",
        "declare more than 2, or correct the codes",
    ),
    "one group": Refusal(
        lambda: skew_at_k(ONE, np.zeros(4, int), 1, groups=1),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "absent groups": Refusal(
        lambda: skew_at_k(ONE, np.array([1, 1, 3, 3]), 1, groups=4),
        "2 of 4 declared groups have no image: codes [0, 2].",
        "groups",
        ADD_IMAGES,
    ),
    "k of 0": Refusal(
        lambda: skew_at_k(ONE, HALVES, 0, groups=2),
        "k is 0, but 4 images can be ranked.",
        "k",
        SMALLER_K,
    ),
    "k beyond the rankable": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 0, -1]), 4, groups=2),
        "k is 4, but 3 images can be ranked.",
        "k",
        "choose k between 1 and 3; images with an undefined group do not count",
    ),
    "nothing to rank": Refusal(
        lambda: skew_at_k(ONE, np.full(4, -1), 1, groups=2),
        "k is 1, but 0 images can be ranked.",
        "k",
        "no image has a defined group; record the attribute, or leave the check out",
    ),
    "an unknown target": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired="fair"),
        "desired is 'fair'.",
        "desired",
        "use 'dataset', 'uniform' or one share per group",
    ),
    "a target too long": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[0.5, 0.25, 0.25]),
        "desired holds 3 shares from 0.25, with sum 1.",
        "desired",
        SHARES,
    ),
    "a target of 0": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[1.0, 0.0]),
        "desired holds 2 shares from 0, with sum 1.",
        "desired",
        SHARES,
    ),
    "a target off 1": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[0.5, 0.6]),
        "desired holds 2 shares from 0.5, with sum 1.1.",
        "desired",
        SHARES,
    ),
    "a target of two axes": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[[0.5, 0.5]]),
        "desired has shape (1, 2), but (groups) with at least one entry is needed.",
        "desired",
        "pass an array with the axes (groups)",
    ),
    "an unknown zero": Refusal(
        lambda: skew_of_counts([1, 0], [1, 1], zero="ignore"),
        "zero is 'ignore'.",
        "zero",
        "use neg_inf, skip, clamp_1_over_k, zero or laplace",
    ),
    "entropy of nothing": Refusal(
        lambda: entropy_of_counts([[1, 1], [0, 0]]),
        "the entropy of no images was asked for.",
        "shown",
        "leave out rows that count no image: they have no distribution over groups",
    ),
    "entropy of one group": Refusal(
        lambda: entropy_of_counts([3]),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "an unknown reading of several": Refusal(
        lambda: recall_at_k(ONE, np.array([1]), 1, several="all"),
        "several is 'all'.",
        "several",
        "use 'share' (of the positives) or 'any' (of them)",
    ),
    "bias of one group": Refusal(
        lambda: bias_at_k(ONE, HALVES, 1, first=1, second=1),
        "bias compares group 1 with group 1, of 2 declared.",
        "first",
        TWO_GROUPS,
    ),
    "bias from a group undeclared": Refusal(
        lambda: bias_at_k(ONE, HALVES, 1, first=2, second=1),
        "bias compares group 2 with group 1, of 2 declared.",
        "first",
        TWO_GROUPS,
    ),
    "bias against a group undeclared": Refusal(
        lambda: bias_at_k(ONE, HALVES, 1, first=0, second=-1),
        "bias compares group 0 with group -1, of 2 declared.",
        "second",
        TWO_GROUPS,
    ),
    "bias of groups of which one is absent": Refusal(
        lambda: bias_at_k(ONE, np.zeros(4, int), 1),
        "1 of 2 declared groups have no image: codes [1].",
        "groups",
        ADD_IMAGES,
    ),
    "bias beyond the images": Refusal(
        lambda: bias_at_k(ONE, np.array([0, 1, -1, -1]), 5),
        "k is 5, but 4 images can be ranked.",
        "k",
        SMALLER_K,
    ),
    "a query without a positive": Refusal(
        lambda: recall_at_k([[1.0, 0.0]] * 3, np.array([[True, False], [False, False], [False, False]]), 1),
        "2 of 3 queries have no positive image.",
        "positives: first at query 1",
        "leave out queries that nothing in the gallery answers: they cannot be found",
    ),
    "positives that are shares": Refusal(
        lambda: recall_at_k(ONE, np.array([0.5]), 1),
        "positives are float64 of shape (1,).",
        "positives",
        POSITIONS,
    ),
    "positives of other queries": Refusal(
        lambda: recall_at_k(ONE, np.array([0, 1]), 1),
        "positives are int64 of shape (2,).",
        "positives",
        POSITIONS,
    ),
    "a positive beyond the gallery": Refusal(
        lambda: recall_at_k(ONE * 2, np.array([0, 4]), 1),
        "positives holds the position 4, outside 0..3.",
        "positives: first at query 1",
        IN_THE_GALLERY,
    ),
    "a positive before the gallery": Refusal(
        lambda: recall_at_k(ONE * 2, np.array([-1, 0]), 1),
        "positives holds the position -1, outside 0..3.",
        "positives: first at query 0",
        IN_THE_GALLERY,
    ),
    "recall beyond the images": Refusal(
        lambda: recall_at_k(ONE, np.array([0]), 5),
        "k is 5, but 4 images can be ranked.",
        "k",
        SMALLER_K,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_ranked_says_what_where_and_what_to_do(name: str) -> None:
    check(REFUSALS[name], MetricError)
