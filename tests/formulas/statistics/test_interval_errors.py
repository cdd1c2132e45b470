"""What intervals of extremes refuse, with the remedy of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.statistics import divergence_interval, extreme_interval, median_interval, skew_interval
from fairgate.ground.errors import StatisticsError

TWO = np.array([0.25, 0.5])
DRAWS = np.tile(TWO, (4, 1)) + np.array([[0.0], [0.125], [0.0], [-0.125]])
SHAPES = "pass (groups,) with (draws, groups), or (subjects, groups) with (draws, subjects, groups); max or min"
ALPHA = "choose alpha between 0 and 1"
MEDIAN = "pass one finite value per set, and alpha between 0 and 1"
NDKL = "pass NDKL's draws"


def extreme(estimates: Any = TWO, draws: Any = DRAWS, n_sets: Any = 9, **more: Any) -> Any:
    return lambda: extreme_interval(estimates, draws, n_sets=n_sets, **more)


def divergence(estimates: Any = 0.1, draws: Any = (0.1, 0.2), **more: Any) -> Any:
    return lambda: divergence_interval(estimates, np.array(draws), k=20, shown=[10, 10], images=[40, 40], **more)


REFUSALS = {
    "draws of other groups": Refusal(extreme(draws=DRAWS[:, :1]), SHAPES),
    "one draw": Refusal(extreme(draws=DRAWS[:1]), SHAPES),
    "no group": Refusal(extreme([], np.zeros((4, 0))), SHAPES),
    "three axes": Refusal(extreme([[TWO]], DRAWS[:, None, None]), SHAPES),
    "sets of other subjects": Refusal(extreme(n_sets=[9, 9]), SHAPES),
    "attributes of other groups": Refusal(extreme(attribute=[0]), SHAPES),
    "names of other groups": Refusal(extreme(names=["a"]), SHAPES),
    "neither extreme": Refusal(extreme(which="most"), SHAPES),
    "alpha of 0": Refusal(extreme(alpha=0.0), ALPHA),
    "alpha of 1": Refusal(extreme(alpha=1.0), ALPHA),
    "an estimate not finite": Refusal(extreme([0.5, -np.inf]), "for skews, which may be -inf, use skew_interval"),
    "a share above 1": Refusal(extreme([0.5, 1.25], trials=9), "leave out `trials` for means"),
    "a share below 0": Refusal(extreme([0.5, -0.25], trials=9), "leave out `trials` for means"),
    "shares of no trial": Refusal(extreme(trials=[9, 0]), "leave out `trials` for means"),
    "a median of values not finite": Refusal(lambda: median_interval([0.1, np.inf, np.nan]), MEDIAN),
    "a median of two axes": Refusal(lambda: median_interval([[0.1, 0.2]]), MEDIAN),
    "a median of one number": Refusal(lambda: median_interval(0.5), MEDIAN),
    "a median at alpha 0": Refusal(lambda: median_interval([0.1], alpha=0.0), MEDIAN),
    "a median at alpha 1": Refusal(lambda: median_interval([0.1], alpha=1.0), MEDIAN),
    "a skew above the possible": Refusal(
        lambda: skew_interval([0.7, 0.0], DRAWS, k=4, images=[10, 10], n_sets=9),
        "pass skews, k and images of one gallery",
    ),
    "a skew that is no number": Refusal(
        lambda: skew_interval([np.nan, 0.0], DRAWS, k=4, images=[10, 10], n_sets=9),
        "pass skews, k and images of one gallery",
    ),
    "an alpha above 1 for divergence": Refusal(divergence(alpha=1.5), ALPHA),
    "draws of other attributes": Refusal(divergence([0.1, 0.1]), NDKL),
    "a divergence by subject": Refusal(divergence([[0.1]], [[[0.1]]] * 2), NDKL),
    "a divergence not finite": Refusal(divergence(np.inf), NDKL),
    "a drawn divergence not finite": Refusal(divergence(draws=(0.1, np.nan)), NDKL),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_can_have_no_interval_is_refused(name: str) -> None:
    check(REFUSALS[name], StatisticsError)
