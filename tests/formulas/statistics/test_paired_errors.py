"""What the tests of regressions, and their power, refuse, with the remedy of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.statistics import (
    Design,
    Entries,
    compare_means,
    image_changes,
    paired_statistic_test,
    paired_test,
)
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

RUN = np.arange(12.0).reshape(6, 2) ** 1.5

DESIGN = "give a margin of at least 0 in the metric's unit, alpha between 0 and 1, harm lower, higher or either"
RUNS = "pass (sets,) or (sets, groups) over the sets that both runs scored, in the same order"
SAME_GAPS = "score both runs on the same images; NaN may stand only for a group that a set does not have"
DRAWS = "give finite draws (draws, groups); for MinSkew choose a k that shows every group, or another zero"
IMAGES = "pass (images,) each, over the images that both runs scored, in the same order"
LABELS = "pass whole numbers 0..groups-1, -1 for unknown, and at least two groups"
SAMPLES = "give two groups or more, each with the finite changes (images,) of at least two images"
ODDS = "give odds from 0.5 to under 1, and the size of a regression, above 0, in the metric's unit"
TWO_CHECKPOINTS = (
    "compare two different checkpoints, for example two seeds of one training run: their differences show how "
    "much chance moves the scores"
)


def rng() -> np.random.Generator:
    return stream(0, "refused")


def of_means(now: Any, before: Any) -> object:
    return compare_means(now, before, design=Design(0.1, 0.05, "lower"), rng=rng(), draws=100)


REFUSALS = {
    "a margin below 0": Refusal(lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=-0.1, rng=rng()), DESIGN),
    "a margin without end": Refusal(lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=np.inf, rng=rng()), DESIGN),
    "an alpha of 0": Refusal(lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), alpha=0.0), DESIGN),
    "an alpha of 1": Refusal(lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), alpha=1.0), DESIGN),
    "an unknown harm": Refusal(lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), harm="both"), DESIGN),
    "runs of other sets": Refusal(lambda: paired_test([0.1, 0.2], [0.1], margin=0.1, rng=rng()), RUNS),
    "runs of three axes": Refusal(
        lambda: paired_test(np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), margin=0.1, rng=rng()), RUNS
    ),
    "a list of other sets than the table": Refusal(lambda: of_means(RUN[:5], Entries.of(RUN)), RUNS),
    "runs of nothing": Refusal(lambda: paired_test([], [], margin=0.1, rng=rng()), RUNS),
    "a gap in one run": Refusal(
        lambda: paired_test([0.1, 0.2, np.nan], [0.1, 0.2, 0.3], margin=0.1, rng=rng()), SAME_GAPS
    ),
    "an infinite value before": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, np.inf], margin=0.1, rng=rng()), SAME_GAPS
    ),
    "an infinite value after": Refusal(
        lambda: paired_test([-np.inf, 0.2], [0.1, 0.2], margin=0.1, rng=rng()), SAME_GAPS
    ),
    "a group of one set": Refusal(
        lambda: paired_test([[0.1, 0.2], [0.1, np.nan]], [[0.1, 0.2], [0.1, np.nan]], margin=0.1, rng=rng()),
        "leave out groups below the suite's min_sets, and report them as not tested",
    ),
    "too few draws for alpha": Refusal(
        lambda: paired_test(RUN, np.zeros((6, 2)), margin=0.1, rng=rng(), draws=20), "take at least 23 draws"
    ),
    "too few draws of a statistic": Refusal(
        lambda: paired_statistic_test([0.0, 0.0], np.zeros((21, 2)), n_sets=9, margin=0.1), "take at least 23 draws"
    ),
    "a draw not finite": Refusal(
        lambda: paired_statistic_test(0.0, [0.0] * 99 + [np.inf], n_sets=9, margin=0.1), DRAWS
    ),
    "an estimate not finite": Refusal(lambda: paired_statistic_test(np.nan, [0.0] * 100, n_sets=9, margin=0.1), DRAWS),
    "draws of other groups": Refusal(
        lambda: paired_statistic_test([0.0, 0.0], np.zeros((100, 3)), n_sets=9, margin=0.1), DRAWS
    ),
    "images of one run alone": Refusal(lambda: image_changes([0.1, 0.2], [0.1], np.array([0, 1]), groups=2), IMAGES),
    "labels of other images": Refusal(lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0]), groups=2), IMAGES),
    "images of two axes": Refusal(
        lambda: image_changes([[0.1, 0.2]], [[0.1, 0.2]], np.array([[0, 1]]), groups=2), IMAGES
    ),
    "an image without a score": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, np.nan], np.array([0, 1]), groups=2),
        "score both runs on the same images; drop images without a score from both, and count them",
    ),
    "a label of no group": Refusal(lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, 2]), groups=2), LABELS),
    "a label below unknown": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, -2]), groups=2), LABELS
    ),
    "labels that are shares": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0.0, 1.0]), groups=2), LABELS
    ),
    "images of one group": Refusal(lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, 0]), groups=1), LABELS),
    "a group of one image": Refusal(
        lambda: image_changes([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], np.array([0, 0, 1]), groups=2),
        "leave out groups below the suite's min_sets (label their images -1), and report them as not tested",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_judged_is_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
