"""Intervals of Bias@K, entropy and C-ASC hold the truth as often as they say, where two groups differ and where not."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.statistics import set_counts
from fairgate.metrics import Cell, measure
from fairgate.probes import ProbeScores
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check

SETS, ENDLESS, GALLERIES = 120, 20_000, 80


def planned(metric: str, k: int) -> PlannedCheck:
    rule = {"at_least": 0.5} if metric.startswith("normalized") else {"at_most": 0.5}
    cut = {} if metric == "c_asc" else {"k": k}
    check = Check.model_validate({"id": "x", "probe": "p", "metric": metric, "over": "gender", **rule, **cut})
    return PlannedCheck(check, None, (("gender",),), "here")


def cell(sets: int) -> Cell:
    rows = np.arange(2 * sets)
    groups = ((np.tile([0, 1], sets)),)
    subject = np.full(rows.size, "doctor", dtype=object)
    return Cell(rows, np.repeat(np.arange(sets), 2), np.arange(sets), subject, groups, (("male", "female"),))


@pytest.mark.parametrize("metric", ["bias_at_k", "normalized_entropy_at_k", "c_asc"])
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_interval_covers(metric: str, shift: float) -> None:
    rng = np.random.default_rng(7)

    def gallery(sets: int) -> ProbeScores:
        scene, own = rng.normal(size=(sets, 1)), rng.normal(size=(sets, 2))
        return ProbeScores((scene + own + shift * np.array([-1, 1])).ravel())

    k = SETS // 2
    check, small = planned(metric, k), cell(SETS)
    truth = measure(planned(metric, k * ENDLESS // SETS).request(), cell(ENDLESS), [gallery(ENDLESS)]).value
    if metric.startswith("normalized"):  # for galleries of this size
        truth = float(np.mean([measure(check.request(), small, [gallery(SETS)]).value for _ in range(300)]))
    covered = 0
    for _ in range(GALLERIES):
        now = measure(check.request(), small, [gallery(SETS)])
        limits = check.metric.interval(check.request(), small, now, now.draw(set_counts(SETS, 500, rng)), 0.05)
        assert limits.lo is not None, limits.how
        assert limits.hi is not None
        covered += limits.lo - 0.01 <= truth <= limits.hi + 0.01
    assert covered >= 0.9 * GALLERIES
