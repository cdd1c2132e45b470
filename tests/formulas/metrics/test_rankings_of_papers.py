"""Metrics of rankings against the code of papers, and against the figures that the papers print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    bias_at_k,
    expected_max_skew,
    max_skew_at_k,
    ndkl_at_k,
    normalized_entropy_at_k,
)
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = json.loads((GOLDEN / "paper_tables.json").read_text())


def golden(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())["cases"]
    return cases


@pytest.mark.parametrize("case", golden("eval_ranking"), ids=lambda c: f"top {c['topn']}")
@pytest.mark.parametrize(("desired", "key"), [("uniform", "eq_opp"), ("dataset", "dem_par")])
def test_skew_and_ndkl_are_those_of_bergs_eval_ranking(case: dict[str, Any], desired: Any, key: str) -> None:
    labels, top = np.array(case["labels"]), case["topn"]
    k = int(np.ceil(len(labels) * top)) if isinstance(top, float) else top
    scores = np.array(case["prompt_embeddings"]) @ np.array(case["image_embeddings"]).T
    groups, answer = case["G"], case["outputs"]["debias_vl.eval_ranking"]
    skew = max_skew_at_k(scores, labels, k, groups=groups, desired=desired, zero="clamp_1_over_k")
    assert skew.mean() == pytest.approx(answer["maxskew"][key], abs=1e-5)
    ndkl = ndkl_at_k(scores, labels, k, groups=groups, desired=desired)
    assert ndkl.mean() == pytest.approx(answer["ndkl"][key], abs=1e-5)


def usable_for_gensynth(case: dict[str, Any]) -> bool:
    # Two groups, both shown, k within the defined images; where ties or NaN decide, its order is not ours.
    defined = [label for label in case["labels"] if label >= 0]
    strange = case["style"] in ("nan_scores", "ties", "ties_all")
    return (
        "gensynth.bias_at_k" in case["peers"] and set(defined) == {0, 1} and case["K"] <= len(defined) and not strange
    )


@pytest.mark.parametrize("case", [c for c in golden("ranking") if usable_for_gensynth(c)], ids=lambda c: c["name"])
def test_skew_and_bias_are_gensynths(case: dict[str, Any]) -> None:
    k, scores, labels = case["K"], [case["scores"]], np.array(case["labels"])
    answer = case["peers"]["gensynth.bias_at_k"]
    skew = max_skew_at_k(scores, labels, k, groups=2, zero="skip")
    assert skew[0] == pytest.approx(answer[f"maxskew@{k}"], abs=1e-12)
    assert bias_at_k(scores, labels, k)[0] == pytest.approx(answer[f"bias@{k}"], abs=1e-12)


@pytest.mark.parametrize("attribute", ["race", "gender"])
def test_entropy_is_so_b_its_by_category(attribute: str) -> None:
    case = next(c for c in golden("sobit") if c["name"] == "N120-k20")
    scores = np.array(case["text"]) @ np.array(case["image"]).T
    groups = len(case[f"{attribute}_names"])
    entropy = normalized_entropy_at_k(scores, np.array(case[attribute]), case["k"], groups=groups)
    expected = case["outputs"][f"entropy_{attribute}"]
    assert entropy[:3].mean() == pytest.approx(expected["catA"], abs=1e-6)
    assert entropy[3:].mean() == pytest.approx(expected["catB"], abs=1e-6)


def test_howards_max_skew_takes_only_the_logarithms_of_counts() -> None:
    published = TABLES["howard_K=|A1||A2| with a balanced gallery => MaxSkew = ln(max count)"]
    labels = np.repeat(np.arange(12), 12)
    for most, expected in enumerate(published, start=1):
        # `most` images of one group, then one of each following group, until twelve are shown.
        shown = np.concatenate([np.arange(most), 12 * np.arange(1, 13 - most)]).astype(int)
        scores = np.zeros((1, labels.size))
        scores[0, shown] = 1.0
        assert max_skew_at_k(scores, labels, 12, groups=12)[0] == pytest.approx(expected, abs=1e-12)


def test_howards_galleries_are_four_prompts_of_a_hundred_sets() -> None:
    table = TABLES["howard_table5"]
    occupations, groups = 261, 6 * 2
    prompts = 4
    assert table["sets"] == occupations * prompts
    per_group = table["published"] // (occupations * groups)
    assert per_group == 100 * prompts
    null = expected_max_skew(groups, "dataset", np.full(groups, per_group))
    assert (null.median, null.p95) == pytest.approx((np.log(3), np.log(4)))


def test_a_random_model_has_the_max_skew_that_gensynth_prints() -> None:
    # Table 1, random model: 0.14, 0.07 on balanced COCO Val; 0.15 on all of it (and 0.06, where chance gives 0.08).
    train = TABLES["gensynth_coco_train"]
    assert train["male"] + train["female"] + train["undefined"] == train["n"]
    balanced = [expected_max_skew(k, "dataset", [500, 500]).mean for k in (25, 100)]
    assert balanced == pytest.approx([0.14, 0.07], abs=0.01)
    imbalanced = expected_max_skew(25, "dataset", [train["male"], train["female"]])
    assert imbalanced.mean == pytest.approx(0.15, abs=0.01)


def test_an_imbalanced_gallery_alone_shifts_bias_at_k() -> None:
    # Table 1 again: a random model has Bias@5 of 0.37 and Bias@10 of 0.40 on COCO Val, 0.00 once balanced.
    train = TABLES["gensynth_coco_train"]
    counts = np.array([train["male"], train["female"], train["undefined"]]) // 40
    labels = np.repeat([0, 1, -1], counts)
    scores = stream(0, "random model").random((600, labels.size), dtype=np.float32)
    biased = [bias_at_k(scores, labels, k).mean() for k in (5, 10)]
    assert biased == pytest.approx([0.39, 0.44], abs=0.05)
    even = np.repeat([0, 1, -1], counts[[1, 1, 2]])
    balanced = [bias_at_k(scores[:, : even.size], even, k).mean() for k in (5, 10)]
    assert balanced == pytest.approx([0.0, 0.0], abs=0.08)
