"""What intervals of extremes refuse: problem, place and remedy to the letter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.errors import StatisticsError
from fairgate.statistics import divergence_interval, extreme_interval, median_interval, skew_interval

TWO = np.array([0.25, 0.5])
DRAWS = np.tile(TWO, (4, 1)) + np.array([[0.0], [0.125], [0.0], [-0.125]])
WHERE = "interval of an extreme"
SHAPES = "pass (groups,) with (draws, groups), or (subjects, groups) with (draws, subjects, groups); max or min"
ALPHA = "choose alpha between 0 and 1"
MEDIAN = "pass one finite value per set, and alpha between 0 and 1"
NDKL = "pass NDKL's draws"


def misfit(estimates: str, draws: str, *, rest: str = "n_sets (), attribute (2,), 2 names and which='max'") -> str:
    return f"estimates {estimates}, draws {draws}, {rest} do not fit."


def extreme(estimates: Any = TWO, draws: Any = DRAWS, n_sets: Any = 9, **more: Any) -> Any:
    return lambda: extreme_interval(estimates, draws, n_sets=n_sets, **more)


def divergence(estimates: Any = 0.1, draws: Any = (0.1, 0.2), **more: Any) -> Any:
    return lambda: divergence_interval(estimates, np.array(draws), k=20, shown=[10, 10], images=[40, 40], **more)


REFUSALS = {
    "draws of other groups": Refusal(extreme(draws=DRAWS[:, :1]), misfit("(2,)", "(4, 1)"), WHERE, SHAPES),
    "one draw": Refusal(extreme(draws=DRAWS[:1]), misfit("(2,)", "(1, 2)"), WHERE, SHAPES),
    "no group": Refusal(
        extreme([], np.zeros((4, 0))),
        misfit("(0,)", "(4, 0)", rest="n_sets (), attribute (0,), 0 names and which='max'"),
        WHERE,
        SHAPES,
    ),
    "three axes": Refusal(
        extreme([[TWO]], DRAWS[:, None, None]),
        misfit("(1, 1, 2)", "(4, 1, 1, 2)", rest="n_sets (), attribute (0,), 0 names and which='max'"),
        WHERE,
        SHAPES,
    ),
    "sets of other subjects": Refusal(
        extreme(n_sets=[9, 9]),
        misfit("(2,)", "(4, 2)", rest="n_sets (2,), attribute (2,), 2 names and which='max'"),
        WHERE,
        SHAPES,
    ),
    "attributes of other groups": Refusal(
        extreme(attribute=[0]),
        misfit("(2,)", "(4, 2)", rest="n_sets (), attribute (1,), 2 names and which='max'"),
        WHERE,
        SHAPES,
    ),
    "names of other groups": Refusal(
        extreme(names=["a"]),
        misfit("(2,)", "(4, 2)", rest="n_sets (), attribute (2,), 1 names and which='max'"),
        WHERE,
        SHAPES,
    ),
    "neither extreme": Refusal(
        extreme(which="most"),
        misfit("(2,)", "(4, 2)", rest="n_sets (), attribute (2,), 2 names and which='most'"),
        WHERE,
        SHAPES,
    ),
    "alpha of 0": Refusal(extreme(alpha=0.0), "alpha is 0.0.", WHERE, ALPHA),
    "alpha of 1": Refusal(extreme(alpha=1.0), "alpha is 1.0.", WHERE, ALPHA),
    "an estimate not finite": Refusal(
        extreme([0.5, -np.inf]),
        "estimates are not all finite.",
        WHERE,
        "for skews, which may be -inf, use skew_interval",
    ),
    "a share above 1": Refusal(
        extreme([0.5, 1.25], trials=9),
        "estimates are not shares 0..1 of one trial or more.",
        WHERE,
        "leave out `trials` for means",
    ),
    "a share below 0": Refusal(
        extreme([0.5, -0.25], trials=9),
        "estimates are not shares 0..1 of one trial or more.",
        WHERE,
        "leave out `trials` for means",
    ),
    "shares of no trial": Refusal(
        extreme(trials=[9, 0]),
        "estimates are not shares 0..1 of one trial or more.",
        WHERE,
        "leave out `trials` for means",
    ),
    "a median of values not finite": Refusal(
        lambda: median_interval([0.1, np.inf, np.nan]),
        "values (3,), 2 of them not finite, and alpha 0.05 make no interval.",
        "median_interval",
        MEDIAN,
    ),
    "a median of two axes": Refusal(
        lambda: median_interval([[0.1, 0.2]]),
        "values (1, 2), 0 of them not finite, and alpha 0.05 make no interval.",
        "median_interval",
        MEDIAN,
    ),
    "a median of one number": Refusal(
        lambda: median_interval(0.5),
        "values (), 0 of them not finite, and alpha 0.05 make no interval.",
        "median_interval",
        MEDIAN,
    ),
    "a median at alpha 0": Refusal(
        lambda: median_interval([0.1], alpha=0.0),
        "values (1,), 0 of them not finite, and alpha 0.0 make no interval.",
        "median_interval",
        MEDIAN,
    ),
    "a median at alpha 1": Refusal(
        lambda: median_interval([0.1], alpha=1.0),
        "values (1,), 0 of them not finite, and alpha 1.0 make no interval.",
        "median_interval",
        MEDIAN,
    ),
    "a skew above the possible": Refusal(
        lambda: skew_interval([0.7, 0.0], DRAWS, k=4, images=[10, 10], n_sets=9),
        "skews are no numbers, or above those of a top 4.",
        WHERE,
        "pass skews, k and images of one gallery",
    ),
    "a skew that is no number": Refusal(
        lambda: skew_interval([np.nan, 0.0], DRAWS, k=4, images=[10, 10], n_sets=9),
        "skews are no numbers, or above those of a top 4.",
        WHERE,
        "pass skews, k and images of one gallery",
    ),
    "an alpha above 1 for divergence": Refusal(divergence(alpha=1.5), "alpha is 1.5.", WHERE, ALPHA),
    "draws of other attributes": Refusal(
        divergence([0.1, 0.1]), "draws (2, 1) do not fit estimates (2,), or are not finite.", WHERE, NDKL
    ),
    "a divergence by subject": Refusal(
        divergence([[0.1]], [[[0.1]]] * 2),
        "draws (2, 1, 1) do not fit estimates (1, 1), or are not finite.",
        WHERE,
        NDKL,
    ),
    "a divergence not finite": Refusal(
        divergence(np.inf), "draws (2, 1) do not fit estimates (1,), or are not finite.", WHERE, NDKL
    ),
    "a drawn divergence not finite": Refusal(
        divergence(draws=(0.1, np.nan)), "draws (2, 1) do not fit estimates (1,), or are not finite.", WHERE, NDKL
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_can_have_no_interval_is_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
