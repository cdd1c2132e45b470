"""A limit lies where the evidence reaches the score that it was asked for: limits and p-values never disagree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fairgate.formulas.statistics import Design, compare_draws, compare_images, image_changes
from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.answers import chance_given_turned
from fairgate.formulas.statistics.family import Evidence

Floats = NDArray[np.float64]
DESIGN = Design(0.1, 0.05, "lower")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_means(table: Floats, farthest: float | None = None) -> Evidence:
    return mean_evidence(table, alpha=0.05, draws=200, rng=rng(), farthest=farthest)


def few(values: list[float], sets: int = 60) -> Floats:
    """Sets that agree but for the first few."""
    return np.append(values, np.zeros(sets - len(values)))


def pair(first: Floats, second: Floats) -> Floats:
    return np.stack([first, np.append(second, np.full(len(first) - len(second), np.nan))], axis=1)


def many() -> Evidence:
    return of_means(rng(1).gamma(2.0, 0.1, (60, 2)))


def hidden() -> Evidence:
    return of_means(pair(few([0.3, -0.2, 0.1]), few([-0.4, -0.5], sets=40)))


def hidden_beside_many() -> Evidence:
    return of_means(np.stack([few([0.3, -0.2, 0.1]), rng(1).gamma(2.0, 0.1, 60)], axis=1))


def answers() -> Evidence:
    return of_means(pair(few([-1.0] * 4 + [1.0]), few([1.0] * 3 + [-1.0], sets=40)))


def bounded() -> Evidence:
    return of_means(pair(few([-0.25, -0.5, 0.25]), few([0.75, 0.5], sets=40)), farthest=1.0)


def resamples() -> Evidence:
    draws = rng(1).normal(0.0, [0.1, 0.2], (200, 2))
    return compare_draws([0.1, -0.2], draws + np.array([0.1, -0.2]), n_sets=60, design=DESIGN).evidence


def images(sparse: bool = False) -> Evidence:
    labels = np.repeat([0, 1, 2], [40, 50, 60])
    before = rng(1).normal(0.5, 0.1, 150)
    after = before + rng(2).gamma(2.0, 0.05, 150)
    if sparse:
        after[labels == 1] = before[labels == 1]
        after[[45, 60]] += 0.2
    return compare_images(after, before, labels, groups=3, design=DESIGN, rng=rng(), draws=200).evidence


def sparse_images() -> Evidence:
    return images(sparse=True)


@pytest.mark.parametrize("z", [0.5, 1.64, 2.5])
@pytest.mark.parametrize(
    ("evidence", "within"),
    [
        (many, 1e-9),
        (hidden, 1e-6),
        (hidden_beside_many, 1e-6),
        (answers, 0.03),
        (bounded, 0.03),
        (resamples, 1e-9),
        (images, 1e-9),
        (sparse_images, 0.08),
    ],
)
def test_the_score_at_a_limit_is_the_one_that_the_limit_is_for(
    evidence: Callable[[], Evidence], within: float, z: float
) -> None:
    of = evidence()
    for side, direction in ((of.over, -1.0), (of.under, 1.0)):
        reach = side.reach(z)
        assert (reach > 0).all()
        at_limit = [side.z(float(bound))[group] for group, bound in enumerate(of.mean + direction * reach)]
        assert at_limit == pytest.approx([z] * of.mean.size, abs=within)


def test_groups_of_answers_on_images_of_their_own_are_held_against_the_chance_of_such_a_p() -> None:
    """Every set holds one group alone: the first has 4 lost of 30, the second 2 lost and 1 won of 40."""
    table = np.full((70, 2), np.nan)
    table[:30, 0], table[30:, 1] = few([-1.0] * 4, 30), few([-1.0, -1.0, 1.0], 40)
    evidence = of_means(table)
    for side in (evidence.under, evidence.over):
        assert side.rival is not None
        for p in (0.03, 0.3):
            assert side.rival(0.0, p).tolist() == [chance_given_turned(4, 30, p), chance_given_turned(3, 40, p)]
        assert side.rival(0.1, 0.03).tolist() == [0.03, 0.03]
    assert of_means(pair(few([-1.0] * 4), few([-1.0] * 4))).under.rival is None


def test_the_gap_of_images_in_sets_is_that_of_all_images_however_large_the_sets_are() -> None:
    sizes = np.array([1, 3, 2, 5, 1, 4, 2, 2])
    units = np.repeat(np.arange(8), sizes)
    labels = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], sizes)
    before, after = rng(1).normal(0.5, 0.1, (2, 20))
    got = compare_images(after, before, labels, groups=2, design=DESIGN, rng=rng(), draws=50, units=units)
    assert got.gap is not None
    for of, values in ((got.gap, after), (got.evidence, after - before)):
        means = np.array([values[labels == group].mean() for group in range(2)])
        assert of.mean.tolist() == pytest.approx((means - means.mean()).tolist())


def test_changes_of_images_that_are_rounding_are_exactly_0_and_larger_ones_are_kept() -> None:
    before = np.array([0.1, 0.2, 0.3, 0.7])
    after = before + np.array([1e-16, -1e-16, 1e-9, 0.0])
    changes = image_changes(after, before, np.array([0, 0, 1, 1]), groups=2)
    assert changes[0].tolist() == [0.0, 0.0]
    assert changes[1].tolist() == pytest.approx([1e-9, 0.0])
    opposite = image_changes(-before, before, np.array([0, 0, 1, 1]), groups=2)
    assert opposite[0].tolist() == [-0.2, -0.4]


@pytest.mark.parametrize(
    ("departing", "images", "resampled"), [(7, 20, False), (8, 20, True), (6, 7, True), (5, 7, False)]
)
def test_a_group_is_resampled_if_8_images_depart_or_all_differ(departing: int, images: int, resampled: bool) -> None:
    """Of `images`, so many changed, each by an amount of its own; the other group is resampled either way."""
    changes = np.append(rng(1).uniform(0.1, 0.2, departing), np.zeros(images - departing))
    after = np.append(changes, rng(2).normal(0, 0.1, 30))
    labels = np.repeat([0, 1], [images, 30])
    got = compare_images(after, np.zeros(len(after)), labels, groups=2, design=DESIGN, rng=rng(), draws=50)
    assert got.evidence.under.columns.tolist() == ([0, 1] if resampled else [])
    table = np.full((max(images, 30), 2), np.nan)
    table[:images, 0], table[:30, 1] = changes, after[images:]
    assert of_means(table).under.columns.tolist() == ([0, 1] if resampled else [1])


def test_a_resample_that_lacks_a_group_says_that_anything_is_possible_and_too_many_of_them_nothing() -> None:
    """7 of 20 sets hold the second group: 0.2% of the resamples have no two of them; of 5 sets, 2.4%."""
    table = rng(1).normal(0, 0.1, (20, 2))
    for sets, judged in ((7, True), (5, False)):
        table[:, 1] = np.append(rng(2).normal(0, 0.1, sets), np.full(20 - sets, np.nan))
        evidence = mean_evidence(table, alpha=0.2, draws=4000, rng=rng(3))
        assert evidence.judged.tolist() == [True, judged]
        for side in (evidence.under, evidence.over):
            assert side.columns.tolist() == ([0, 1] if judged else [0])
            assert not np.isnan(side.drawn).any()
            assert (np.isinf(side.drawn).mean(axis=0) > 0).tolist() == ([False, True] if judged else [False])
            assert (side.direction * side.drawn[np.isinf(side.drawn)] > 0).all()
