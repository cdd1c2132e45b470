"""Regressions on single images, step by step: noise of all groups in every contrast, and groups too thin to speak."""

from __future__ import annotations

import math

import numpy as np
import pytest
from regressions import image_regression
from scipy.stats import beta, norm
from scipy.stats import t as student

from fairgate.formulas.statistics import Design, PairedResult, compare_images, image_changes, set_counts
from fairgate.formulas.statistics.paired_result import Harm
from fairgate.formulas.statistics.regression import contrast_evidence
from fairgate.formulas.statistics.resampling import most_drawn, resampled_sums
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

SIZES = (20, 35, 50)


def samples() -> list[np.ndarray]:
    """Skewed changes of three groups."""
    rng = stream(0, "changes")
    return [rng.exponential(0.1 * (number + 1), size) for number, size in enumerate(SIZES)]


def judged(changes: list[np.ndarray], *, draws: int = 500, margin: float = 0.02, alpha: float = 0.05) -> PairedResult:
    labels = np.repeat(np.arange(len(changes)), [change.size for change in changes])
    change = np.concatenate(changes)
    return image_regression(
        change,
        np.zeros(change.size),
        labels,
        groups=len(changes),
        margin=margin,
        alpha=alpha,
        rng=stream(1, "draws"),
        draws=draws,
    )


def by_hand(changes: list[np.ndarray], weights: np.ndarray, draws: int = 500) -> tuple[np.ndarray, ...]:
    """Of contrasts (groups,) with these weights of the changes, the t in each resample (draws, groups); their errors,
    degrees of freedom and skewness."""
    rng, moved, variance = stream(1, "draws"), [], []
    for change in changes:
        centred, counts = change - change.mean(), set_counts(change.size, draws, rng)
        first = counts @ centred / change.size
        moved.append(first)
        variance.append((counts @ centred**2 / change.size - first**2) / (change.size - 1))
    t = (np.stack(moved, axis=1) @ weights.T) / np.sqrt(np.stack(variance, axis=1) @ (weights**2).T)
    noise = weights**2 * [change.var(ddof=1) / change.size for change in changes]
    error = np.sqrt(noise.sum(axis=1))
    freedom = noise.sum(axis=1) ** 2 / (noise**2 / [change.size - 1 for change in changes]).sum(axis=1)
    third = [((change - change.mean()) ** 3).mean() / change.size**2 for change in changes]
    return t, error, freedom, (weights**3 * third).sum(axis=1) / error**3


def test_limits_are_studentised_contrasts_of_groups_resampled_apart() -> None:
    changes = samples()
    t, error, freedom, skewness = by_hand(changes, np.eye(3) - 1 / 3)
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    beyond = math.floor(0.045 * 501) - 1
    result = judged(changes, margin=0.5)
    for found, direction in ((result.hi - result.delta, -1), (result.delta - result.lo, 1)):
        score = scale * np.sign(direction * t) * np.sqrt(freedom * np.log(1 + t**2 / freedom))
        critical = max(np.sort(score.max(axis=1))[499 - beyond], norm.ppf(0.955))
        far = np.sqrt(freedom * np.expm1((critical / scale) ** 2 / freedom))
        stretch = 1 + 2 * np.maximum(-direction * skewness, 0.0) ** 2
        np.testing.assert_allclose(found, far * error * stretch)

    means = np.array([change.mean() for change in changes])
    np.testing.assert_allclose(result.delta, means - means.mean())


def test_limits_next_to_a_sparse_group_add_the_noise_of_the_others_and_what_it_may_hide() -> None:
    changes, contrast = [*samples()[:2], np.where(np.arange(40) < 3, 0.25, 0.0)], np.eye(3) - 1 / 3
    t, error, freedom, skewness = by_hand(changes[:2], contrast[:, :2])
    level = 0.045 / 3  # a third of it for the one sparse group of three
    unseen = (beta.ppf(1 - level / 3, 4, 37) - 3 / 40) * max(np.ptp(change) for change in changes)
    beyond = math.floor(level * 2 / 3 * 501) - 1
    result = judged(changes, margin=0.5)
    for found, direction in ((result.hi - result.delta, -1), (result.delta - result.lo, 1)):
        stretched = np.sort(direction * t * (1 + 2 * np.maximum(-direction * skewness, 0.0) ** 2), axis=0)
        far = np.maximum(stretched[499 - beyond], student.ppf(1 - level * 2 / 3, freedom))
        np.testing.assert_allclose(found, far * error + np.abs(contrast[:, 2]) * unseen)


def test_a_score_is_that_of_the_bound_as_far_away_as_the_score_reaches() -> None:
    sizes = np.repeat(np.arange(3), SIZES)
    design = Design(0.02, 0.05, "lower")
    of = compare_images(
        np.concatenate(samples()), np.zeros(sizes.size), sizes, groups=3, design=design, rng=stream(1), draws=50
    ).evidence
    for side, direction in ((of.under, -1), (of.over, 1)):
        for score in (0.5, 2.0, 3.0):
            bounds = of.mean - direction * side.reach(score)
            assert [side.z(bound)[group] for group, bound in enumerate(bounds)] == pytest.approx([score] * 3)


def test_a_resample_without_spread_may_lie_on_either_side() -> None:
    changes = [stream(0, "changes", group).normal(size=12) for group in range(2)]
    resampled = [np.array([0.0, 12.0]) + stream(1, "sums", group).random((400, 2)) for group in range(2)]
    for sums in resampled:
        sums[:4] = 0.0
    dense = contrast_evidence(changes, resampled, alpha=0.05)
    beside_sparse = contrast_evidence([*changes, np.zeros(12)], [*resampled, resampled[0]], alpha=0.05)
    for side in (dense.under, dense.over):
        assert (side.drawn[:4] == np.inf).all()
        assert np.isfinite(side.drawn[4:]).all()
    for side in (beside_sparse.under, beside_sparse.over):
        assert np.isfinite(side.reach(norm.isf(0.05))).all()
        assert np.isinf(side.reach(norm.isf(0.01))).all()  # four of 400 draws weigh there


def test_groups_of_very_many_images_share_the_blocks() -> None:
    scores, labels, rng = stream(0, "many").normal(size=9000), np.arange(9000) % 2, stream(1, "many")
    design = Design(0.02, 0.05, "either")
    compare_images(scores, np.zeros(9000), labels, groups=2, design=design, rng=rng, draws=3)
    again = stream(1, "many")
    for group in range(2):
        resampled_sums(scores[labels == group, None], 3, again, most=most_drawn(9000, 2))
    assert rng.random() == again.random()


def test_changes_that_only_rounding_makes_are_exactly_none() -> None:
    sums = np.array([0.1 + 0.2, 0.1, 0.7 + 0.1, 0.5])
    changes = image_changes(sums, [0.3, 0.2, 0.8, 0.25], [0, 0, 1, 1], groups=2)
    assert [each.tolist() for each in changes] == [[0.0, -0.1], [0.0, 0.25]]


def test_a_group_too_thin_to_speak_silences_every_contrast() -> None:
    thin = [*samples()[:2], np.array([0.5, 0.4, 0.6, 0.5, 0.45])]
    result = judged(thin)
    assert (result.lo == -np.inf).all()
    assert (result.hi == np.inf).all()
    assert result.verdict.tolist() == ["inconclusive"] * 3
    assert result.p_adjusted.tolist() == result.p_not_worse.tolist() == [1.0] * 3
    assert np.isfinite(judged([*samples()[:2], np.append(thin[2], 0.55)]).lo).all()
    still = judged([np.zeros(5), np.zeros(20)], margin=0.0)
    assert (still.overall, still.lo.tolist(), still.hi.tolist()) == ("pass", [0.0, 0.0], [0.0, 0.0])


def test_sparse_groups_reach_as_far_as_unseen_departures_may() -> None:
    def reach(departing: int, images: int) -> float:
        changes = [np.where(np.arange(images) < departing, 0.5 - np.arange(images) / 100, 0.0), np.zeros(images)]
        return float((judged(changes).hi - judged(changes).delta)[0])

    def unseen(departing: int, images: int) -> float:
        level = 1 - 0.045 / 2 / 2
        shares = [(beta.ppf(level, some + 1, images - some) - some / images) for some in (departing, 0)]
        return 0.5 * 0.5 * sum(shares)

    for departing, images in ((1, 30), (7, 30), (4, 7), (5, 7)):
        assert reach(departing, images) == pytest.approx(unseen(departing, images))
    for departing, images in ((8, 30), (6, 7)):  # no longer sparse
        assert reach(departing, images) != pytest.approx(unseen(departing, images))


def test_groups_that_all_change_by_the_same_differ_by_exactly_nothing() -> None:
    for value in (0.1, 0.7, 1.1):
        result = judged([np.full(size, value) for size in (6, 7, 9)], margin=0.0)
        assert result.delta.tolist() == [0.0, 0.0, 0.0]
        assert not np.signbit(result.delta).any()


def test_labels_of_one_group_alone_lack_the_other_group() -> None:
    with pytest.raises(StatisticsError, match=r"fewer than two images show the groups \[1\]"):
        image_regression([0.1, 0.2], [0.1, 0.2], [0, 0], groups=2, margin=0.1, rng=stream(0))


def test_four_thousand_draws_are_usual() -> None:
    def left(**options: int) -> tuple[float, int]:
        rng = stream(2, "usual")
        values = np.concatenate(samples()[:2])
        labels = np.repeat([0, 1], SIZES[:2])
        result = image_regression(values, values * 0.5, labels, groups=2, margin=0.1, rng=rng, **options)
        return rng.random(), result.draws

    assert left() == left(draws=4000)
    assert left()[1] == 4000


def test_no_image_at_all_lacks_every_group() -> None:
    with pytest.raises(StatisticsError, match=r"fewer than two images show the groups \[0, 1\]"):
        image_regression([], [], np.array([], dtype=int), groups=2, margin=0.1, rng=stream(0))


def test_changes_of_tiny_scores_are_no_rounding() -> None:
    tiny, labels = 1e-20 * np.array([1.0, 2.0, 3.0, 5.0]), np.array([0, 1, 0, 1])
    expected = 1e-20 * np.array([[1.0, 3.0], [2.0, 5.0]])
    np.testing.assert_allclose(image_changes(tiny, 0 * tiny, labels, groups=2), expected)
    np.testing.assert_allclose(image_changes(0 * tiny, tiny, labels, groups=2), -expected)


@pytest.mark.parametrize("harm", ["lower", "higher", "either"])
def test_no_change_has_no_sign(harm: Harm) -> None:
    scores, labels = np.linspace(0.1, 0.9, 18), np.tile([0, 1, 2], 6)
    result = image_regression(scores, scores, labels, groups=3, margin=0.0, rng=stream(0), harm=harm)
    assert not np.signbit([result.delta, result.lo, result.hi]).any()


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_answers_of_many_groups_are_counted_whatever_the_type_of_their_codes(kind: type) -> None:
    labels = np.repeat(np.arange(100), 1000)
    now, before = stream(0, "answers").random((2, labels.size)) < 0.8

    def lowest(codes: np.ndarray) -> list[float]:
        result = image_regression(now, before, codes, groups=100, margin=0.02, rng=stream(1, "draws"), draws=200)
        return result.lo.tolist()

    assert lowest(labels.astype(kind)) == lowest(labels)
