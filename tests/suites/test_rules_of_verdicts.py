"""What turns limits, and two runs' numbers, into a verdict: bounds on sizes, groups, sets without a number, weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from toy_repository import SUITE

from fairgate.formulas.statistics import Entries, PairedResult, Resamples
from fairgate.ground.randomness import stream
from fairgate.metrics import METRICS, Drawn, Floats, Limits, Measure
from fairgate.suites import load
from fairgate.suites.compare import Assessed, CheckComparison, compare, decide_family, stricter
from fairgate.suites.verdicts import Judgement, judge

SETS = 60
LOADED = load.load_text(SUITE.encode(), Path("jobs.yaml"), shown="jobs.yaml").suite
NAN = float("nan")


def planned(group_bound: str = "size", gaps: bool = False, **rule: Any) -> Any:
    """A check of a metric of which higher is better, as a plan has it."""
    spec = replace(METRICS["detection_gap"].spec, group_bound=group_bound, gaps=gaps, relative=False)
    check = LOADED.checks[0].model_copy(update={"at_least": None, "at_most": None, "decide": "interval", **rule})
    (bound,) = (number for number in (check.at_least, check.at_most, check.margin) if number is not None)
    metric = SimpleNamespace(spec=spec)
    return SimpleNamespace(
        metric=metric, spec=spec, check=check, bound=bound, item="gap", against="baseline", views=1, clusters=False
    )


def cell(groups: int) -> Any:
    return SimpleNamespace(n_sets=SETS, unit="sets", groups=(tuple("abcdef"[:groups]),))


def measure(values: list[float], **more: Any) -> Measure:
    """A metric of groups, the first of which is the worst."""
    count = len(values)
    return Measure(
        value=values[0],
        draw=lambda counts: Drawn(np.zeros(len(counts))),
        badness=np.zeros(SETS),
        groups=list("abcdef"[:count]),
        group_values=np.array(values),
        group_badness=np.arange(count, 0, -1.0),
        group_sets=np.full(count, SETS),
        judged=np.ones(count, dtype=bool),
        **more,
    )


def judged(check: Any, limits: Limits, values: list[float]) -> Judgement:
    now = measure(values)
    assessed = Assessed(check, cell(len(values)), (), now, before=None, limits=limits, paired=None, ties=None)
    return judge(assessed, LOADED)


@pytest.mark.parametrize(
    ("rule", "lo", "hi", "verdict"),
    [
        ({"at_most": 0.2}, -0.1, 0.1, "pass"),
        ({"at_most": 0.5}, -0.3, 0.3, "pass"),
        ({"at_most": 0.2}, -0.3, 0.3, "inconclusive"),
        ({"at_most": 0.2}, -0.3, 0.1, "inconclusive"),
        ({"at_most": 0.2}, 0.3, 0.4, "fail"),
        ({"at_most": 0.2}, -0.4, -0.3, "fail"),
        ({"at_least": 0.2}, 0.5, 2.0, "pass"),
        ({"at_least": 0.2}, -2.0, -0.5, "pass"),
        ({"at_least": 0.2}, -0.5, 0.5, "inconclusive"),  # of sizes, zero is in it
        ({"at_least": 0.2}, 0.1, 0.15, "fail"),
    ],
)
def test_an_interval_of_a_signed_value_is_held_against_the_bound_by_its_sizes(
    rule: dict[str, float], lo: float, hi: float, verdict: str
) -> None:
    both = np.array([lo]), np.array([hi])
    assert judged(planned(**rule), Limits(lo, hi, "", *both), [0.1]).verdict == verdict


def test_without_an_interval_a_check_on_one_is_inconclusive_whatever_the_value() -> None:
    for limits in (Limits(None, 0.1, "too few"), Limits(0.1, None, "too few")):
        got = judged(planned(at_most=0.2), limits, [0.1])
        assert got.verdict == "inconclusive"
        assert got.reason.endswith("; too few")


@pytest.mark.parametrize(
    ("lo", "hi", "groups"),
    [
        (0.3, 0.4, ("fail", "fail", "pass", "inconclusive")),
        (0.1, 0.4, ("inconclusive", "inconclusive", "pass", "inconclusive")),  # a group fails only if the check does
        (0.1, 0.15, ("pass", "pass", "pass", "pass")),
    ],
)
def test_where_the_interval_decides_each_group_has_a_verdict_and_none_is_harder_than_the_checks(
    lo: float, hi: float, groups: tuple[str, ...]
) -> None:
    """The worst group has the check's; the limits of the others are against the bound of 0.2."""
    limits = Limits(lo, hi, "", np.array([0.0, 0.25, 0.05, 0.1]), np.array([1.0, 0.35, 0.1, 0.3]))
    got = judged(planned(at_most=0.2), limits, [0.35, 0.3, 0.07, 0.2])
    assert got.groups == groups
    assert got.verdict == groups[0]


@pytest.mark.parametrize("missing", ["group_lo", "group_hi"])
def test_groups_without_limits_of_their_own_are_undecided_beside_the_worst(missing: str) -> None:
    whole = Limits(0.3, 0.4, "", np.full(2, 0.3), np.full(2, 0.4))
    got = judged(planned(at_most=0.2), replace(whole, **{missing: None}), [0.35, 0.3])
    assert got.groups == ("fail", "inconclusive")


def test_a_bound_on_the_value_judges_each_group_by_its_own_size() -> None:
    got = judged(planned(at_most=0.2, decide="estimate"), Limits(None, None, ""), [-0.3, 0.1, 0.2])
    assert (got.verdict, got.groups) == ("fail", ("fail", "pass", "pass"))


def compared(
    now: Measure,
    before: Measure,
    *,
    gaps: bool = False,
    min_sets: int = 15,
    deltas: Floats | None = None,
    images: Any = None,
) -> CheckComparison:
    suite = LOADED.model_copy(update={"groups": LOADED.groups.model_copy(update={"min_sets": min_sets})})
    check = planned("value", gaps=gaps, margin=0.1, no_worse_than="baseline")
    sets = Resamples(SETS, suite.decision.draws, stream(0, "sets"))
    return compare(suite, check, images or cell(len(now.groups)), now, before, deltas, sets)


def numbers(missing: range = range(0), seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(sets, 2) numbers; the first group's are missing in some sets."""
    made = np.random.default_rng(seed).normal(0.5, 0.01, (SETS, 2))
    made[list(missing), 0] = NAN
    return made


def counted(paired: np.ndarray[Any, np.dtype[np.float64]]) -> Measure:
    got = measure([0.5, 0.5], paired=paired)
    return replace(got, group_sets=(~np.isnan(paired)).sum(axis=0))


def test_of_a_metric_with_gaps_only_sets_with_a_number_in_both_runs_are_compared_and_counted() -> None:
    now, before = counted(numbers(range(30), 1)), counted(numbers(range(20, 50), 2))
    got = compared(now, before, gaps=True)
    assert got.large_enough.tolist() == [False, True]  # 10 sets are left of 30 and 30
    assert got.blank.n_sets.tolist() == [10, SETS]
    assert got.now.group_sets.tolist() == [10, SETS]
    assert isinstance(got.now.paired, Entries)
    assert got.now.paired.sets().tolist() == [SETS - 50, SETS]
    enough = compared(now, before, gaps=True, min_sets=10)
    assert enough.large_enough.tolist() == [True, True]
    assert enough.comparison is not None
    both = ~np.isnan(now.paired) & ~np.isnan(before.paired)  # type: ignore[arg-type]
    wanted = [float((now.paired - before.paired)[both[:, at], at].mean()) for at in range(2)]  # type: ignore[operator]
    assert enough.comparison.evidence.mean.tolist() == pytest.approx(wanted)


def test_of_two_runs_with_other_gaps_neither_brings_sets_that_the_other_lacks() -> None:
    one, other = counted(numbers(range(40), 1)), counted(numbers())
    for now, before in ((one, other), (other, one)):
        got = compared(now, before, gaps=True)
        assert got.blank.n_sets.tolist() == [20, SETS]
        assert got.now.group_sets.tolist() == [20, SETS]


def test_sets_count_by_their_images_in_each_group_so_that_the_change_is_that_of_the_values() -> None:
    rng = np.random.default_rng(5)
    new, old = rng.normal(0.6, 0.1, (SETS, 2)), rng.normal(0.5, 0.1, (SETS, 2))
    images = rng.integers(1, 4, (SETS, 2)) * np.array([1.0, 10.0])  # the second group's sets are larger throughout
    got = compared(
        measure([0.5, 0.5], paired=new, weights=images), measure([0.5, 0.5], paired=old, weights=images), gaps=False
    )
    assert got.comparison is not None
    wanted = [np.average(new[:, at] - old[:, at], weights=images[:, at]) for at in range(2)]
    assert got.comparison.evidence.mean.tolist() == pytest.approx(wanted)
    for now_weights, before_weights in ((images, None), (None, images)):
        now = measure([0.5, 0.5], paired=new, weights=now_weights)
        plain = compared(now, measure([0.5, 0.5], paired=old, weights=before_weights), gaps=False)
        assert plain.comparison is not None
        assert plain.comparison.evidence.mean.tolist() == pytest.approx((new - old).mean(axis=0).tolist())


def alike() -> PairedResult:
    """Two runs that are alike, decided."""
    part = compared(counted(numbers(seed=1)), counted(numbers(seed=2)), gaps=True)
    (result,) = decide_family([part], LOADED.decision)
    return result


@pytest.mark.parametrize(("fall", "overall"), [(0.0, "inconclusive"), (0.5, "fail")])
def test_a_group_that_is_too_small_leaves_a_comparison_undecided_unless_another_fails(
    fall: float, overall: str
) -> None:
    now, before = counted(numbers(range(55), 1) - [0.0, fall]), counted(numbers(seed=2))
    (result,) = decide_family([compared(now, before, gaps=True)], LOADED.decision)
    assert (result.overall, result.outcome(0)) == (overall, "inconclusive")
    assert result.n_sets.tolist() == [5, SETS]


def test_a_comparison_in_which_every_group_is_large_enough_passes_as_a_whole() -> None:
    (result,) = decide_family(
        [compared(counted(numbers(seed=1)), counted(numbers(seed=2)), gaps=True)], LOADED.decision
    )
    assert (result.overall, result.outcome(0), result.outcome(1)) == ("pass", "pass", "pass")


@pytest.mark.parametrize("first", ["pass", "inconclusive", "fail"])
@pytest.mark.parametrize("second", ["pass", "inconclusive", "fail"])
def test_of_two_temperatures_the_stricter_outcome_is_that_of_the_whole(first: str, second: str) -> None:
    (result,) = decide_family(
        [compared(counted(numbers(seed=1)), counted(numbers(seed=2)), gaps=True)], LOADED.decision
    )
    own, tempered = replace(result, overall=first), replace(result, overall=second)  # type: ignore[arg-type] # outcomes
    order = ["pass", "inconclusive", "fail"]
    whole, milder = stricter(own, tempered)
    assert whole.overall == max(first, second, key=order.index)
    assert milder == (order.index(second) > order.index(first))
    np.testing.assert_array_equal(whole.delta, own.delta)


def test_a_group_that_either_run_cannot_judge_is_not_compared() -> None:
    known, lacking = counted(numbers(seed=1)), counted(numbers(seed=2))
    lacking = replace(lacking, judged=np.array([False, True]))
    for now, before in ((known, lacking), (lacking, known)):
        got = compared(now, before)
        assert got.large_enough.tolist() == [False, True]
        assert got.blank.n_sets.tolist() == [0, SETS]


def test_of_numbers_that_are_no_means_a_group_needs_sets_enough_and_a_number_in_every_resample() -> None:
    def values(sets: int) -> Measure:
        return replace(measure([0.5, 0.4, 0.3], resampled="groups"), group_sets=np.array([sets, SETS, SETS]))

    deltas = np.random.default_rng(0).normal(0, 0.01, (LOADED.decision.draws, 3))
    assert compared(values(SETS), values(SETS), deltas=deltas).large_enough.tolist() == [True, True, True]
    for now, before in ((5, SETS), (SETS, 5)):
        assert compared(values(now), values(before), deltas=deltas).large_enough.tolist() == [False, True, True]
    deltas[0, 1] = NAN  # one resample lacks the second group altogether
    assert compared(values(SETS), values(SETS), deltas=deltas).large_enough.tolist() == [True, False, True]


def test_without_a_group_that_is_large_enough_nothing_is_compared_and_nothing_passes() -> None:
    part = compared(counted(numbers(seed=1)), counted(numbers(seed=2)), min_sets=SETS + 1)
    assert part.comparison is None
    assert part.large_enough.tolist() == [False, False]
    (result,) = decide_family([part], LOADED.decision)
    assert (result.overall, result.outcome(0), result.outcome(1)) == ("inconclusive",) * 3


def test_images_of_small_groups_and_of_none_count_in_no_other_group() -> None:
    codes = np.repeat([0, 1, 2, -1], [40, 40, 5, 5])

    def of(rows: int) -> CheckComparison:
        rng = np.random.default_rng(3)
        new, old = rng.normal(0.5, 0.1, 80), rng.normal(0.5, 0.1, 80)
        far = np.full(10, 9.0)
        images = SimpleNamespace(n_sets=rows, unit="images", group_codes=(codes[:rows],), set_code=np.arange(rows))
        sides = [
            replace(measure([0.5, 0.5, 0.5], images=np.append(side, extra)[:rows]), group_sets=np.array([40, 40, 5]))
            for side, extra in ((new, far), (old, -far))
        ]
        return compared(*sides, images=images)

    whole, alone = of(90), of(80)
    assert whole.large_enough.tolist() == alone.large_enough.tolist() == [True, True, False]
    assert whole.comparison is not None
    assert alone.comparison is not None
    np.testing.assert_array_equal(whole.comparison.evidence.mean, alone.comparison.evidence.mean)


@pytest.mark.parametrize(("sets", "enough"), [(None, True), (15, True), (14, False)])
def test_a_value_that_is_made_of_fewer_sets_than_there_are_is_counted_by_these(sets: int | None, enough: bool) -> None:
    whole = Measure(value=0.5, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.zeros(SETS))
    part, deltas = replace(whole, sets=sets), np.zeros((LOADED.decision.draws, 1))
    for now, before in ((part, whole), (whole, part)):
        assert compared(now, before, deltas=deltas).large_enough.tolist() == [enough]


def test_a_value_with_gaps_is_counted_by_the_sets_that_have_a_number_anywhere() -> None:
    paired = numbers(range(50))
    paired[:40] = NAN  # 40 sets have none, 10 have one of two
    part = Measure(value=0.5, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.zeros(SETS), paired=paired)
    assert compared(part, part, gaps=True, min_sets=21).blank.n_sets.tolist() == [20]


@pytest.mark.parametrize(("min_sets", "enough"), [(SETS, True), (SETS + 1, False)])
def test_as_many_sets_as_the_suite_asks_for_are_enough(min_sets: int, enough: bool) -> None:
    part = compared(counted(numbers(seed=1)), counted(numbers(seed=2)), min_sets=min_sets)
    assert part.large_enough.tolist() == [enough, enough]


@pytest.mark.parametrize(("sets", "enough"), [(1, False), (2, True)])
def test_a_group_of_two_sets_is_compared_if_the_suite_asks_for_one_and_a_set_alone_has_no_spread(
    sets: int, enough: bool
) -> None:
    now, before = (counted(numbers(range(sets, SETS), seed)) for seed in (1, 2))
    assert compared(now, before, gaps=True, min_sets=1).large_enough.tolist() == [enough, True]


def test_means_over_views_are_as_far_apart_as_a_set_can_be_and_no_answers() -> None:
    """Three of 60 sets turned: answers get the exact test of answers, means over views that of bounded numbers."""
    now, before = np.ones((SETS, 2)), np.ones((SETS, 2))
    now[:3] = 0.0
    evidence = []
    for views in (1, 4):
        check = planned("value", margin=0.1, no_worse_than="baseline")
        check.views = views
        sets = Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
        part = compare(LOADED, check, cell(2), counted(now), counted(before), None, sets)
        assert part.comparison is not None
        evidence.append(part.comparison.evidence)
    assert [of.under.exact for of in evidence] == [True, False]
    assert evidence[0].mean.tolist() == evidence[1].mean.tolist() == pytest.approx([-0.05, -0.05])


@pytest.mark.parametrize(
    ("before", "now", "outcome"), [(0.5, 0.3, "pass"), (-0.05, -0.3, "fail"), (0.05, -0.15, "fail")]
)
def test_inside_sets_a_lead_that_shrank_is_no_harm_and_a_group_that_fell_behind_fails(
    before: float, now: float, outcome: str
) -> None:
    noise = np.random.default_rng(4).normal(0, 0.01, (2, SETS))
    sides = [
        counted(np.stack([level + own, -level - own], axis=1)) for level, own in zip((now, before), noise, strict=True)
    ]
    check = planned("value", margin=0.1, no_worse_than="baseline")
    check.spec = check.metric.spec = replace(check.spec, relative=True)
    sets = Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    (result,) = decide_family([compare(LOADED, check, cell(2), *sides, None, sets)], LOADED.decision)
    assert result.outcome(0) == outcome


@pytest.mark.parametrize(("before", "now", "outcome"), [(0.5, 0.3, "pass"), (-0.05, -0.3, "fail")])
def test_of_gaps_that_are_no_means_a_lead_that_shrank_is_no_harm_either(
    before: float, now: float, outcome: str
) -> None:
    noise = np.random.default_rng(5).normal(0, 0.01, (2, LOADED.decision.draws, 2))
    sides = [measure([level, -level], resampled="groups") for level in (now, before)]
    check = planned("value", margin=0.1, no_worse_than="baseline")
    check.spec = check.metric.spec = replace(check.spec, relative=True)
    sets = Resamples(SETS, LOADED.decision.draws, stream(0, "sets"))
    ends = np.array([now, -now])
    deltas, drawn = ends - np.array([before, -before]) + noise[0], ends + noise[1]
    (result,) = decide_family([compare(LOADED, check, cell(2), *sides, deltas, sets, drawn)], LOADED.decision)
    assert result.outcome(0) == outcome
