"""What nulls, resamples and tie ranges refuse, with the remedy of each."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.metrics import (
    counts_at_k_weighted,
    expected_max_skew,
    ndkl_at_k_weighted,
    weighted_group_counts,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

ONE = [[0.1, 0.4, 0.2, 0.3]]
HALVES = np.array([0, 1, 0, 1])

DECLARE_ALL = "declare every group of the attribute, also those that a gallery may lack"
ADD_IMAGES = "add images of these groups, or declare only the groups that the dataset records"
SMALLER_K = "choose k between 1 and 4; images with an undefined group do not count"
DRAWS = "pass neither for the exact null, or at least one draw and a generator to simulate it"
NO_DIRECTION = "leave the prompt out, or find out why the model returns zeros (or prompts that cancel) for it"
MULTIPLICITIES = "pass the multiplicity of each image's set: set_counts(...)[:, set_of_image]"

REFUSALS = {
    "a generator without draws": Refusal(lambda: expected_max_skew(1, "uniform", [1, 1], rng=stream(0, "null")), DRAWS),
    "draws without a generator": Refusal(lambda: expected_max_skew(1, "uniform", [1, 1], 5), DRAWS),
    "no draws": Refusal(lambda: expected_max_skew(1, "uniform", [1, 1], 0, stream(0, "null")), DRAWS),
    "the null of one group": Refusal(lambda: expected_max_skew(1, "uniform", [5]), DECLARE_ALL),
    "the null of an empty group": Refusal(lambda: expected_max_skew(1, "uniform", [5, 0]), ADD_IMAGES),
    "the null beyond the images": Refusal(lambda: expected_max_skew(5, "uniform", [2, 2]), SMALLER_K),
    "weights that are shares": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.full((1, 4), 0.5), 1, groups=2), MULTIPLICITIES
    ),
    "weights of one draw alone": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.ones(4, int), 1, groups=2), MULTIPLICITIES
    ),
    "weights below 0": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.array([[1, 1, 1, -1]]), 1, groups=2), MULTIPLICITIES
    ),
    "a label undefined in ranking order": Refusal(
        lambda: counts_at_k_weighted(np.array([0, -1]), np.ones((1, 2), int), 1, groups=2),
        "declare more than 2, or correct the codes",
    ),
    "labels of other weights": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.ones((1, 2), int), 1, groups=2), "pass one code per image: shape (2,)"
    ),
    "weights of one group": Refusal(lambda: ndkl_at_k_weighted(HALVES, np.ones((1, 4), int), 1, groups=1), DECLARE_ALL),
    "a resampled gallery below k": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.array([[1, 1, 1, 1], [1, 0, 0, 0]]), 2, groups=2),
        "choose a smaller k: sets differ in size, and some resamples draw the small ones",
    ),
    "labels of other galleries": Refusal(
        lambda: weighted_group_counts(HALVES, np.ones((1, 3), int), 2), "pass one code per image: shape (3,)"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_worked_out_says_what_where_and_what_to_do(name: str) -> None:
    check(REFUSALS[name], MetricError)
