"""`compare_images` on images that depend on each other: a cluster is one unit, a group's mean one of images."""

from __future__ import annotations

import numpy as np
import pytest
from regressions import image_regression

from fairgate.formulas.statistics import Design, compare_images, image_changes
from fairgate.ground.errors import StatisticsError

FIELDS = ("delta", "lo", "hi", "p_adjusted", "n_sets")


def two_groups(units: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    before = rng.uniform(0.5, 0.9, 2 * units)
    return before + rng.normal(0, 0.05, 2 * units), before, np.repeat([0, 1], units)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_of_an_image_in_its_own_cluster_change_no_number(copies: int) -> None:
    now, before, labels = two_groups(60, seed=1)
    once = image_regression(now, before, labels, groups=2, margin=0.02, rng=np.random.default_rng(0))
    often = [np.repeat(column, copies) for column in (now, before, labels, np.arange(labels.size))]
    clustered = image_regression(
        *often[:3], units=often[3], groups=2, margin=0.02, rng=np.random.default_rng(0), draws=4000
    )
    for field in FIELDS:
        np.testing.assert_allclose(getattr(clustered, field), getattr(once, field), rtol=1e-12, err_msg=field)


def test_copies_that_are_taken_for_independent_make_limits_too_narrow() -> None:
    now, before, labels = (np.repeat(column, 4) for column in two_groups(60, seed=1))
    units = np.repeat(np.arange(120), 4)
    widths = []
    for clusters in (units, None):
        got = image_regression(now, before, labels, units=clusters, groups=2, margin=0.02, rng=np.random.default_rng(0))
        widths.append(float((got.hi - got.lo)[0]))
    assert widths[1] / widths[0] == pytest.approx(0.5, abs=0.05)


def test_a_cluster_weighs_as_many_images_as_it_has() -> None:
    changes = image_changes(
        [0.1, 0.3, 0.6, 0.5, 0.7], np.zeros(5), [0, 0, 0, 1, 1], groups=2, units=["a", "a", "b", "c", "d"]
    )
    # two units of 1.5 images on average: 0.4 / 1.5 and 0.6 / 1.5, whose mean is that of three images
    np.testing.assert_allclose(changes[0], [0.4 / 1.5, 0.6 / 1.5])
    assert changes[0].mean() == pytest.approx(1 / 3)
    np.testing.assert_allclose(changes[1], [0.5, 0.7])


def test_clusters_of_many_and_few_images_err_as_a_ratio_of_sums_does() -> None:
    """The candidate's own mean far from 0: what counts is how far the images of a cluster stand from it together."""
    rng, sizes = np.random.default_rng(2), np.tile([1, 2, 5], 10)
    units, labels = np.repeat(np.arange(60), np.tile(sizes, 2)), np.repeat([0, 1], sizes.sum())
    now = 0.7 + rng.normal(0, 0.1, 60)[units] + rng.normal(0, 0.05, units.size)
    design = Design(0.02, 0.05, "lower")
    found = compare_images(now, now - 0.1, labels, units=units, groups=2, design=design, rng=rng, draws=20).gap
    variance = [
        np.var(np.bincount(units[mine] - first, now[mine] - now[mine].mean()) / sizes.mean(), ddof=1) / 30
        for mine, first in ((labels == 0, 0), (labels == 1, 30))
    ]
    assert found is not None
    np.testing.assert_allclose(found.error, np.sqrt(sum(variance) / 4))
    means = [now[labels == group].mean() for group in (0, 1)]
    np.testing.assert_allclose(found.mean, [(means[0] - means[1]) / 2, (means[1] - means[0]) / 2])


def test_a_group_of_one_cluster_cannot_be_compared() -> None:
    with pytest.raises(StatisticsError, match="fewer than two images show the groups"):
        image_changes(np.ones(4), np.zeros(4), [0, 0, 1, 1], groups=2, units=[7, 7, 8, 9])


def test_units_of_another_shape_are_refused() -> None:
    with pytest.raises(StatisticsError, match=r"and \(4,\), units \(3,\)\.\n"):
        image_changes(np.ones(4), np.zeros(4), [0, 0, 1, 1], groups=2, units=[7, 7, 8])
