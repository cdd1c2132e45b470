"""An array of the wrong shape, or a code of no declared group, is named as the caller knows it, with its axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    accuracy_by_group,
    association,
    bias_at_k,
    bias_tie_range,
    by_set_and_group,
    c_asc,
    counts_at_k_weighted,
    effect_size,
    entropy_tie_range,
    fairness,
    group_means,
    implicit_association,
    intersection_over_union,
    max_skew_at_k,
    min_skew_at_k,
    misclassification_table,
    mutual_information,
    ndkl_at_k,
    neighbour_shares,
    normalized_entropy_at_k,
    pair_choices,
    permutation_p_of_groups,
    ranking,
    recall_at_k,
    relative_difference,
    set_deviation,
    set_std,
    skew_at_k,
    skew_tie_range,
    softmax_probability,
    tie_at_k,
    tie_range,
    top_k_similarity,
    weighted_group_counts,
    word_strength,
)
from fairgate.ground.errors import MetricError

Call = Callable[..., Any]

ONE = [[0.1, 0.4, 0.2, 0.3]]
FLAT = ONE[0]
HALVES = np.array([0, 1, 0, 1])
ZEROS = np.zeros(4, int)
GALLERY: dict[str, Call] = {
    "skew_at_k": skew_at_k,
    "max_skew_at_k": max_skew_at_k,
    "min_skew_at_k": min_skew_at_k,
    "ndkl_at_k": ndkl_at_k,
    "bias_at_k": bias_at_k,
    "bias_at_k of the defined": lambda *given, **more: bias_at_k(*given, defined_first=True, **more),
    "normalized_entropy_at_k": normalized_entropy_at_k,
    "tie_at_k": tie_at_k,
    "tie_range": lambda *given, **more: tie_range(lambda counts, _: counts / 1.0, *given, **more, join="max"),
    "skew_tie_range": partial(skew_tie_range, extreme="max"),
    "bias_tie_range": bias_tie_range,
    "entropy_tie_range": entropy_tie_range,
    "ranking": ranking,
    "c_asc": lambda scores, labels, _, groups: c_asc(scores, labels, groups=groups),
}


@pytest.mark.parametrize("name", GALLERY)
def test_a_ranking_metric_names_its_scores_its_labels_and_its_groups(name: str) -> None:
    metric = GALLERY[name]
    assert misshapen(lambda: metric(FLAT, HALVES, 1, groups=2)) == ("scores", "(queries, images)")
    for labels, place in (([0, 1, 0, 2], "3"), ([-2, 1, 0, 1], "0")):
        assert miscoded(lambda labels=labels: metric(ONE, np.array(labels), 1, groups=2)) == (
            f"labels: first at image {place}",
            "-1..1",
        )
    with pytest.raises(MetricError, match=r"1 of 3 declared groups have no image: codes \[1\]|\[1, 0, 1\]"):
        metric(ONE, np.array([0, 2, 0, 2]), 1, groups=3)
    # -1 is no group and no error: the same answer as without the image, or for Bias@K a place not counted
    assert metric(ONE, np.array([0, 1, -1, 1]), 1, groups=2) is not None


SHAPES: list[tuple[str, str, Call]] = [
    ("scores", "(queries, images)", lambda: recall_at_k(FLAT, ZEROS, 1)),
    ("scores", "(queries, images)", lambda: top_k_similarity(FLAT, 1)),
    ("max_skew", "(queries, fixed_groups)", lambda: relative_difference(FLAT)),
    ("values", "(words)", lambda: word_strength(ONE, FLAT)),
    ("baseline", "(baseline words)", lambda: word_strength(FLAT, ONE)),
    ("errors_a", "(images, prompts)", lambda: association(FLAT, ONE)),
    ("errors_b", "(images, prompts)", lambda: association(ONE, FLAT)),
    ("errors_a", "(images, prompts)", lambda: pair_choices(FLAT, ONE)),
    ("errors_b", "(images, prompts)", lambda: pair_choices(ONE, FLAT)),
    ("p_positive", "(images)", lambda: implicit_association(ONE, HALVES, groups=2)),
    ("logits", "(images, labels)", lambda: softmax_probability(FLAT, 0)),
    ("p_true", "(sets, members)", lambda: set_std(FLAT)),
    ("p_true", "(sets, members)", lambda: fairness(FLAT)),
    ("p_true", "(sets, members)", lambda: set_deviation(FLAT)),
    ("correct", "(images)", lambda: accuracy_by_group(ONE, HALVES, 2)),
    ("values", "(images)", lambda: group_means(ONE, HALVES, 2)),
    ("values", "(images)", lambda: by_set_and_group(ONE, ZEROS, HALVES, n_sets=1, groups=2)),
    ("real", "(images, dim)", lambda: neighbour_shares(FLAT, ZEROS, ONE, [0], k=1)),
    ("synthetic", "(images, dim)", lambda: neighbour_shares(ONE, [0], FLAT, [0], k=1)),
    ("features", "(images, dim)", lambda: mutual_information(FLAT, ZEROS)),
    ("desired", "(groups)", lambda: skew_at_k(ONE, HALVES, 1, groups=2, desired=ONE)),
    ("x", "(targets)", lambda: effect_size(ONE, FLAT)),
    ("y", "(targets)", lambda: effect_size(FLAT, ONE)),
    ("numbers", "(sets, images)", lambda: permutation_p_of_groups([ONE], [HALVES], rng=np.random.default_rng(0))),
    ("boxes", "(pairs, corners)", lambda: intersection_over_union(FLAT, ONE)),
    ("others", "(pairs, corners)", lambda: intersection_over_union([[0, 0, 1, 1]], FLAT)),
]


@pytest.mark.parametrize(("name", "axes", "call"), SHAPES, ids=range(len(SHAPES)))
def test_a_misshapen_array_is_named_with_its_axes(name: str, axes: str, call: Call) -> None:
    assert misshapen(call) == (name, axes)


WRONG = np.array([0, 0, 3, -2])
CODES: list[tuple[str, str, Call]] = [
    ("labels: first at image 2", "-1..1", lambda: implicit_association(FLAT, WRONG, groups=2)),
    ("true_index: first at image 2", "0..1", lambda: softmax_probability(np.zeros((4, 2)), WRONG)),
    ("labels: first at image 2", "-1..0", lambda: accuracy_by_group(np.ones(4), WRONG, 1)),
    ("predicted: first at image 2", "0..1", lambda: misclassification_table(WRONG, ZEROS, ZEROS, 3, 2)),
    ("true: first at image 2", "0..1", lambda: misclassification_table(ZEROS, WRONG, ZEROS, 3, 2)),
    ("true: first at image 1", "0..1", lambda: misclassification_table(ZEROS, -HALVES, ZEROS, 3, 2)),
    ("labels: first at image 3", "-1..3", lambda: misclassification_table(ZEROS, ZEROS, WRONG, 4, 2)),
    ("labels: first at image 2", "-1..1", lambda: group_means(FLAT, WRONG, 2)),
    ("sets: first at image 2", "0..1", lambda: by_set_and_group(FLAT, WRONG, ZEROS, n_sets=2, groups=4)),
    ("sets: first at image 1", "0..1", lambda: by_set_and_group(FLAT, -HALVES, ZEROS, n_sets=2, groups=4)),
    ("labels: first at image 2", "-1..2", lambda: by_set_and_group(FLAT, ZEROS, WRONG, n_sets=4, groups=3)),
    ("real_group: first at image 3", "under -1", lambda: neighbour_shares(np.eye(4), WRONG, np.eye(4), ZEROS, k=1)),
    ("target_group: first at image 1", "under 0", lambda: neighbour_shares(np.eye(4), ZEROS, np.eye(4), -HALVES, k=1)),
    ("labels: first at image 2", "-1..1", lambda: weighted_group_counts(WRONG, np.ones((1, 4), int), 2)),
    ("labels: first at image 3", "under -1", lambda: mutual_information(np.eye(4), WRONG)),
    ("order_labels: first at image 2", "0..1", lambda: counts_at_k_weighted(WRONG, np.ones((1, 4), int), 1, groups=2)),
]


@pytest.mark.parametrize(("where", "declared", "call"), CODES, ids=range(len(CODES)))
def test_a_code_of_no_declared_group_is_named_with_its_place(where: str, declared: str, call: Call) -> None:
    assert miscoded(call) == (where, declared)


def misshapen(call: Call) -> tuple[str, str]:
    with pytest.raises(MetricError, match="with at least one entry is needed") as caught:
        call()
    name, axes = caught.value.problem.split(" has shape ")
    assert caught.value.where == name
    return name, axes.split(", but ")[1].split(" with ")[0]


def miscoded(call: Call) -> tuple[str | None, str]:
    with pytest.raises(MetricError, match="holds the code") as caught:
        call()
    return caught.value.where, caught.value.problem.split(", ")[1].removeprefix("outside ").removesuffix(".")
