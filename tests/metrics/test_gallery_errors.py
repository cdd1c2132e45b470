"""What nulls, overviews, presets, resamples and tie ranges refuse: problem, place and remedy to the letter."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.errors import MetricError
from fairgate.metrics import (
    average_prompts,
    counts_at_k_weighted,
    expected_max_skew,
    max_skew_within,
    ndkl_at_k_weighted,
    retrieval_overview,
    streamed_overview,
    weighted_group_counts,
)
from fairgate.randomness import stream

ONE = [[0.1, 0.4, 0.2, 0.3]]
HALVES = np.array([0, 1, 0, 1])

DECLARE_ALL = "declare every group of the attribute, also those that a gallery may lack"
ADD_IMAGES = "add images of these groups, or declare only the groups that the dataset records"
SMALLER_K = "choose k between 1 and 4; images with an undefined group do not count"
DRAWS = "pass neither for the exact null, or at least one draw and a generator to simulate it"
NO_DIRECTION = "leave the prompt out, or find out why the model returns zeros (or prompts that cancel) for it"
MULTIPLICITIES = "pass the multiplicity of each image's set: set_counts(...)[:, set_of_image]"
WITHIN = "choose k within the smallest fixed group, and have an image of every group in each"

REFUSALS = {
    "a generator without draws": Refusal(
        lambda: expected_max_skew(1, "uniform", [1, 1], rng=stream(0, "null")),
        "draws is None, and rng is given.",
        "draws",
        DRAWS,
    ),
    "draws without a generator": Refusal(
        lambda: expected_max_skew(1, "uniform", [1, 1], 5),
        "draws is 5, and rng is missing.",
        "draws",
        DRAWS,
    ),
    "no draws": Refusal(
        lambda: expected_max_skew(1, "uniform", [1, 1], 0, stream(0, "null")),
        "draws is 0, and rng is given.",
        "draws",
        DRAWS,
    ),
    "the null of one group": Refusal(
        lambda: expected_max_skew(1, "uniform", [5]),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "the null of an empty group": Refusal(
        lambda: expected_max_skew(1, "uniform", [5, 0]),
        "1 of 2 declared groups have no image: codes [1].",
        "groups",
        ADD_IMAGES,
    ),
    "the null beyond the images": Refusal(
        lambda: expected_max_skew(5, "uniform", [2, 2]),
        "k is 5, but 4 images can be ranked.",
        "k",
        SMALLER_K,
    ),
    "blocks of other queries": Refusal(
        lambda: streamed_overview([(ONE, HALVES), (ONE * 2, HALVES)], 1, groups=2),
        "scores of block 1 hold 2 queries, those before it 1.",
        "scores of block 1",
        "pass blocks of the same queries, in the same order: a block holds some of the images",
    ),
    "a block that is not finite": Refusal(
        lambda: streamed_overview([(ONE, HALVES), ([[np.nan]], np.array([0]))], 1, groups=2),
        "1 of 1 scores of block 1 are not finite (NaN or infinite).",
        "scores of block 1: first at queries 0, images 0",
        "find out why the model returns no number there; such rows are never ranked or averaged silently",
    ),
    "a block without its labels": Refusal(
        lambda: streamed_overview([(ONE, HALVES), (ONE, HALVES[:1])], 1, groups=2),
        "labels of block 1 has shape (1,), but there are 4 images.",
        "labels of block 1",
        "pass one code per image: shape (4,)",
    ),
    "no block": Refusal(
        lambda: streamed_overview([], 1, groups=2),
        "k is 1, but 0 images can be ranked.",
        "k",
        "no image has a defined group; record the attribute, or leave the check out",
    ),
    "an overview of one group": Refusal(
        lambda: retrieval_overview(ONE, HALVES, 1, groups=1),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "an overview with an absent group": Refusal(
        lambda: retrieval_overview(ONE, HALVES, 1, groups=3),
        "1 of 3 declared groups have no image: codes [2].",
        "groups",
        ADD_IMAGES,
    ),
    "an overview that compares a group with itself": Refusal(
        lambda: retrieval_overview(ONE, HALVES, 1, groups=2, second=0),
        "bias compares group 0 with group 0, of 2 declared.",
        "first",
        "name two different groups between 0 and 1",
    ),
    "an overview beyond the images": Refusal(
        lambda: retrieval_overview(ONE, HALVES, 5, groups=2),
        "k is 5, but 4 images can be ranked.",
        "k",
        SMALLER_K,
    ),
    "an unknown average": Refusal(
        lambda: average_prompts([[1.0]], "median"),
        "average is 'median'.",
        "average",
        "use 'none', 'mean_unit' or 'unit_mean_unit'",
    ),
    "prompts that cancel": Refusal(
        lambda: average_prompts([[1.0, 0.0], [-1.0, 0.0]], "mean_unit"),
        "an embedding of length 0 has no direction.",
        "embeddings: first at row 0",
        NO_DIRECTION,
    ),
    "a prompt of length 0": Refusal(
        lambda: average_prompts([[1.0, 0.0], [0.0, 0.0]], "unit_mean_unit"),
        "an embedding of length 0 has no direction.",
        "embeddings: first at row 1",
        NO_DIRECTION,
    ),
    "weights that are shares": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.full((1, 4), 0.5), 1, groups=2),
        "weights are float64 of shape (1, 4), not counts (draws, images).",
        "weights",
        MULTIPLICITIES,
    ),
    "weights of one draw alone": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.ones(4, int), 1, groups=2),
        "weights are int64 of shape (4,), not counts (draws, images).",
        "weights",
        MULTIPLICITIES,
    ),
    "weights below 0": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.array([[1, 1, 1, -1]]), 1, groups=2),
        "weights are int64 of shape (1, 4), not counts (draws, images).",
        "weights",
        MULTIPLICITIES,
    ),
    "a label undefined in ranking order": Refusal(
        lambda: counts_at_k_weighted(np.array([0, -1]), np.ones((1, 2), int), 1, groups=2),
        "order_labels holds the code -1, outside 0..1.",
        "order_labels: first at image 1",
        "declare more than 2, or correct the codes",
    ),
    "labels of other weights": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.ones((1, 2), int), 1, groups=2),
        "order_labels has shape (4,), but there are 2 images.",
        "order_labels",
        "pass one code per image: shape (2,)",
    ),
    "weights of one group": Refusal(
        lambda: ndkl_at_k_weighted(HALVES, np.ones((1, 4), int), 1, groups=1),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "a resampled gallery below k": Refusal(
        lambda: counts_at_k_weighted(HALVES, np.array([[1, 1, 1, 1], [1, 0, 0, 0]]), 2, groups=2),
        "the top 2 was asked of a resampled gallery with 1 images.",
        "resampled sets",
        "choose a smaller k: sets differ in size, and some resamples draw the small ones",
    ),
    "labels of other galleries": Refusal(
        lambda: weighted_group_counts(HALVES, np.ones((1, 3), int), 2),
        "labels has shape (4,), but there are 3 images.",
        "labels",
        "pass one code per image: shape (3,)",
    ),
    "a fixed group that lacks a group": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.array([0, 0, 1, 1]), 3, groups=2, fixed_groups=2),
        "fixed group 0 has [1, 1] images per group, and the top 3 of it were asked for.",
        "fixed: code 0",
        WITHIN,
    ),
    "a fixed group without images": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.zeros(4, int), 1, groups=2, fixed_groups=2),
        "fixed group 1 has [0, 0] images per group, and the top 1 of it were asked for.",
        "fixed: code 1",
        WITHIN,
    ),
    "a k of 0 within": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.zeros(4, int), 0, groups=2, fixed_groups=2),
        "fixed group 0 has [2, 2] images per group, and the top 0 of it were asked for.",
        "fixed: code 0",
        WITHIN,
    ),
    "one fixed group": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.zeros(4, int), 1, groups=2, fixed_groups=1),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "one group within": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.zeros(4, int), 1, groups=1, fixed_groups=2),
        "1 group is declared, and a comparison needs at least two.",
        "groups",
        DECLARE_ALL,
    ),
    "fixed codes of other images": Refusal(
        lambda: max_skew_within(ONE, HALVES, np.zeros(3, int), 1, groups=2, fixed_groups=2),
        "fixed has shape (3,), but there are 4 images.",
        "fixed",
        "pass one code per image: shape (4,)",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_worked_out_says_what_where_and_what_to_do(name: str) -> None:
    check(REFUSALS[name], MetricError)
