"""What the tests of regressions, and their power, refuse: problem, place and remedy to the letter."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.errors import StatisticsError
from fairgate.randomness import stream
from fairgate.statistics import (
    image_changes,
    paired_statistic_test,
    paired_test,
    power,
    power_of_draws,
    power_of_images,
)

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


REFUSALS = {
    "the power of one group of images": Refusal(
        lambda: power_of_images([RUN[:, 0]], margin=0.1, rng=rng()),
        "the changes of 1 groups are no samples of images.",
        "power_of_images",
        SAMPLES,
    ),
    "the power of a group of one image": Refusal(
        lambda: power_of_images([RUN[:, 0], [0.1]], margin=0.1, rng=rng()),
        "the changes of 2 groups are no samples of images.",
        "power_of_images",
        SAMPLES,
    ),
    "the power of a table of images": Refusal(
        lambda: power_of_images([RUN[:, 0], RUN], margin=0.1, rng=rng()),
        "the changes of 2 groups are no samples of images.",
        "power_of_images",
        SAMPLES,
    ),
    "the power of changes without end": Refusal(
        lambda: power_of_images([RUN[:, 0], [0.1, np.inf]], margin=0.1, rng=rng()),
        "the changes of 2 groups are no samples of images.",
        "power_of_images",
        SAMPLES,
    ),
    "the power of images that all moved alike": Refusal(
        lambda: power_of_images([np.full(9, 0.5), np.full(7, 0.25)], margin=0.1, rng=rng()),
        "the differences do not vary from image to image.",
        "power",
        TWO_CHECKPOINTS,
    ),
    "the power of images of which hardly one moved": Refusal(
        lambda: power_of_images([np.arange(12.0), np.append(np.zeros(8), np.arange(1.0, 8.0))], margin=0.1, rng=rng()),
        "only 7 images of group 1 changed unlike the others: its noise is unseen.",
        "power",
        TWO_CHECKPOINTS,
    ),
    "a margin below 0": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=-0.1, rng=rng()),
        "margin -0.1, alpha 0.05 and harm 'lower' are no design of a test.",
        "paired test",
        DESIGN,
    ),
    "a margin without end": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=np.inf, rng=rng()),
        "margin inf, alpha 0.05 and harm 'lower' are no design of a test.",
        "paired test",
        DESIGN,
    ),
    "an alpha of 0": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), alpha=0.0),
        "margin 0.1, alpha 0.0 and harm 'lower' are no design of a test.",
        "paired test",
        DESIGN,
    ),
    "an alpha of 1": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), alpha=1.0),
        "margin 0.1, alpha 1.0 and harm 'lower' are no design of a test.",
        "paired test",
        DESIGN,
    ),
    "an unknown harm": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, 0.2], margin=0.1, rng=rng(), harm="both"),
        "margin 0.1, alpha 0.05 and harm 'both' are no design of a test.",
        "paired test",
        DESIGN,
    ),
    "runs of other sets": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1], margin=0.1, rng=rng()),
        "the candidate's values have shape (2,), the baseline's (1,).",
        "paired test",
        RUNS,
    ),
    "runs of three axes": Refusal(
        lambda: paired_test(np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), margin=0.1, rng=rng()),
        "the candidate's values have shape (2, 2, 2), the baseline's (2, 2, 2).",
        "paired test",
        RUNS,
    ),
    "runs of nothing": Refusal(
        lambda: paired_test([], [], margin=0.1, rng=rng()),
        "the candidate's values have shape (0,), the baseline's (0,).",
        "paired test",
        RUNS,
    ),
    "a gap in one run": Refusal(
        lambda: paired_test([0.1, 0.2, np.nan], [0.1, 0.2, 0.3], margin=0.1, rng=rng()),
        "the two runs do not lack the same groups in the same sets, or hold infinite values.",
        "paired test: first in set 2",
        SAME_GAPS,
    ),
    "an infinite value before": Refusal(
        lambda: paired_test([0.1, 0.2], [0.1, np.inf], margin=0.1, rng=rng()),
        "the two runs do not lack the same groups in the same sets, or hold infinite values.",
        "paired test: first in set 1",
        SAME_GAPS,
    ),
    "an infinite value after": Refusal(
        lambda: paired_test([-np.inf, 0.2], [0.1, 0.2], margin=0.1, rng=rng()),
        "the two runs do not lack the same groups in the same sets, or hold infinite values.",
        "paired test: first in set 0",
        SAME_GAPS,
    ),
    "a group of one set": Refusal(
        lambda: paired_test([[0.1, 0.2], [0.1, np.nan]], [[0.1, 0.2], [0.1, np.nan]], margin=0.1, rng=rng()),
        "fewer than two sets hold the groups [1].",
        "paired test",
        "leave out groups below the suite's min_sets, and report them as not tested",
    ),
    "too few draws for alpha": Refusal(
        lambda: paired_test(RUN, np.zeros((6, 2)), margin=0.1, rng=rng(), draws=20),
        "20 draws cannot show a level of 0.045.",
        "draws",
        "take at least 23 draws",
    ),
    "too few draws of a statistic": Refusal(
        lambda: paired_statistic_test([0.0, 0.0], np.zeros((21, 2)), n_sets=9, margin=0.1),
        "21 draws cannot show a level of 0.045.",
        "draws",
        "take at least 23 draws",
    ),
    "a draw not finite": Refusal(
        lambda: paired_statistic_test(0.0, [0.0] * 99 + [np.inf], n_sets=9, margin=0.1),
        "1 of 100 drawn differences, of shape (100, 1), are not finite or do not fit estimates of shape (1,).",
        "delta_draws",
        DRAWS,
    ),
    "an estimate not finite": Refusal(
        lambda: paired_statistic_test(np.nan, [0.0] * 100, n_sets=9, margin=0.1),
        "0 of 100 drawn differences, of shape (100, 1), are not finite or do not fit estimates of shape (1,).",
        "delta_draws",
        DRAWS,
    ),
    "draws of other groups": Refusal(
        lambda: paired_statistic_test([0.0, 0.0], np.zeros((100, 3)), n_sets=9, margin=0.1),
        "0 of 300 drawn differences, of shape (100, 3), are not finite or do not fit estimates of shape (2,).",
        "delta_draws",
        DRAWS,
    ),
    "images of one run alone": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1], np.array([0, 1]), groups=2),
        "candidate, baseline and labels have shapes (2,), (1,) and (2,).",
        "image_changes",
        IMAGES,
    ),
    "labels of other images": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0]), groups=2),
        "candidate, baseline and labels have shapes (2,), (2,) and (1,).",
        "image_changes",
        IMAGES,
    ),
    "images of two axes": Refusal(
        lambda: image_changes([[0.1, 0.2]], [[0.1, 0.2]], np.array([[0, 1]]), groups=2),
        "candidate, baseline and labels have shapes (1, 2), (1, 2) and (1, 2).",
        "image_changes",
        IMAGES,
    ),
    "an image without a score": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, np.nan], np.array([0, 1]), groups=2),
        "1 of 2 images have no finite score.",
        "image_changes: first in image 1",
        "score both runs on the same images; drop images without a score from both, and count them",
    ),
    "a label of no group": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, 2]), groups=2),
        "labels of type int64 do not name 2 groups.",
        "image_changes",
        LABELS,
    ),
    "a label below unknown": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, -2]), groups=2),
        "labels of type int64 do not name 2 groups.",
        "image_changes",
        LABELS,
    ),
    "labels that are shares": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0.0, 1.0]), groups=2),
        "labels of type float64 do not name 2 groups.",
        "image_changes",
        LABELS,
    ),
    "images of one group": Refusal(
        lambda: image_changes([0.1, 0.2], [0.1, 0.2], np.array([0, 0]), groups=1),
        "labels of type int64 do not name 1 groups.",
        "image_changes",
        LABELS,
    ),
    "a group of one image": Refusal(
        lambda: image_changes([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], np.array([0, 0, 1]), groups=2),
        "fewer than two images show the groups [1].",
        "image_changes",
        "leave out groups below the suite's min_sets (label their images -1), and report them as not tested",
    ),
    "odds under a half": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng(), odds=0.4),
        "odds 0.4 and a wanted regression of None are no question to a test.",
        "power",
        ODDS,
    ),
    "certain odds": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng(), odds=1.0),
        "odds 1.0 and a wanted regression of None are no question to a test.",
        "power",
        ODDS,
    ),
    "nothing wanted": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng(), wanted=0.0),
        "odds 0.8 and a wanted regression of 0.0 are no question to a test.",
        "power",
        ODDS,
    ),
    "an endless wish": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng(), wanted=np.inf),
        "odds 0.8 and a wanted regression of inf are no question to a test.",
        "power",
        ODDS,
    ),
    "a curve of one set": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng()).at([2, 1]),
        "[2, 1] are no numbers of sets.",
        "Power.at",
        "give whole numbers from 2",
    ),
    "a curve of half sets": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng()).at(2.5),
        "2.5 are no numbers of sets.",
        "Power.at",
        "give whole numbers from 2",
    ),
    "a curve of two axes": Refusal(
        lambda: power(RUN, margin=0.1, rng=rng()).at([[2]]),
        "[[2]] are no numbers of sets.",
        "Power.at",
        "give whole numbers from 2",
    ),
    "differences that do not vary": Refusal(
        lambda: power(np.full(9, 0.1), margin=0.1, rng=rng()),
        "the differences do not vary from set to set.",
        "power",
        TWO_CHECKPOINTS,
    ),
    "draws that do not vary": Refusal(
        lambda: power_of_draws(0.1, np.full(100, 0.1), n_sets=9, margin=0.1),
        "the drawn differences do not vary.",
        "power",
        TWO_CHECKPOINTS,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_judged_is_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
