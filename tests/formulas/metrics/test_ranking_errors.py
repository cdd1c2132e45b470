"""What cannot be ranked, counted or recalled is refused, with the remedy of each."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.metrics import (
    bias_at_k,
    entropy_of_counts,
    recall_at_k,
    skew_at_k,
    skew_of_counts,
)
from fairgate.ground.errors import MetricError

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
        lambda: skew_at_k([0.1], HALVES, 1, groups=2), "pass an array with the axes (queries, images)"
    ),
    "scores of no image": Refusal(
        lambda: skew_at_k(np.zeros((1, 0)), np.zeros(0, int), 1, groups=2),
        "pass an array with the axes (queries, images)",
    ),
    "scores not finite": Refusal(
        lambda: skew_at_k([[0.1, 0.2], [np.inf, np.nan]], np.array([0, 1]), 1, groups=2),
        "find out why the model returns no number there; such rows are never ranked or averaged silently",
    ),
    "labels too few": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1]), 1, groups=2), "pass one code per image: shape (4,)"
    ),
    "labels of two axes": Refusal(
        lambda: skew_at_k(ONE, np.array([[0, 1, 0, 1]]), 1, groups=2), "pass one code per image: shape (4,)"
    ),
    "labels that are floats": Refusal(
        lambda: skew_at_k(ONE, np.array([0.0, 1.0, 0.0, 1.0]), 1, groups=2),
        "code the groups as 0, 1, ... and undefined as -1",
    ),
    "a label undeclared": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 2, 1]), 1, groups=2),
        "declare more than 2, or correct the codes (-1 is undefined)",
    ),
    "a label below -1": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 0, -2]), 1, groups=2),
        "declare more than 2, or correct the codes (-1 is undefined)",
    ),
    "one group": Refusal(lambda: skew_at_k(ONE, np.zeros(4, int), 1, groups=1), DECLARE_ALL),
    "absent groups": Refusal(lambda: skew_at_k(ONE, np.array([1, 1, 3, 3]), 1, groups=4), ADD_IMAGES),
    "k of 0": Refusal(lambda: skew_at_k(ONE, HALVES, 0, groups=2), SMALLER_K),
    "k beyond the rankable": Refusal(
        lambda: skew_at_k(ONE, np.array([0, 1, 0, -1]), 4, groups=2),
        "choose k between 1 and 3; images with an undefined group do not count",
    ),
    "nothing to rank": Refusal(
        lambda: skew_at_k(ONE, np.full(4, -1), 1, groups=2),
        "no image has a defined group; record the attribute, or leave the check out",
    ),
    "an unknown target": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired="fair"), "use 'dataset', 'uniform' or one share per group"
    ),
    "a target too long": Refusal(lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[0.5, 0.25, 0.25]), SHARES),
    "a target of 0": Refusal(lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[1.0, 0.0]), SHARES),
    "a target off 1": Refusal(lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[0.5, 0.6]), SHARES),
    "a target of two axes": Refusal(
        lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=[[0.5, 0.5]]), "pass an array with the axes (groups)"
    ),
    "an unknown zero": Refusal(
        lambda: skew_of_counts([1, 0], [1, 1], zero="ignore"), "use neg_inf, skip, clamp_1_over_k, zero or laplace"
    ),
    "entropy of nothing": Refusal(
        lambda: entropy_of_counts([[1, 1], [0, 0]]),
        "leave out rows that count no image: they have no distribution over groups",
    ),
    "entropy of one group": Refusal(lambda: entropy_of_counts([3]), DECLARE_ALL),
    "an unknown reading of several": Refusal(
        lambda: recall_at_k(ONE, np.array([1]), 1, several="all"), "use 'share' (of the positives) or 'any' (of them)"
    ),
    "bias of one group": Refusal(lambda: bias_at_k(ONE, HALVES, 1, first=1, second=1), TWO_GROUPS),
    "bias from a group undeclared": Refusal(lambda: bias_at_k(ONE, HALVES, 1, first=2, second=1), TWO_GROUPS),
    "bias against a group undeclared": Refusal(lambda: bias_at_k(ONE, HALVES, 1, first=0, second=-1), TWO_GROUPS),
    "bias of groups of which one is absent": Refusal(lambda: bias_at_k(ONE, np.zeros(4, int), 1), ADD_IMAGES),
    "bias beyond the images": Refusal(lambda: bias_at_k(ONE, np.array([0, 1, -1, -1]), 5), SMALLER_K),
    "a query without a positive": Refusal(
        lambda: recall_at_k([[1.0, 0.0]] * 3, np.array([[True, False], [False, False], [False, False]]), 1),
        "leave out queries that nothing in the gallery answers: they cannot be found",
    ),
    "positives that are shares": Refusal(lambda: recall_at_k(ONE, np.array([0.5]), 1), POSITIONS),
    "positives of other queries": Refusal(lambda: recall_at_k(ONE, np.array([0, 1]), 1), POSITIONS),
    "a positive beyond the gallery": Refusal(lambda: recall_at_k(ONE * 2, np.array([0, 4]), 1), IN_THE_GALLERY),
    "a positive before the gallery": Refusal(lambda: recall_at_k(ONE * 2, np.array([-1, 0]), 1), IN_THE_GALLERY),
    "recall beyond the images": Refusal(lambda: recall_at_k(ONE, np.array([0]), 5), SMALLER_K),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_ranked_says_what_where_and_what_to_do(name: str) -> None:
    check(REFUSALS[name], MetricError)
