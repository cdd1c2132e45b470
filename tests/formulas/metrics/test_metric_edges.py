"""Edges of the metrics: exact values where a rule turns, inputs of other kinds, options at their defaults."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import (
    SetSums,
    _ranking,
    c_asc,
    expected_max_skew,
    individual_typology_angle,
    max_skew_at_k,
    misclassification_table,
    ndkl_at_k_weighted,
    ndkl_of_ranking,
    ranking,
    relative_difference,
    softmax_probability,
    weighted_group_counts,
)
from fairgate.formulas.metrics.editing import cielab
from fairgate.ground.errors import MetricError
from fairgate.ground.randomness import stream


@pytest.mark.parametrize("size", [1e155, 1e308])
def test_scores_whose_squares_overflow_have_no_association(size: float) -> None:
    """Divided by an infinite deviation, every group would be as far from the others as chance has it: 0."""
    scores, labels = size * np.tile([1.0, -1.0], 8), np.tile([0, 1], 8)  # whose mean may be infinity less infinity
    with pytest.raises(MetricError, match="sums of squared scores are not finite"):
        SetSums.of(scores, labels, np.arange(16), groups=2, n_sets=16)
    with pytest.raises(MetricError, match="that their squares overflow"):
        c_asc(scores[None], labels, groups=2)


def test_a_scale_of_one_half_flattens_the_softmax() -> None:
    logits = [[np.log(9.0), 0.0]]
    assert softmax_probability(logits, 0, scale=0.5) == pytest.approx([0.75])
    assert softmax_probability(logits, 0, scale=1.0) == pytest.approx([0.9])
    assert softmax_probability(logits, 0) == pytest.approx([0.9])


def test_logits_of_one_image_do_not_drown_anothers() -> None:
    assert softmax_probability([[0.0, 0.0], [2000.0, 2000.0]], 0).tolist() == [0.5, 0.5]


def test_a_true_label_for_every_image_or_one_for_all() -> None:
    logits = np.log([[1.0, 3.0], [3.0, 1.0]])
    assert softmax_probability(logits, np.array([1, 1])) == pytest.approx([0.75, 0.25])
    assert softmax_probability(logits, 1) == pytest.approx([0.75, 0.25])
    with pytest.raises(MetricError, match=r"true_index has shape \(1,\), but there are 2 images"):
        softmax_probability(logits, np.array([1]))


def test_groups_and_classes_that_nobody_shows_have_their_places() -> None:
    table = misclassification_table([0, 0], [0, 0], [0, 0], 2, 3)
    assert table.shape == (2, 3, 3)
    assert table.sum() == table[0, 0, 0] == 2


def test_absent_groups_count_as_the_variant_says() -> None:
    scores, labels = [np.arange(20.0)], np.array([1] + [0] * 19)
    clamped = max_skew_at_k(scores, labels, 4, groups=2, zero="clamp_1_over_k")
    assert clamped == pytest.approx([np.log((1 / 4) / (1 / 20))])
    assert max_skew_at_k(scores, labels, 4, groups=2) == pytest.approx([np.log(20 / 19)])


def test_black_has_no_hue_and_no_skin_tone() -> None:
    found = individual_typology_angle(np.zeros((2, 2, 3), np.uint8), np.ones((2, 2), bool))
    assert (found.status, found.yellow, found.lightness) == ("invalid", 0.0, 0.0)
    assert np.isnan(found.degrees)


def test_images_per_group_that_are_known_are_not_counted_again() -> None:
    labels, weights = np.array([0, 1, 0, 1]), np.ones((1, 4), dtype=int)
    found = ndkl_at_k_weighted(labels, weights, 3, groups=2, present=np.array([[1.0, 3.0]]))
    assert found == pytest.approx(ndkl_of_ranking(labels[None, :3], np.array([0.25, 0.75])))


def test_pictures_and_lists_of_pixels_have_the_same_colours() -> None:
    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    assert cielab(picture).tolist() == cielab(picture.reshape(-1, 3)).reshape(2, 4, 3).tolist()


def test_the_null_is_the_same_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = expected_max_skew(20, "dataset", [30, 50, 20])
    for piece in (1, 500):
        monkeypatch.setattr(_ranking, "CHUNK", piece)
        found = expected_max_skew(20, "dataset", [30, 50, 20])
        assert (found.mean, found.median, found.p95) == pytest.approx((whole.mean, whole.median, whole.p95), rel=1e-9)


def test_a_simulated_null_is_held_against_the_target_it_was_given() -> None:
    for desired in ("uniform", "dataset", [0.9, 0.1]):
        exact = expected_max_skew(5, desired, [10, 30])
        drawn = expected_max_skew(5, desired, [10, 30], 4000, stream(0, "null"))
        assert (drawn.mean, drawn.median) == pytest.approx((exact.mean, exact.median), abs=0.02)


def test_small_skews_that_differ_are_compared() -> None:
    assert relative_difference([[4e-13, 8e-13]]) == 0.0
    assert relative_difference([[4e-13, 8e-12]]) == np.inf
    assert relative_difference([[0.25, 0.5]]) == 1.0


def test_scores_of_bytes_rank_like_numbers() -> None:
    scores, labels = np.array([[0, 200, 100, 50]], np.uint8), np.array([0, 1, 1, 0])
    assert ranking(scores, labels, 4, groups=2).tolist() == [[1, 2, 3, 0]]


def test_every_draw_is_counted_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranking, "CHUNK", 8)
    weights = np.arange(15).reshape(5, 3)
    found = weighted_group_counts(np.array([0, 1, 0]), weights, 2)
    assert found.tolist() == np.stack([weights[:, 0] + weights[:, 2], weights[:, 1]], axis=1).tolist()
