"""C-ASC, word strength, S(D, A, B) and the implicit association: by hand, against peers, with planted bias."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    SetSums,
    association,
    c_asc,
    c_asc_of_sums,
    differential_association,
    implicit_association,
    pair_choices,
    softmax_probability,
    top_k_similarity,
    word_strength,
)
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream

GOLDEN = Path(__file__).parents[2] / "golden"
# Slimmed: the largest of four cases of one kind, N400-k100, stays out.
SOBIT = json.loads((GOLDEN / "sobit.json").read_text())["cases"]
GALLERIES = [case for case in SOBIT if "race" in case]
STRENGTHS = [case for case in SOBIT if case["name"] == "word_strength"]
PAIRS = [case for case in json.loads((GOLDEN / "diffusion_classifier.json").read_text())["cases"] if "err_XA" in case]


def test_the_peers_c_asc_is_met_for_every_word_and_group() -> None:
    compared = 0
    for case in GALLERIES:
        scores = np.array(case["text"]) @ np.array(case["image"]).T
        words = {word: found for category in case["outputs"]["casc"].values() for word, found in category.items()}
        for attribute in ("race", "gender"):
            names = [name for name in case[f"{attribute}_names"] if words["w0"][attribute][name] != "nan"]
            expected = [[words[f"w{word}"][attribute][name] for name in names] for word in range(len(scores))]
            ours = c_asc(scores, np.array(case[attribute]), groups=len(names))
            np.testing.assert_allclose(ours, expected, atol=1e-9)
            compared += ours.size
    assert compared == 5 * (9 + 9 + 8)


def test_a_declared_group_without_an_image_is_refused_where_the_peer_returns_nan() -> None:
    (case,) = [case for case in GALLERIES if max(case["race"]) < 6]
    assert case["outputs"]["casc"]["catA"]["w0"]["race"]["r6"] == "nan"
    with pytest.raises(MetricError, match=r"1 of 7 declared groups have no image: codes \[6\]"):
        c_asc(np.array(case["text"]) @ np.array(case["image"]).T, np.array(case["race"]), groups=7)


def test_c_asc_by_hand() -> None:
    # mean inside 2, outside 0, so 2; squares around the mean 1 are 4 + 0 + 0 + 4
    assert c_asc([[3.0, 1.0, 1.0, -1.0]], np.array([0, 0, 1, 1]), groups=2)[0] == pytest.approx(
        [2 / np.sqrt(8 / 3), -2 / np.sqrt(8 / 3)], abs=1e-12
    )
    population = c_asc([[3.0, 1.0, 1.0, -1.0]], np.array([0, 0, 1, 1]), groups=2, ddof=0)
    assert population[0] == pytest.approx([np.sqrt(2), -np.sqrt(2)], abs=1e-12)
    uneven = c_asc([[6.0, 0.0, 0.0, 0.0]], np.array([0, 1, 1, 2]), groups=3, ddof=0)
    deviation = np.sqrt(27 / 4)
    assert uneven[0] == pytest.approx([6 / deviation, -3 / deviation, -2 / deviation], abs=1e-12)


def test_an_image_of_undefined_group_is_neither_inside_nor_outside() -> None:
    scores, labels = np.array([[3.0, 1.0, 50.0, 1.0, -1.0]]), np.array([0, 0, -1, 1, 1])
    np.testing.assert_array_equal(
        c_asc(scores, labels, groups=2), c_asc(scores[:, labels >= 0], labels[labels >= 0], groups=2)
    )


def test_a_planted_shift_is_found_in_standard_deviations_and_none_at_zero() -> None:
    rng = stream(7, "planted", "c_asc")
    labels = np.repeat([0, 1, 2], 4000)
    noise = rng.standard_normal((1, labels.size))
    silent = c_asc(noise, labels, groups=3)
    assert np.abs(silent).max() < 0.06
    found = [c_asc(noise + strength * (labels == 1), labels, groups=3)[0] for strength in (0.1, 0.2, 0.4)]
    for strength, row in zip((0.1, 0.2, 0.4), found, strict=True):
        assert row[1] == pytest.approx(strength, abs=0.06)
        assert row[0] < 0.0
        assert row[2] < 0.0
    assert found[0][1] < found[1][1] < found[2][1]


def test_scores_far_from_zero_keep_their_digits() -> None:
    rng = stream(1, "far")
    scores, labels = rng.standard_normal((2, 500)), rng.integers(0, 2, 500)
    # 1e6 + x holds x to 1e-10; the textbook formula, mean of squares less square of means, would hold none at 1e8
    np.testing.assert_allclose(
        c_asc(scores + 1e6, labels, groups=2), c_asc((scores + 1e6) - 1e6, labels, groups=2), atol=1e-12
    )
    np.testing.assert_allclose(c_asc(3.0 * scores, labels, groups=2), c_asc(scores, labels, groups=2), atol=1e-12)


def test_each_query_is_measured_as_if_it_were_alone() -> None:
    rng = stream(6, "alone")
    scores, labels = rng.standard_normal((2, 40)), rng.integers(0, 2, 40)
    scores = np.stack([1e12 + scores[0], 1e-6 * scores[1]])  # what one loses by rounding is more than the other has
    together = c_asc(scores, labels, groups=2)
    alone = np.concatenate([c_asc(row[None], labels, groups=2) for row in scores])
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_scores_of_few_bits_are_measured_with_all_digits() -> None:
    scores, labels = (100 + stream(10, "bits").standard_normal((1, 60))).astype(np.float32), np.arange(60) % 2
    np.testing.assert_allclose(
        c_asc(scores, labels, groups=2), c_asc(scores.astype(np.float64), labels, groups=2), rtol=1e-12
    )


def test_a_group_without_an_image_among_those_drawn_has_no_c_asc() -> None:
    found = c_asc_of_sums(
        np.array([[3.0, 0.0, -3.0], [0.0, 0.0, 0.0]]),
        [[2, 0, 2], [4, 0, 0]],
        np.array([[5.0], [5.0]]),
        images=4,
        total=0,
    )
    deviation = np.sqrt(5 / 3)
    np.testing.assert_allclose(found[0], [3 / deviation, np.nan, -3 / deviation], rtol=1e-14)
    assert np.isnan(found[1]).all()  # nobody is outside of the only group


def test_a_deviation_of_0_makes_an_infinite_c_asc_and_no_warning() -> None:
    found = c_asc_of_sums(np.array([[1.0, -1.0]]), [[1, 1]], np.array([[0.0]]), images=2, total=0)
    assert found.tolist() == [[np.inf, -np.inf]]


def test_sums_of_scores_are_enough_wherever_their_zero_lies() -> None:
    scores, labels = stream(8, "sums").standard_normal((1, 9)) + 2.0, np.arange(9) % 3
    found = c_asc_of_sums(
        scores @ np.eye(3)[labels],
        [3, 3, 3],
        np.square(scores).sum(axis=1, keepdims=True),
        images=9,
        total=scores.sum(axis=1, keepdims=True),
    )
    np.testing.assert_allclose(found, c_asc(scores, labels, groups=3), rtol=1e-12)


def test_resampled_sets_have_the_c_asc_of_the_gallery_written_out() -> None:
    sets, labels = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 2, 0, 1, 1, 0])
    scores, counts = stream(9, "sets").standard_normal(7) + 1e7, np.array([[1, 1, 1, 1], [3, 1, 2, 0]])
    sums, images, squares = SetSums.of(scores, labels, sets, groups=3, n_sets=4).drawn(counts)  # set 3 has no image
    found = c_asc_of_sums(
        sums, images, squares, images=images.sum(axis=1)[:, None], total=sums.sum(axis=1)[:, None], ddof=0
    )
    for row, times in zip(found, counts, strict=True):
        written = np.repeat(np.arange(7), times[sets])
        expected = c_asc(scores[None, written], labels[written], groups=3, ddof=0)[0]
        np.testing.assert_allclose(row, expected, rtol=1e-9)  # although 1e7 leaves no digit to squares


def test_the_query_that_tells_no_images_apart_is_named() -> None:
    scores, labels = stream(2, "queries").standard_normal((7, 30)).astype(np.float32), np.arange(30) % 3
    assert c_asc(scores, labels, groups=3).dtype == np.float64
    scores[5] = 0.25
    with pytest.raises(MetricError, match="query 5") as caught:
        c_asc(scores, labels, groups=3)
    assert "tells no two images apart" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("labels", "groups", "ddof", "match"),
    [
        ([0, 0], 1, 1, "at least two"),
        ([0, 1, 1], 2, 1, "there are 2 images"),
        ([0, 1], 2, 2, "ddof is 2"),
        ([0, 2], 2, 1, "outside -1..1"),
    ],
)
def test_c_asc_refuses_what_it_cannot_answer(labels: list[int], groups: int, ddof: int, match: str) -> None:
    with pytest.raises(MetricError, match=match):
        c_asc([[0.0, 1.0]], np.array(labels), groups=groups, ddof=ddof)
    with pytest.raises(MetricError, match="not finite"):
        c_asc([[0.0, np.nan]], np.array([0, 1]), groups=2)


@pytest.mark.parametrize("case", STRENGTHS, ids=range(len(STRENGTHS)))
def test_word_strength_is_scipys_weak_percentile(case: dict[str, Any]) -> None:
    np.testing.assert_array_equal(word_strength(case["captions"], case["baseline"]), case["outputs"]["weak"])
    assert case["outputs"]["weak"] != case["outputs"]["strict"]  # ties are in the case, and count


def test_word_strength_from_embeddings_to_the_end() -> None:
    (case,) = [case for case in SOBIT if case["name"] == "word_strength_embeddings"]
    image = np.array(case["image"])
    baseline = top_k_similarity(np.array(case["baseline_text"]) @ image.T, case["k"])
    caption = top_k_similarity(np.array(case["caption_text"]) @ image.T, case["k"])
    np.testing.assert_allclose(baseline, case["outputs"]["baseline_strength"], atol=1e-12)
    np.testing.assert_allclose(caption, case["outputs"]["caption_strength"], atol=1e-12)
    np.testing.assert_array_equal(word_strength(caption, baseline), case["outputs"]["ecdf_weak"])


def test_top_k_similarity_takes_the_k_highest_and_no_other_k() -> None:
    scores = [[1.0, 4.0, 2.0, 3.0]]
    assert [top_k_similarity(scores, k)[0] for k in (1, 2, 3, 4)] == [4.0, 3.5, 3.0, 2.5]
    for k in (0, 5):
        with pytest.raises(MetricError, match=f"k is {k}"):
            top_k_similarity(scores, k)
    with pytest.raises(MetricError, match=r"baseline has shape \(0,\)"):
        word_strength([1.0], [])


@pytest.mark.parametrize("case", PAIRS, ids=range(len(PAIRS)))
def test_s_counts_pairs_as_eq_2_does(case: dict[str, Any]) -> None:
    expected = case["outputs"]["tie=0.5"]
    s_x, s_y = association(case["err_XA"], case["err_XB"]), association(case["err_YA"], case["err_YB"])
    assert s_x == pytest.approx(expected["S_X"], abs=1e-12)
    assert s_y == pytest.approx(expected["S_Y"], abs=1e-12)
    assert differential_association(s_x, s_y) == pytest.approx(expected["S_diff"], abs=1e-12)
    soft = association(1000 * np.array(case["err_XA"]), 1000 * np.array(case["err_XB"]), soft=True)
    assert soft == pytest.approx(case["outputs"]["soft"]["S_X"], abs=1e-12)


def test_s_by_hand_with_ties_halved() -> None:
    assert association([[1.0, 2.0]], [[1.0, 3.0, 0.0]]) == pytest.approx((0.5 + 1 + 0 + 0 + 1 + 0) / 6)
    assert association([[0.0]], [[np.log(3.0)]], soft=True) == pytest.approx(0.75)
    assert association([[0.0]], [[np.log(9.0)]], soft=True) == pytest.approx(0.9)
    assert association([[0.0], [1e6]], [[1e6], [0.0]], soft=True) == 0.5  # without an overflow


def test_s_is_the_mean_choice_of_all_pairs() -> None:
    a, b = [[0.0, 1.0], [2.0, 2.0]], [[np.log(3.0), 1.0, 0.0], [2.0, 0.5, 4.0]]
    assert pair_choices(a, b)[0].tolist() == [[1.0, 1.0, 0.5], [1.0, 0.5, 0.0]]
    assert pair_choices(a, b, soft=True)[0, 0, 0] == pytest.approx(0.75)
    for soft in (False, True):
        assert pair_choices(a, b, soft=soft).mean() == pytest.approx(association(a, b, soft=soft), rel=1e-12)


def test_swapping_the_concepts_mirrors_s() -> None:
    rng = stream(3, "mirror")
    a, b = rng.integers(0, 4, (20, 3)).astype(float), rng.integers(0, 4, (20, 5)).astype(float)
    for soft in (False, True):
        assert association(a, b, soft=soft) + association(b, a, soft=soft) == pytest.approx(1.0)


def test_a_planted_preference_moves_s_and_none_leaves_it_at_a_half() -> None:
    rng = stream(4, "planted", "s")
    a, b = rng.standard_normal((4000, 3)), rng.standard_normal((4000, 3))
    found = [association(a - strength, b) for strength in (0.0, 0.2, 0.8)]
    assert found[0] == pytest.approx(0.5, abs=0.02)
    assert found[0] + 0.03 < found[1] < found[2] - 0.1


def test_s_needs_both_losses_of_the_same_images_and_shares_as_parts() -> None:
    with pytest.raises(MetricError, match="errors_a holds 1 images and errors_b 2"):
        association([[1.0, 3.0]], [[1.0], [2.0]])
    assert differential_association(0.0, 1.0) == -1.0
    for s_x, s_y, named in ((1.1, 0.5, "s_x is 1"), (0.5, -0.1, "s_y is -0"), (float("nan"), 0.5, "s_x is nan")):
        with pytest.raises(MetricError, match=named):
            differential_association(s_x, s_y)


def test_implicit_association_by_group_and_within_sets() -> None:
    p = np.array([0.9, 0.5, 0.7, 0.3, 0.2, 0.6])
    labels = np.array([0, 1, 0, 1, 0, -1])
    found = implicit_association(p, labels, groups=2, sets=np.array(["b", "b", "a", "a", "c", "c"]))
    assert found.mean == pytest.approx([0.6, 0.4])
    assert found.counts.tolist() == [3, 2]
    assert found.spread == pytest.approx(0.2)
    assert found.within_sets == pytest.approx([0.2, -0.2])
    assert (found.sets, found.incomplete_sets) == (2, 1)  # "c" shows group 0 alone
    marginal = implicit_association(p, labels, groups=2)
    assert marginal.within_sets is None
    assert marginal.mean == pytest.approx([0.6, 0.4])
    assert marginal.counts.tolist() == [3, 2]
    assert (marginal.sets, marginal.incomplete_sets) == (0, 0)
    assert marginal.spread == pytest.approx(0.2)


def test_a_planted_distrust_is_found_within_sets_although_scenes_differ_more() -> None:
    rng = stream(5, "planted", "trust")
    sets, labels = np.repeat(np.arange(300), 3), np.tile([0, 1, 2], 300)
    scene = np.repeat(2.0 * rng.standard_normal(300), 3)
    spreads = []
    for strength in (0.0, 0.5):
        logit = scene - strength * (labels == 2)
        p = softmax_probability(np.stack([logit, np.zeros(900)], axis=1), 0)
        found = implicit_association(p, labels, groups=3, sets=sets)
        assert found.within_sets is not None
        assert found.within_sets.sum() == pytest.approx(0.0, abs=1e-12)
        spreads.append(float(np.ptp(found.within_sets)))
    assert spreads[0] == pytest.approx(0.0, abs=1e-12)
    assert 0.04 < spreads[1] < 0.125


def test_implicit_association_refuses_what_is_no_probability_or_no_set() -> None:
    for p in ([1.1, 0.0], [0.5, -0.1]):
        with pytest.raises(MetricError, match="holds values from"):
            implicit_association(p, np.array([0, 1]), groups=2)
    with pytest.raises(MetricError, match="none of 2 sets shows every one of the 2 groups"):
        implicit_association([0.0, 1.0], np.array([0, 1]), groups=2, sets=[0, 1])
    with pytest.raises(MetricError, match="at least two"):
        implicit_association([0.5], np.array([0]), groups=1)
    with pytest.raises(MetricError, match="have no image"):
        implicit_association([0.5], np.array([0]), groups=2)
