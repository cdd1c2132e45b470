"""Skew and NDKL against the plain definition and against other people's implementations, run on seeded rankings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    bias_at_k,
    entropy_of_counts,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    ndkl_of_ranking,
    normalized_entropy_at_k,
    recall_at_k,
    skew_at_k,
    skew_of_counts,
)
from fairgate.ground.errors import MetricError

GOLDEN = Path(__file__).parents[2] / "golden"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "ranking.json").read_text())["cases"]
REFUSED = {"nan_scores": "not finite", "all_undefined": "can be ranked", "one_group": "have no image"}
REFUSED |= {"absent_dataset": "have no image", "k_gt_n": "k is"}


def numbers(values: Any) -> np.ndarray:
    return np.asarray(values).astype(float)


def arguments(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    return numbers([case["scores"]]), np.array(case["labels"]), case["K"]


def is_refused(case: dict[str, Any]) -> bool:
    absent = set(range(case["G"])) - set(case["labels"])
    return case["style"] in REFUSED or bool(absent) or case["formula"]["K_exceeds_N"]


answered = pytest.mark.parametrize("case", [c for c in CASES if not is_refused(c)], ids=lambda c: c["name"])


def peer(case: dict[str, Any], name: str, *, ties: bool = False) -> Any:
    """What a peer answered, or None where it did not run or breaks ties at k otherwise."""
    answer = case["peers"].get(name)
    if not ties and case["formula"]["tie_at_k"]:
        return None
    return None if answer is None or (isinstance(answer, dict) and "error" in answer) else answer


@answered
@pytest.mark.parametrize("desired", ["uniform", "dataset"])
def test_skew_and_ndkl_follow_the_definition(case: dict[str, Any], desired: str) -> None:
    expected = case["formula"][desired]
    given = {"groups": case["G"], "desired": desired}
    assert skew_at_k(*arguments(case), **given)[0] == pytest.approx(numbers(expected["skew"]), abs=1e-12)
    assert max_skew_at_k(*arguments(case), **given)[0] == pytest.approx(expected["maxskew"], abs=1e-12)
    assert min_skew_at_k(*arguments(case), **given)[0] == pytest.approx(float(expected["minskew"]), abs=1e-12)
    assert ndkl_at_k(*arguments(case), **given)[0] == pytest.approx(expected["ndkl_at_k"], abs=1e-12)


@answered
def test_bias_and_entropy_follow_the_definition(case: dict[str, Any]) -> None:
    given = {"groups": case["G"]}
    expected = case["formula"]
    assert bias_at_k(*arguments(case), **given)[0] == pytest.approx(
        expected["bias_all_then_ignore_undefined"], abs=1e-12
    )
    defined = bias_at_k(*arguments(case), defined_first=True, **given)[0]
    assert defined == pytest.approx(expected["bias_defined_first"], abs=1e-12)
    entropy = normalized_entropy_at_k(*arguments(case), **given)[0]
    assert entropy == pytest.approx(expected["normalized_entropy"], abs=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if is_refused(c)], ids=lambda c: c["name"])
def test_what_others_call_perfect_is_refused_here(case: dict[str, Any]) -> None:
    problem = REFUSED.get(case["style"], "can be ranked|no image")
    with pytest.raises(MetricError, match=problem) as caught:
        skew_at_k(*arguments(case), groups=case["G"])
    assert caught.value.remedy


@pytest.mark.parametrize("case", [c for c in CASES if c["style"] == "k_gt_n"], ids=lambda c: c["name"])
def test_a_ranking_cut_at_its_end_follows_the_definition(case: dict[str, Any]) -> None:
    scores, labels, _ = arguments(case)
    expected = case["formula"]["uniform"]
    k = case["formula"]["k_effective"]
    skew = skew_at_k(scores, labels, k, groups=case["G"], desired="uniform")[0]
    assert skew == pytest.approx(numbers(expected["skew"]), abs=1e-12)


@answered
def test_the_variant_clamp_1_over_k_is_bergs_code(case: dict[str, Any]) -> None:
    answer = peer(case, "debias_vl.compute_skew_metrics")
    if answer is None or -1 in case["labels"]:  # its code counts undefined images as a group
        return
    for key, desired in (("maxskew_eq_opp", "uniform"), ("maxskew_dem_par", "dataset")):
        ours = max_skew_at_k(*arguments(case), groups=case["G"], desired=desired, zero="clamp_1_over_k")[0]
        assert ours == pytest.approx(answer[key], abs=1e-12)


@answered
def test_ndkl_is_bergs_at_k_and_cfbs_over_the_whole_ranking(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    berg = peer(case, "debias_vl.normalized_discounted_KL")
    for desired, key in (("uniform", "ndkl_eq_opp"), ("dataset", "ndkl_dem_par")):
        if berg is not None and -1 not in labels:
            assert ndkl_at_k(scores, labels, k, groups=case["G"], desired=desired)[0] == pytest.approx(
                berg[key], abs=1e-12
            )
        full = peer(case, f"cfb.NDKL_vectorized[{desired}]", ties=True)
        if full is not None and len(set(case["scores"])) == len(labels):  # it breaks ties otherwise
            ours = ndkl_at_k(scores, labels, len(labels), groups=case["G"], desired=desired)[0]
            assert ours == pytest.approx(full, abs=1e-12)


@answered
def test_the_variant_neg_inf_is_cfbs_skew(case: dict[str, Any]) -> None:
    for desired in ("uniform", "dataset"):
        answer = peer(case, f"cfb.skew_at_k[{desired}]", ties=True)
        if answer is not None:
            ours = skew_at_k(*arguments(case), groups=case["G"], desired=desired)[0]
            assert ours == pytest.approx(numbers(list(answer.values())), abs=1e-12)


@answered
def test_the_variant_zero_is_intels(case: dict[str, Any]) -> None:
    answer = peer(case, "intel.evaluate_skew")
    if answer is None:
        return
    given = {"groups": case["G"], "zero": "zero"}
    skew = skew_at_k(*arguments(case), **given)[0]
    assert skew == pytest.approx([answer[f"g{g}"] for g in range(case["G"])], abs=1e-6)
    assert max_skew_at_k(*arguments(case), **given)[0] == pytest.approx(answer[f"MaxSkew@{case['K']}"], abs=1e-6)
    assert min_skew_at_k(*arguments(case), **given)[0] == pytest.approx(answer[f"MinSkew@{case['K']}"], abs=1e-6)


@answered
def test_the_variant_skip_is_gensynths(case: dict[str, Any]) -> None:
    answer = peer(case, "gensynth.bias_at_k")
    if answer is not None:
        ours = max_skew_at_k(*arguments(case), groups=case["G"], zero="skip")[0]
        assert ours == pytest.approx(answer[f"maxskew@{case['K']}"], abs=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if "gensynth.bias_at_k" in c["peers"]], ids=lambda c: c["name"])
def test_bias_is_gensynths_also_where_undefined_images_hold_places(case: dict[str, Any]) -> None:
    scores, labels, k = arguments(case)
    counted = set(labels[labels >= 0]) == set(range(case["G"])) and k <= len(labels) and np.isfinite(scores).all()
    if case["formula"].get("tie_at_k") or not counted:
        return
    ours = bias_at_k(scores, labels, k, groups=case["G"])[0]
    assert ours == pytest.approx(case["peers"]["gensynth.bias_at_k"][f"bias@{k}"], abs=1e-12)


@answered
@pytest.mark.parametrize("desired", ["uniform", "dataset"])
def test_peers_that_add_a_trifle_inside_the_logarithm_agree_but_for_it(case: dict[str, Any], desired: str) -> None:
    given = {"groups": case["G"], "desired": desired}
    for name in ("reranking.ndkl(topK)", "credo.ndkl(topK)"):  # 1e-12
        answer = peer(case, f"{name}[{desired}]", ties=True)
        if answer is not None and -1 not in case["labels"]:
            assert ndkl_at_k(*arguments(case), **given)[0] == pytest.approx(answer, abs=1e-9)
    static = peer(case, f"reranking.skew_static[{desired}]", ties=True)
    if static is not None and -1 not in case["labels"]:
        assert max_skew_at_k(*arguments(case), **given)[0] == pytest.approx(static["max"], abs=1e-9)
        least = min_skew_at_k(*arguments(case), **given)[0]
        assert least == pytest.approx(static["min"], abs=1e-9) or (np.isneginf(least) and static["min"] < -20)
    bend = peer(case, f"bend.max_skew[{desired}]", ties=True)
    if bend is not None and -1 not in case["labels"]:
        assert max_skew_at_k(*arguments(case), **given)[0] == pytest.approx(bend, abs=1e-9)


@answered
def test_ndkl_of_the_whole_ranking_is_fairranktunes_but_for_its_unnormalised_1e_7(case: dict[str, Any]) -> None:
    answer = peer(case, "fairranktune.NDKL(full)", ties=True)
    if answer is not None and -1 not in case["labels"]:
        scores, labels, _ = arguments(case)
        assert ndkl_at_k(scores, labels, len(labels), groups=case["G"])[0] == pytest.approx(answer, abs=1e-5)


@answered
def test_the_variant_clamp_1_over_k_is_also_visogenders(case: dict[str, Any]) -> None:
    answer = peer(case, "visogender.calculate_retrieval_bias", ties=True)
    if answer is None:
        return
    scores, labels, k = arguments(case)
    if case["style"] == "plain" or case["style"] == "absent_topk":
        given = {"groups": 2, "zero": "clamp_1_over_k"}
        assert max_skew_at_k(scores, labels, k, **given)[0] == pytest.approx(answer[f"maxskew@{k}"], abs=1e-12)
        assert min_skew_at_k(scores, labels, k, **given)[0] == pytest.approx(answer[f"minskew@{k}"], abs=1e-12)
        assert abs(bias_at_k(scores, labels, k)[0]) == pytest.approx(abs(answer[f"bias@{k}"]), abs=1e-12)
        assert ndkl_at_k(scores, labels, len(labels), groups=2)[0] == pytest.approx(answer["ndkl"], abs=1e-12)


@answered
def test_the_variant_laplace_is_lifts(case: dict[str, Any]) -> None:
    answer = peer(case, "lift(transcribed).alpha1", ties=True)
    if answer is not None:
        ours = skew_at_k(*arguments(case), groups=case["G"], zero="laplace")[0]
        assert ours == pytest.approx(answer["skews"], abs=1e-12)


@pytest.mark.parametrize(
    "case", json.loads((GOLDEN / "vectors_skew.json").read_text())["cases"], ids=lambda c: c["name"]
)
def test_laplace_reproduces_lifts_own_unit_tests(case: dict[str, Any]) -> None:
    keys = list(case["skew"])
    shown = [case["d1"].get(key, 0) for key in keys]
    present = [case["d2"].get(key, 0) for key in keys]
    ours = skew_of_counts(shown, present, zero="laplace")
    assert ours == pytest.approx([case["skew"][key] for key in keys], abs=1e-12)


def test_ndkl_reproduces_credos_docstring_and_fixture() -> None:
    vectors = json.loads((GOLDEN / "vectors_ndkl.json").read_text())
    doc = vectors["credoai_docstring"]
    names = list(doc["target"])
    ranked = np.array([[names.index(g) for g in doc["ranking"]]])
    # Credo adds 1e-12 inside its logarithm.
    assert ndkl_of_ranking(ranked, np.array(list(doc["target"].values())))[0] == pytest.approx(doc["ndkl"], abs=1e-9)
    fixture = vectors["credoai_fixture"]
    ranked = np.array([["fm".index(g) for g in fixture["ranking"]]])
    shares = np.bincount(ranked[0]) / ranked.size
    assert round(ndkl_of_ranking(ranked, shares)[0], 2) == fixture["ndkl"]


@pytest.mark.parametrize("case", json.loads((GOLDEN / "eval_ranking.json").read_text())["cases"])
def test_a_search_over_embeddings_matches_bergs_eval_ranking(case: dict[str, Any]) -> None:
    images, prompts = numbers(case["image_embeddings"]), numbers(case["prompt_embeddings"])
    labels, groups, top = np.array(case["labels"]), case["G"], case["topn"]
    k = int(np.ceil(len(labels) * top)) if isinstance(top, float) else top
    scores = prompts @ images.T
    for key, desired in (("eq_opp", "uniform"), ("dem_par", "dataset")):
        answer = case["outputs"]["debias_vl.eval_ranking"]
        skew = max_skew_at_k(scores, labels, k, groups=groups, desired=desired, zero="clamp_1_over_k").mean()
        assert skew == pytest.approx(answer["maxskew"][key], abs=1e-5)
        ndkl = ndkl_at_k(scores, labels, k, groups=groups, desired=desired).mean()
        assert ndkl == pytest.approx(answer["ndkl"][key], abs=1e-5)


RETRIEVAL: list[dict[str, Any]] = json.loads((GOLDEN / "retrieval.json").read_text())["cases"]


@pytest.mark.parametrize("case", RETRIEVAL, ids=["30 images", "80 images"])
def test_bias_and_recall_match_wangs_evaluate(case: dict[str, Any]) -> None:
    scores = numbers(case["text"]) @ numbers(case["image"]).T
    perceived = np.array([-1, 0, 1])[case["gender"]]  # its 0 is neutral: here undefined, and still ranked
    answer = case["outputs"]["wang.evaluate"]
    ours = [bias_at_k(scores, perceived, k).mean() for k in range(1, 11)]
    assert ours == pytest.approx(answer["bias@1..10"], abs=1e-9)  # its 1e-12 in the denominator
    own = np.arange(len(scores))
    recall = [100 * recall_at_k(scores, own, k) for k in (1, 5, 10)]
    assert recall == pytest.approx(answer["recall_percent@1,5,10"], abs=1e-9)


@pytest.mark.parametrize("case", RETRIEVAL, ids=["30 images", "80 images"])
def test_recall_matches_clip_benchmark(case: dict[str, Any]) -> None:
    scores = numbers(case["text"]) @ numbers(case["image"]).T
    for k in (1, 5, 10):
        answer = numbers(case["outputs"][f"clip_benchmark.recall_at_k[{k}]"])
        each = [recall_at_k(scores[[q]], np.array([q]), k) for q in range(len(scores))]
        assert each == pytest.approx(answer)
        assert recall_at_k(scores, np.arange(len(scores)), k) == pytest.approx(answer.mean())


def test_recall_with_five_captions_an_image_matches_clip_benchmarks_report() -> None:
    case = RETRIEVAL[0]
    scores = numbers(case["text5"]) @ numbers(case["image"]).T
    owner = np.array(case["owner5"])
    captions_of = owner == np.arange(len(case["image"]))[:, None]
    for k in (1, 5, 10):
        images = recall_at_k(scores, owner, k, several="any")
        assert images == pytest.approx(case["outputs"][f"clip_benchmark.image_retrieval_recall@{k}"], abs=1e-6)
        texts = recall_at_k(scores.T, captions_of, k, several="any")
        assert texts == pytest.approx(case["outputs"][f"clip_benchmark.text_retrieval_recall@{k}"], abs=1e-6)


@pytest.mark.parametrize("case", RETRIEVAL, ids=["30 images", "80 images"])
def test_recall_of_an_edit_among_the_originals_is_gensynths(case: dict[str, Any]) -> None:
    image, edited, captions = numbers(case["image"]), numbers(case["edited"]), numbers(case["captions"])
    # Each caption ranks the originals and its own edit, which stands last.
    rows = [
        np.append(caption @ image.T, caption @ own)
        for own, each in zip(edited, captions, strict=True)
        for caption in each
    ]
    for k, expected in case["outputs"]["formula.gensynth_R@K"].items():
        ours = recall_at_k(np.array(rows), np.full(len(rows), len(image)), int(k))
        assert ours == pytest.approx(expected, abs=1e-9)


SOBIT: list[dict[str, Any]] = json.loads((GOLDEN / "sobit.json").read_text())["cases"]


def test_entropy_of_counts_matches_so_b_it_and_refuses_what_it_calls_nan() -> None:
    case = next(c for c in SOBIT if c["name"] == "normalized_entropy")
    for counts, expected in zip(case["inputs"], case["outputs"]["normalized_entropy"], strict=True):
        if len(counts) < 2 or sum(counts) == 0:
            with pytest.raises(MetricError):
                entropy_of_counts(counts)
        else:
            assert entropy_of_counts(counts) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("case", [c for c in SOBIT if "taxonomy" in c], ids=lambda c: c["name"])
def test_the_mean_entropy_of_a_category_matches_so_b_it(case: dict[str, Any]) -> None:
    scores = numbers(case["text"]) @ numbers(case["image"]).T
    words = [word for members in case["taxonomy"].values() for word in members]
    for attribute in ("race", "gender"):
        labels, groups = np.array(case[attribute]), len(case[f"{attribute}_names"])
        for category, members in case["taxonomy"].items():
            rows = scores[[words.index(word) for word in members]]
            # Its code ranks all images where k exceeds them, and counts a declared group that no image has.
            k = min(case["k"], len(labels))
            expected = case["outputs"][f"entropy_{attribute}"][category]
            if np.bincount(labels, minlength=groups).min() == 0:
                with pytest.raises(MetricError, match="no image"):
                    normalized_entropy_at_k(rows, labels, k, groups=groups)
                top = np.argsort(-rows, axis=1, kind="stable")[:, :k]
                entropy = entropy_of_counts([np.bincount(row, minlength=groups) for row in labels[top]])
            else:
                entropy = normalized_entropy_at_k(rows, labels, k, groups=groups)
            assert entropy.mean() == pytest.approx(expected, abs=1e-6)
