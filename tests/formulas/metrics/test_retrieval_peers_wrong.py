"""Where other implementations answer wrongly: fairgate refuses, or says what they should have said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import max_skew_at_k, ndkl_at_k, skew_at_k, skew_tie_range, tie_at_k
from fairgate.ground.errors import MetricError

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "golden" / "ranking.json").read_text())["cases"]


def of_style(*styles: str) -> Any:
    return pytest.mark.parametrize("case", [c for c in CASES if c["style"] in styles], ids=lambda c: c["name"])


def arguments(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    return np.array([case["scores"]], dtype=float), np.array(case["labels"]), case["K"]


@of_style("rare_absent")
def test_a_rare_group_that_is_absent_never_becomes_the_most_favoured(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    rare = case["G"] - 1
    berg = case["peers"]["debias_vl.compute_skew_metrics"]["maxskew_dem_par"]
    # One image of the group, and none in the top k: its code grants it the share 1/k, ten times its due and more.
    assert berg == pytest.approx(np.log((1 / k) / (1 / len(labels))))
    skew = skew_at_k(scores, labels, k, groups=case["G"])[0]
    assert skew[rare] == -np.inf
    ours = max_skew_at_k(scores, labels, k, groups=case["G"])[0]
    assert ours == pytest.approx(case["formula"]["dataset"]["maxskew"], abs=1e-12)
    assert ours < berg / 2
    assert ours == skew[np.arange(case["G"]) != rare].max()


@of_style("ties_all")
def test_ties_at_the_cut_never_count_above_one(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    groups = case["G"]
    berg = case["peers"]["debias_vl.compute_skew_metrics"]["maxskew_eq_opp"]
    assert berg > np.log(groups)  # more than a top k of one group alone can have: its shares sum to N/k
    assert tie_at_k(scores, labels, k, groups=groups).tolist() == [True]
    ours = skew_tie_range(scores, labels, k, groups=groups, extreme="max", desired="uniform")
    assert 0 <= ours.lowest[0] < ours.highest[0] <= np.log(groups) + 1e-12
    value = max_skew_at_k(scores, labels, k, groups=groups, desired="uniform")[0]
    assert ours.lowest[0] <= value <= ours.highest[0]


@of_style("nan_scores")
def test_a_nan_score_is_refused_and_not_ranked_first(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    nan = set(np.flatnonzero(np.isnan(scores[0])))
    first = set(case["peers"]["gensynth.order_used(argsort()[::-1])"][: len(nan)])
    assert first == nan
    with pytest.raises(MetricError, match="not finite") as caught:
        max_skew_at_k(scores, labels, k, groups=case["G"])
    assert caught.value.where == f"scores: first at queries 0, images {min(nan)}"


@of_style("k_gt_n")
def test_a_k_beyond_the_gallery_is_refused_and_not_perfect(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    assert case["peers"]["debias_vl.compute_skew_metrics"]["maxskew_dem_par"] == 0
    for metric in (max_skew_at_k, ndkl_at_k):
        with pytest.raises(MetricError, match=f"k is {k}, but {len(labels)} images can be ranked"):
            metric(scores, labels, k, groups=case["G"])
    # What it means is another question: the whole gallery, which has the shares of the gallery.
    assert max_skew_at_k(scores, labels, len(labels), groups=case["G"])[0] == pytest.approx(0.0, abs=1e-12)


@of_style("absent_dataset")
def test_a_declared_group_without_an_image_is_refused_and_not_left_out(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    assert case["peers"]["intel.evaluate_skew"][f"g{case['G'] - 1}"] == 0.0
    with pytest.raises(MetricError, match="have no image"):
        skew_at_k(scores, labels, k, groups=case["G"])


def test_an_ndkl_weighted_by_the_desired_shares_can_be_negative_and_ours_cannot() -> None:
    negative = [c for c in CASES if isinstance(v := c["peers"].get("intel.evaluate_ndkl"), float) and v < 0]
    assert negative
    for case in negative:
        assert ndkl_at_k(*arguments(case), groups=case["G"])[0] > 0
