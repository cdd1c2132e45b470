"""Presets against the peers that they are named for, and against the figures that the papers print."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    BERG,
    GENSYNTH,
    HOWARD,
    SO_B_IT,
    average_prompts,
    bias_at_k,
    expected_max_skew,
    max_skew_at_k,
    ndkl_at_k,
    normalized_entropy_at_k,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = json.loads((GOLDEN / "paper_tables.json").read_text())


def golden(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())["cases"]
    return cases


def gallery(groups: int, per_group: int) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(0, "presets", groups)
    labels = np.repeat(np.arange(groups), per_group)
    return rng.random((4, labels.size)), labels


@pytest.mark.parametrize("case", golden("eval_ranking"), ids=lambda c: f"top {c['topn']}")
@pytest.mark.parametrize(("desired", "key"), [("uniform", "eq_opp"), ("dataset", "dem_par")])
def test_berg_reproduces_eval_ranking(case: dict[str, Any], desired: Any, key: str) -> None:
    labels, top = np.array(case["labels"]), case["topn"]
    k = int(np.ceil(len(labels) * top)) if isinstance(top, float) else top
    scores = np.array(case["prompt_embeddings"]) @ np.array(case["image_embeddings"]).T
    preset = replace(BERG, desired=desired, max_skew_k=(k,), ndkl_k=(k,))
    measured = preset.evaluate(scores, labels, groups=case["G"])
    answer = case["outputs"]["debias_vl.eval_ranking"]
    assert list(measured) == [f"max_skew@{k}", f"ndkl@{k}"]
    assert measured[f"max_skew@{k}"].mean() == pytest.approx(answer["maxskew"][key], abs=1e-5)
    assert measured[f"ndkl@{k}"].mean() == pytest.approx(answer["ndkl"][key], abs=1e-5)


def usable_for_gensynth(case: dict[str, Any]) -> bool:
    # Two groups, both shown, k within the defined images; where ties or NaN decide, its order is not ours.
    defined = [label for label in case["labels"] if label >= 0]
    strange = case["style"] in ("nan_scores", "ties", "ties_all")
    return (
        "gensynth.bias_at_k" in case["peers"] and set(defined) == {0, 1} and case["K"] <= len(defined) and not strange
    )


@pytest.mark.parametrize("case", [c for c in golden("ranking") if usable_for_gensynth(c)], ids=lambda c: c["name"])
def test_gensynth_reproduces_its_bias_at_k(case: dict[str, Any]) -> None:
    k = case["K"]
    preset = replace(GENSYNTH, max_skew_k=(k,), bias_k=(k,))
    measured = preset.evaluate([case["scores"]], np.array(case["labels"]), groups=2)
    answer = case["peers"]["gensynth.bias_at_k"]
    assert measured[f"max_skew@{k}"][0] == pytest.approx(answer[f"maxskew@{k}"], abs=1e-12)
    assert measured[f"bias@{k}"][0] == pytest.approx(answer[f"bias@{k}"], abs=1e-12)


@pytest.mark.parametrize("attribute", ["race", "gender"])
def test_so_b_it_reproduces_its_categories(attribute: str) -> None:
    case = next(c for c in golden("sobit") if c["name"] == "N120-k20")
    scores = np.array(case["text"]) @ np.array(case["image"]).T
    groups = len(case[f"{attribute}_names"])
    preset = replace(SO_B_IT, max_skew_k=(), entropy_k=(case["k"],))
    entropy = preset.evaluate(scores, np.array(case[attribute]), groups=groups)["normalized_entropy@20"]
    expected = case["outputs"][f"entropy_{attribute}"]
    assert entropy[:3].mean() == pytest.approx(expected["catA"], abs=1e-6)
    assert entropy[3:].mean() == pytest.approx(expected["catB"], abs=1e-6)


def test_each_preset_measures_what_its_paper_does_at_its_k() -> None:
    scores, labels = gallery(2, 600)
    assert list(HOWARD.evaluate(scores, labels, groups=2)) == ["max_skew@2"]
    assert list(BERG.evaluate(scores, labels, groups=2)) == ["max_skew@1000", "ndkl@1000"]
    assert list(GENSYNTH.evaluate(scores, labels, groups=2)) == ["max_skew@25", "max_skew@100", "bias@5", "bias@10"]
    assert list(SO_B_IT.evaluate(scores, labels, groups=2)) == ["max_skew@100", "normalized_entropy@100"]


def test_a_preset_is_the_functions_with_its_own_arguments() -> None:
    scores, labels = gallery(3, 400)
    labels = np.where(np.arange(labels.size) % 7 == 0, 0, labels)  # uneven shares
    howard = HOWARD.evaluate(scores, labels, groups=3)["max_skew@3"]
    np.testing.assert_array_equal(howard, max_skew_at_k(scores, labels, 3, groups=3))
    berg = BERG.evaluate(scores, labels, groups=3)
    clamped = max_skew_at_k(scores, labels, 1000, groups=3, zero="clamp_1_over_k")
    np.testing.assert_array_equal(berg["max_skew@1000"], clamped)
    np.testing.assert_array_equal(berg["ndkl@1000"], ndkl_at_k(scores, labels, 1000, groups=3))
    gensynth = GENSYNTH.evaluate(scores, labels, groups=3)
    np.testing.assert_array_equal(gensynth["max_skew@25"], max_skew_at_k(scores, labels, 25, groups=3, zero="skip"))
    np.testing.assert_array_equal(gensynth["bias@5"], bias_at_k(scores, labels, 5, groups=3))
    sobit = SO_B_IT.evaluate(scores, labels, groups=3)
    uniform = max_skew_at_k(scores, labels, 100, groups=3, desired="uniform")
    np.testing.assert_array_equal(sobit["max_skew@100"], uniform)
    entropy = normalized_entropy_at_k(scores, labels, 100, groups=3)
    np.testing.assert_array_equal(sobit["normalized_entropy@100"], entropy)
    with pytest.raises(MetricError, match="k is 1000"):
        BERG.evaluate(*gallery(2, 100), groups=2)
    with pytest.raises(FrozenInstanceError):
        HOWARD.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("case", golden("eval_ranking"), ids=lambda c: f"top {c['topn']}")
def test_prompts_are_averaged_as_open_clip_and_as_howards_code_do(case: dict[str, Any]) -> None:
    raw = np.array(case["unnormalized_prompts"])
    unit = average_prompts(raw, "unit_mean_unit")
    assert unit[0] == pytest.approx(case["openclip_style(normalize,mean,normalize)"], abs=1e-5)
    plain = average_prompts(raw, HOWARD.prompt_average)
    assert plain[0] == pytest.approx(case["intel_style_mean_then_normalize"], abs=1e-5)
    assert plain.shape == unit.shape == (1, raw.shape[1])
    np.testing.assert_array_equal(average_prompts(raw, BERG.prompt_average), raw)


def test_prompts_without_a_direction_are_refused() -> None:
    with pytest.raises(MetricError, match="no direction") as caught:
        average_prompts([[1.0, 0.0], [0.0, 0.0]], "unit_mean_unit")
    assert caught.value.where == "embeddings: first at row 1"
    with pytest.raises(MetricError, match="no direction"):
        average_prompts([[1.0, 0.0], [-1.0, 0.0]], "mean_unit")
    with pytest.raises(MetricError, match="'median'") as caught:
        average_prompts([[1.0]], "median")  # type: ignore[arg-type]
    assert "mean_unit" in caught.value.remedy
    with pytest.raises(MetricError, match="not finite"):
        average_prompts([[np.nan]], "none")


def test_howards_max_skew_takes_only_the_logarithms_of_counts() -> None:
    published = TABLES["howard_K=|A1||A2| with a balanced gallery => MaxSkew = ln(max count)"]
    labels = np.repeat(np.arange(12), 12)
    for most, expected in enumerate(published, start=1):
        # `most` images of one group, then one of each following group, until twelve are shown.
        shown = np.concatenate([np.arange(most), 12 * np.arange(1, 13 - most)]).astype(int)
        scores = np.zeros((1, labels.size))
        scores[0, shown] = 1.0
        assert HOWARD.evaluate(scores, labels, groups=12)["max_skew@12"][0] == pytest.approx(expected, abs=1e-12)


def test_howards_galleries_are_four_prompts_of_a_hundred_sets() -> None:
    table = TABLES["howard_table5"]
    occupations, groups = 261, 6 * 2
    assert table["sets"] == occupations * len(HOWARD.prompts)
    per_group = table["published"] // (occupations * groups)
    assert per_group == 100 * len(HOWARD.prompts)
    null = expected_max_skew(groups, HOWARD.desired, np.full(groups, per_group))
    assert (null.median, null.p95) == pytest.approx((np.log(3), np.log(4)))


def test_a_random_model_has_the_max_skew_that_gensynth_prints() -> None:
    # Table 1, random model: 0.14, 0.07 on balanced COCO Val; 0.15 on all of it (and 0.06, where chance gives 0.08).
    train = TABLES["gensynth_coco_train"]
    assert train["male"] + train["female"] + train["undefined"] == train["n"]
    balanced = [expected_max_skew(k, GENSYNTH.desired, [500, 500]).mean for k in GENSYNTH.max_skew_k]
    assert balanced == pytest.approx([0.14, 0.07], abs=0.01)
    imbalanced = expected_max_skew(25, GENSYNTH.desired, [train["male"], train["female"]])
    assert imbalanced.mean == pytest.approx(0.15, abs=0.01)


def test_an_imbalanced_gallery_alone_shifts_bias_at_k() -> None:
    # Table 1 again: a random model has Bias@5 of 0.37 and Bias@10 of 0.40 on COCO Val, 0.00 once balanced.
    train = TABLES["gensynth_coco_train"]
    counts = np.array([train["male"], train["female"], train["undefined"]]) // 40
    labels = np.repeat([0, 1, -1], counts)
    scores = stream(0, "random model").random((600, labels.size), dtype=np.float32)
    biased = [bias_at_k(scores, labels, k).mean() for k in GENSYNTH.bias_k]
    assert biased == pytest.approx([0.39, 0.44], abs=0.05)
    even = np.repeat([0, 1, -1], counts[[1, 1, 2]])
    balanced = [bias_at_k(scores[:, : even.size], even, k).mean() for k in GENSYNTH.bias_k]
    assert balanced == pytest.approx([0.0, 0.0], abs=0.08)
