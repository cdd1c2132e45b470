"""A regression of P(true) is decided at the model's own temperature and at the baseline's, and the stricter counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from toy_repository import toy_repository

from fairgate import gate
from fairgate.formulas.statistics import paired_test
from fairgate.ground.randomness import stream
from fairgate.probes import ProbeScores
from fairgate.records import CheckResult
from fairgate.suites import resolve
from fairgate.suites.compare import stricter
from fairgate.suites.deciding import decide


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[gate.Prepared, gate.Scored]:
    prepared = gate.prepare("jobs", toy_repository(tmp_path_factory.mktemp("tempered")).root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"})
    return prepared, gate.score(prepared, settings)


def decided(
    scored: tuple[gate.Prepared, gate.Scored], tempered: Mapping[str, ProbeScores] | None, *, intervals: bool = True
) -> dict[str, CheckResult]:
    prepared, runs = scored
    suite = prepared.loaded.suite
    others, at_theirs = {"baseline": runs.answers[0].others["baseline"]}, {"baseline": tempered or {}}
    results = decide(
        prepared.planned, prepared.dataset.index, suite, runs.scores, others, {}, at_theirs, intervals=intervals
    )
    return {one.item: one for one in results}


def planted(scored: tuple[gate.Prepared, gate.Scored], fall: float) -> dict[str, ProbeScores]:
    """The scores of the labels where one group, dark women, falls."""
    prepared, runs = scored
    codes, names = prepared.dataset.index.codes(("skin_tone", "gender"))
    labels = runs.scores["labels"]
    falls = np.where(np.asarray(codes) == names.index("dark × female"), fall, 0.0)
    return {"labels": replace(labels, value=np.clip(labels.value - falls, 0.0, 1.0))}


def test_a_group_that_falls_only_at_the_baselines_temperature_fails_and_says_so(
    scored: tuple[gate.Prepared, gate.Scored],
) -> None:
    alone, both = decided(scored, None), decided(scored, planted(scored, 0.5))
    for item in ("gaps[chef]", "gaps[doctor]"):
        assert (alone[item].verdict, alone[item].only_tempered) == ("pass", False)
        assert (both[item].verdict, both[item].only_tempered) == ("fail", True)
        assert both[item].worst_group == "dark × female"
        delta, p = both[item].delta, both[item].p_adjusted
        assert delta is not None
        assert p is not None
        assert (delta < -0.3, p <= 0.05) == (True, True)


def test_metrics_that_no_temperature_moves_and_bounds_are_left_alone(
    scored: tuple[gate.Prepared, gate.Scored],
) -> None:
    alone, both = decided(scored, None), decided(scored, planted(scored, 0.5))
    for item in ("useful", "fairness", "fairness-by-job[chef]", "finds"):
        assert both[item].value == alone[item].value
        assert both[item].verdict == alone[item].verdict
        assert not both[item].only_tempered


@pytest.mark.parametrize("fall", [0.0, 0.5])
def test_without_intervals_of_values_every_comparison_and_bound_is_decided_as_with_them(
    scored: tuple[gate.Prepared, gate.Scored], fall: float
) -> None:
    def told(check: CheckResult) -> tuple[object, ...]:
        groups = [(group.group, group.verdict, group.delta, group.delta_lo, group.delta_hi) for group in check.groups]
        return check.verdict, check.delta, check.delta_lo, check.delta_hi, check.p_adjusted, check.sets_needed, groups

    tempered = planted(scored, fall)
    whole, quick = decided(scored, tempered), decided(scored, tempered, intervals=False)
    assert {item: told(check) for item, check in quick.items()} == {item: told(check) for item, check in whole.items()}
    assert {check.lo for check in quick.values() if check.rule == "no_worse_than"} == {None}


def test_the_same_scores_at_both_temperatures_change_no_verdict(scored: tuple[gate.Prepared, gate.Scored]) -> None:
    alone, both = decided(scored, None), decided(scored, dict(scored[1].scores))
    assert {item: one.verdict for item, one in both.items()} == {item: one.verdict for item, one in alone.items()}
    assert not any(one.only_tempered for one in both.values())


def test_each_group_has_the_stricter_of_its_two_comparisons() -> None:
    rng = stream(0, "stricter")
    baseline = rng.normal(0.8, 0.05, (300, 3))
    noise = rng.normal(0.0, 0.02, (300, 3))
    own, tempered = (
        paired_test(baseline + noise + np.array(moved), baseline, margin=0.02, rng=stream(1, "test"))
        for moved in ((-0.1, 0.0, 0.0), (0.0, 0.0, -0.1))
    )
    assert own.verdict.tolist() == ["fail", "pass", "pass"]
    merged, only_tempered = stricter(own, tempered)
    assert merged.verdict.tolist() == ["fail", "pass", "fail"]
    assert merged.overall == "fail"
    assert not only_tempered  # it fails at its own temperature, too
    np.testing.assert_array_equal(merged.delta, [own.delta[0], own.delta[1], tempered.delta[2]])
    assert stricter(paired_test(baseline, baseline, margin=0.0, rng=rng), tempered)[1]
