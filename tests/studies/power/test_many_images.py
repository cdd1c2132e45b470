"""Harmless changes of many images: each is decided once, and its numbers are moved by normal errors."""

from __future__ import annotations

import numpy as np
import pytest
from example_records import example_record, gap_check

from fairgate.records import CheckResult, GroupResult
from fairgate.studies.power.harmless import harm_of, moved
from fairgate.suites import Suite

SUITE = Suite.model_construct(decision=example_record().decision)  # type: ignore[arg-type]


def compared(loss: float, limit: float, groups: int = 4, margin: float = 0.05) -> CheckResult:
    """Every group fell by `loss`, and by at most `limit`."""
    each = GroupResult(group="g", delta=-loss, delta_lo=-limit, delta_hi=limit - 2 * loss, n_images=50, n_sets=50)
    own = [each.model_copy(update={"group": f"g{at}"}) for at in range(groups)]
    update = {"groups": own, "bound": margin, "better": "higher", "min_sets": 30}
    return gap_check("doctor", "pass").model_copy(update=update)


@pytest.mark.parametrize(("limit", "least", "most"), [(0.02, 1.0, 1.0), (0.05, 0.0, 0.2), (0.09, 0.0, 0.0)])
def test_a_change_passes_as_often_as_its_limits_are_within_the_margin(limit: float, least: float, most: float) -> None:
    rng = np.random.default_rng(0)
    runs = [moved(compared(0.0, limit), SUITE, rng) for _ in range(300)]
    assert least <= np.mean([run.verdict == "pass" for run in runs]) <= most


def test_numbers_depart_by_the_standard_error_that_their_limits_tell() -> None:
    rng = np.random.default_rng(0)
    runs = [moved(compared(0.01, 0.01 + 0.02 * 1.645, groups=1), SUITE, rng) for _ in range(2000)]
    harms = [harm for run in runs if (harm := harm_of(run, run.groups[0])) is not None]
    assert np.mean([harm.loss for harm in harms]) == pytest.approx(0.01, abs=0.002)
    assert np.std([harm.loss for harm in harms]) == pytest.approx(0.02, rel=0.05)
    assert {round(harm.limit - harm.loss, 6) for harm in harms} == {round(0.02 * 1.645, 6)}


def test_a_group_without_a_limit_or_with_too_few_images_passes_nothing() -> None:
    check, rng = compared(0.0, 0.001), np.random.default_rng(0)
    for change in ({"delta_lo": None}, {"n_sets": 12}):
        groups = [check.groups[0].model_copy(update=change), *check.groups[1:]]
        assert moved(check.model_copy(update={"groups": groups}), SUITE, rng).verdict == "inconclusive"
