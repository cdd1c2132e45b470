"""Which sentence a verdict gives as its reason, and which group settles it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_rules_of_verdicts import LOADED, SETS, cell, measure, planned

from fairgate.formulas.statistics import PairedResult
from fairgate.metrics import Drawn, Limits, Measure
from fairgate.suites.compare import Assessed
from fairgate.suites.verdicts import Judgement, judge

NONE = Limits(None, None, "")
RULE: dict[str, Any] = {"no_worse_than": "baseline", "margin": 0.1}


def paired(delta: list[float], outcomes: list[str], **changes: Any) -> PairedResult:
    """A decided comparison of which lower is worse, with limits 0.05 to either side."""
    moved, order = np.array(delta), ("pass", "inconclusive", "fail")
    ones = np.ones(len(delta))
    result = PairedResult(
        delta=moved,
        lo=moved - 0.05,
        hi=moved + 0.05,
        p_adjusted=ones,
        p_not_worse=ones,
        verdict=np.array(outcomes),
        overall=max(outcomes, key=order.index),  # type: ignore[arg-type] # outcomes
        n_sets=np.full(len(delta), SETS),
        sets_needed=np.full(len(delta), 1234.0),
        margin_decided=np.full(len(delta), np.nan),
        clear_alone=np.zeros(len(delta), dtype=bool),
        tested=np.full(len(delta), "drawn"),
        gap=np.full(len(delta), np.nan),
        margin=0.1,
        alpha=0.05,
        harm="lower",
        method="max-t bootstrap",
        draws=1000,
    )
    return replace(result, **changes)


def settled(check: Any, now: Measure, comparison: PairedResult | None = None, **more: Any) -> Judgement:
    """The verdict of a check, with its reason: of SETS sets, of which the suite asks for 30."""
    fields = {"before": None, "limits": NONE, "cell": cell(len(now.groups)), **more}
    return judge(Assessed(planned=check, answers=(), now=now, paired=comparison, ties=None, **fields), LOADED)


def whole(value: float) -> Measure:
    """A value without groups."""
    return Measure(value=value, draw=lambda counts: Drawn(np.zeros(len(counts))), badness=np.zeros(SETS))


def sized(now: Measure, *sets: int) -> Measure:
    """A measure of groups in so many sets, of which those in 30 or more are judged."""
    return replace(now, group_sets=np.array(sets), judged=np.array(sets) >= 30)


def test_without_a_baseline_a_regression_is_inconclusive_and_its_reason_says_how_to_give_one() -> None:
    check = planned("value", **RULE)
    got = settled(check, measure([0.5, 0.4]))
    assert (got.verdict, got.groups, got.at) == ("inconclusive", (None, None), 0)
    assert got.reason == (
        "there is no baseline to compare with; give git:REF, file:DIR or model:URI with --baseline "
        "(pytest: --fairness-baseline)"
    )
    check.against = "anchor"
    assert settled(check, measure([0.5, 0.4])).reason == (
        "there is no anchor to compare with; name one in the suite: `anchor: git:TAG`, file:DIR or model:URI"
    )


@pytest.mark.parametrize(
    ("sets", "evidence", "reason"),
    [
        (29, "", "only 29 sets with a number, of 60; the suite judges from 30 (groups.min_sets)"),
        (1, "of the rarest label", "only 1 set of the rarest label, of 60; the suite judges from 30 (groups.min_sets)"),
    ],
)
def test_a_value_of_too_few_sets_is_inconclusive_whatever_it_is(sets: int, evidence: str, reason: str) -> None:
    got = settled(planned(at_most=9.0), replace(measure([0.1]), sets=sets, evidence=evidence))
    assert (got.verdict, got.reason) == ("inconclusive", reason)
    few = cell(1)
    few.n_sets = 29
    plain = settled(planned(at_most=9.0), measure([0.1]), cell=few)
    assert plain.reason == "only 29 sets; the suite judges from 30 (groups.min_sets)"
    assert settled(planned(at_most=9.0, decide="estimate"), replace(measure([0.1]), sets=30)).verdict == "pass"


def test_where_every_group_is_too_small_nothing_is_judged_and_the_smallest_is_named_first() -> None:
    got = settled(planned(at_most=9.0), replace(sized(measure([0.1, 0.2, 0.3]), 7, 5, 1), evidence="with the label"))
    assert (got.verdict, got.groups, got.at) == ("inconclusive", ("inconclusive",) * 3, 0)
    assert got.reason == (
        "c is in only 1 set with the label, b in 5 sets, a in 7 sets; the suite judges from 30 (groups.min_sets)"
    )


def test_groups_that_are_large_enough_and_judged_by_no_other_are_inconclusive() -> None:
    alone = replace(measure([0.1]), judged=np.array([False]))
    got = settled(planned(at_most=9.0), alone)
    assert (got.verdict, got.reason) == ("inconclusive", "no group has another one to be held against")


def test_a_bound_names_every_group_that_fails_the_worst_first_and_what_was_wanted() -> None:
    values = measure([-0.4, 0.1, 0.3])
    got = settled(planned(at_most=0.2, decide="estimate"), values)
    assert (got.verdict, got.groups, got.at) == ("fail", ("fail", "pass", "fail"), 0)
    assert got.reason == "detection gap is −0.400 (a), 0.300 (c); wanted at most 0.200 in size"
    higher = settled(planned("value", at_least=0.2, decide="estimate"), measure([0.15, 0.5]))
    assert (higher.verdict, higher.reason) == ("fail", "detection gap is 0.150 (a); wanted at least 0.200")
    fine = settled(planned(at_most=0.2, decide="estimate"), measure([0.15, 0.1]))
    assert (fine.verdict, fine.reason) == ("pass", "detection gap is 0.150 (a); wanted at most 0.200")
    counted = planned("none", at_most=0.2, decide="estimate")
    keys = {"at_least": None, "at_most": 0.2, "no_worse_than": None, "decide": "estimate", "rule": "at_most", "k": None}
    counted.views, counted.check = 4, SimpleNamespace(**keys, settings=SimpleNamespace(counted="'nurse'"))
    plain = settled(counted, whole(0.3))
    assert plain.reason == "detection gap of 'nurse' over 4 views of each image is 0.300; wanted at most 0.200"
    assert (plain.verdict, plain.groups, plain.at) == ("fail", (), None)


def test_an_undecided_bound_says_whether_the_interval_reaches_over_it_or_groups_are_too_small() -> None:
    over = Limits(0.1, 0.3, "", np.array([0.1, 0.0]), np.array([0.3, 0.1]))
    got = settled(planned(at_most=0.2), measure([0.25, 0.05]), limits=over)
    assert (got.verdict, got.groups) == ("inconclusive", ("inconclusive", "pass"))
    assert got.reason == "detection gap is 0.250 (a); wanted at most 0.200; the interval reaches over the bound"
    few = settled(planned(at_most=0.2), sized(measure([0.25, 0.05]), 60, 29), limits=over)
    assert few.reason == (
        "detection gap is 0.250 (a); wanted at most 0.200; b is in only 29 sets; the suite judges from 30 "
        "(groups.min_sets)"
    )
    below = Limits(0.05, 0.1, "", np.array([0.05, 0.0]), np.array([0.1, 0.1]))
    small = settled(planned(at_most=0.2), sized(measure([0.1, 0.05]), 30, 29), limits=below)
    assert (small.verdict, small.groups) == ("inconclusive", ("pass", "inconclusive"))
    assert "interval" not in small.reason
    estimate = settled(planned(at_most=0.2, decide="estimate"), sized(measure([0.1, 0.9]), 30, 29))
    assert (estimate.verdict, estimate.groups) == ("inconclusive", ("pass", "inconclusive"))


def test_a_group_without_a_verdict_is_named_without_a_value_of_its_own() -> None:
    got = settled(planned("none", at_most=0.2, decide="estimate"), replace(measure([0.1, 0.5]), value=0.3))
    assert (got.verdict, got.groups, got.at) == ("fail", (None, None), 0)
    assert got.reason == "detection gap is 0.300 (a); wanted at most 0.200"
    other = settled(planned("value", at_most=0.2, decide="estimate"), replace(measure([0.4, 0.5]), value=0.3))
    assert other.reason == "detection gap is 0.300 (a 0.400), 0.500 (b); wanted at most 0.200"


def test_where_a_metric_bounds_no_group_those_in_too_few_sets_leave_it_undecided() -> None:
    few = replace(measure([0.1, 0.1]), group_sets=np.array([30, 29]))
    got = settled(planned("none", at_most=0.2, decide="estimate"), few)
    assert (got.verdict, got.groups) == ("inconclusive", (None, "inconclusive"))


def test_an_interval_that_ends_at_zero_or_on_the_bound_is_held_against_it_whole() -> None:
    limits = Limits(0.3, 0.4, "")
    assert settled(planned("value", at_most=0.4), whole(0.35), limits=limits).verdict == "pass"
    assert settled(planned("value", at_least=0.3), whole(0.35), limits=limits).verdict == "pass"
    assert settled(planned("value", at_most=0.3), whole(0.35), limits=limits).verdict == "inconclusive"


def test_every_group_that_fell_is_named_the_farthest_first_and_eight_of_them_at_most() -> None:
    now = measure([0.5, 0.5, 0.5])
    got = settled(planned("value", **RULE), now, paired([-0.2, 0.02, -0.3], ["fail", "pass", "fail"]))
    assert (got.verdict, got.groups, got.at) == ("fail", ("fail", "pass", "fail"), 2)
    assert got.reason == ("c fell by 0.300 [−0.350, −0.250], a fell by 0.200 [−0.250, −0.150]; margin 0.100")
    names = [f"group {number}" for number in range(10)]
    many = replace(measure([0.5] * 10), groups=names)
    moved = paired((np.arange(10) / 100 - 0.5).tolist(), ["fail"] * 10)
    assert settled(planned("value", **RULE), many, moved).reason.endswith(
        "group 7 fell by 0.430 [−0.480, −0.380], and 2 more groups; margin 0.100"
    )
    nine = settled(
        planned("value", **RULE), replace(measure([0.5] * 9), groups=names[:9]), paired([-0.5] * 9, ["fail"] * 9)
    )
    assert nine.reason.endswith(", and 1 more group; margin 0.100")
    eight = settled(
        planned("value", **RULE), replace(measure([0.5] * 8), groups=names[:8]), paired([-0.5] * 8, ["fail"] * 8)
    )
    assert "more" not in eight.reason


def test_a_regression_that_passes_names_the_group_that_moved_most_harmfully() -> None:
    got = settled(planned("value", **RULE), measure([0.5] * 3), paired([0.2, 0.0, 0.1], ["pass"] * 3))
    assert (got.verdict, got.at, got.reason) == ("pass", 1, "b did not move [−0.050, 0.050]; margin 0.100")
    sizes = settled(planned("size", **RULE), measure([0.5] * 2), paired([0.2, 0.3], ["pass"] * 2))
    assert sizes.reason == "a rose by 0.200 in size [0.150, 0.250]; margin 0.100"
    still = settled(planned("size", **RULE), measure([0.5]), paired([0.0], ["pass"]))
    assert still.reason == "a did not move [−0.050, 0.050]; margin 0.100"


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({}, "the interval reaches over the margin: about 1,234 sets per group would settle it"),
        (
            {"sets_needed": np.full(2, np.inf)},
            "the interval reaches over the margin: no number of sets would settle it",
        ),
        (
            {"clear_alone": np.array([True, False])},
            "clear by itself, and not after the correction over all checks of the suite: about 1,234 sets per group "
            "would settle it",
        ),
    ],
)
def test_an_undecided_group_leaves_the_check_undecided_and_the_reason_says_what_would_settle_it(
    changes: dict[str, Any], ending: str
) -> None:
    now, result = measure([0.5, 0.5]), paired([-0.08, -0.01], ["inconclusive", "pass"], **changes)
    got = settled(planned("value", **RULE), now, result)
    assert (got.verdict, got.groups, got.at) == ("inconclusive", ("inconclusive", "pass"), 0)
    assert got.reason == f"a fell by 0.080 [−0.130, −0.030]; margin 0.100; {ending}"


def test_a_group_that_is_too_small_has_no_verdict_of_its_test_and_fails_no_check() -> None:
    result = paired([-0.3, 0.0], ["fail", "pass"])
    got = settled(planned("value", **RULE), sized(measure([0.5, 0.5]), 5, 60), result)
    assert (got.verdict, got.groups, got.at) == ("inconclusive", ("inconclusive", "pass"), 1)
    assert got.reason == (
        "b did not move [−0.050, 0.050]; margin 0.100; a is in only 5 sets; the suite judges from 30 (groups.min_sets)"
    )
    fell = settled(planned("value", **RULE), sized(measure([0.5, 0.5]), 5, 60), paired([0.0, -0.3], ["pass", "fail"]))
    assert (fell.verdict, fell.groups, fell.at) == ("fail", ("inconclusive", "fail"), 1)


def test_a_group_that_clearly_fell_settles_the_check_before_one_that_seems_to_have_fallen_further() -> None:
    clear = np.array([False, True, False])
    result = paired([-0.4, -0.2, -0.5], ["inconclusive"] * 3, clear_alone=clear)
    assert settled(planned("value", **RULE), measure([0.5] * 3), result).at == 1
    assert settled(planned("value", **RULE), sized(measure([0.5] * 3), 60, 5, 5), result).at == 0
    missing = paired([float("nan"), -0.2, 0.1], ["pass"] * 3)
    assert settled(planned("value", **RULE), measure([0.5] * 3), missing).at == 1


def test_a_regression_of_one_number_is_undecided_where_a_group_is_too_small_unless_it_fails() -> None:
    now, before = replace(sized(measure([0.2, 0.3]), 60, 5)), measure([0.5, 0.3])
    check = planned("none", **RULE)
    now = replace(now, group_sets=np.array([60, 5]))
    wanted = {"pass": "inconclusive", "fail": "fail", "inconclusive": "inconclusive"}
    for outcome, verdict in wanted.items():
        got = settled(check, now, paired([-0.3], [outcome]), before=before)
        assert (got.verdict, got.groups, got.at) == (verdict, (None, "inconclusive"), 0)
    enough = settled(check, measure([0.2, 0.3]), paired([-0.3], ["pass"]), before=before)
    assert (enough.verdict, enough.groups) == ("pass", (None, None))


def test_a_regression_of_one_number_tells_both_values_and_the_groups_that_depart_farthest() -> None:
    result, before = paired([-0.3], ["fail"]), measure([0.5, -0.5])
    plain = settled(planned("none", **RULE), measure([0.2, 0.1]), result, before=before)
    assert plain.reason == ("detection gap fell by 0.300, 0.500 to 0.200 [−0.350, −0.250]; margin 0.100")
    sizes = settled(planned("size", **RULE), measure([0.2, -0.2, 0.1]), result, before=before)
    assert sizes.reason == (
        "detection gap fell by 0.300 in size, 0.500 to 0.200 (a 0.200, b −0.200) [−0.350, −0.250]; margin 0.100"
    )
    small = settled(planned("size", **RULE), sized(measure([0.2, -0.9, 0.1]), 60, 5, 60), result, before=before)
    assert "(a 0.200)" in small.reason
    assert settled(planned("size", **RULE), whole(0.2), result, before=whole(0.5)).reason == (
        "detection gap fell by 0.300 in size, 0.500 to 0.200 [−0.350, −0.250]; margin 0.100"
    )
    undecided = settled(planned("none", **RULE), whole(0.2), paired([-0.1], ["inconclusive"]), before=whole(0.5))
    assert undecided.reason.endswith(
        "; margin 0.100; the interval reaches over the margin: about 1,234 sets would settle it"
    )


def test_a_gap_is_told_by_both_ends_and_by_whom_it_is_held_against() -> None:
    check = planned("value", **RULE)
    check.spec = check.metric.spec = replace(check.spec, relative=True)
    result, before = paired([-0.31, 0.0], ["fail", "pass"]), measure([0.048, 0.1])
    moved = "0.262 behind now, −0.310 [−0.360, −0.260]; margin 0.100"
    inside = settled(check, measure([-0.262, 0.1]), result, before=before)
    assert inside.reason == f"a 0.048 ahead of its set-mates before and {moved}"
    images = cell(2)
    images.unit = "images"
    alone = settled(check, measure([-0.262, 0.1]), result, before=before, cell=images)
    assert alone.reason == f"a 0.048 ahead of the mean of all groups before and {moved}"
    check.clusters = True
    assert settled(check, measure([-0.262, 0.1]), result, before=before).reason == alone.reason


def test_a_comparison_with_the_anchor_and_one_at_another_temperature_are_told_as_such() -> None:
    check, now = planned("value", **RULE), measure([0.5])
    fell, still = paired([-0.2], ["fail"]), paired([0.0], ["pass"])
    told = "a fell by 0.200 [−0.250, −0.150]; margin 0.100"
    theirs = "at the baseline's label temperature"
    assert settled(check, now, fell, only_tempered=True).reason == f"{theirs}, {told}"
    assert settled(check, now, fell, only_own=True).reason == (
        f"{told}; not {theirs}: for a temperature that is changed on purpose, merge a waiver first"
    )
    assert "temperature" not in settled(check, now, still, only_tempered=True).reason
    check.against = "anchor"
    assert settled(check, now, fell).reason == f"since the anchor, {told}"
    assert settled(check, now, fell, only_tempered=True).reason == (
        f"at the anchor's label temperature, since the anchor, {told}"
    )


def test_a_group_with_enough_sets_that_the_metric_cannot_judge_leaves_the_check_undecided() -> None:
    lacking = replace(measure([0.1, 0.1]), judged=np.array([True, False]))
    got = settled(planned(at_most=0.2, decide="estimate"), lacking)
    assert (got.verdict, got.groups) == ("inconclusive", ("pass", "inconclusive"))
    still = settled(planned("value", **RULE), lacking, paired([0.0, 0.0], ["pass", "pass"]))
    assert (still.verdict, still.groups) == ("inconclusive", ("pass", "inconclusive"))


def test_the_worst_group_that_is_large_enough_has_the_verdict_of_the_interval_wherever_it_stands() -> None:
    """The limits of the groups alone would say otherwise of it."""
    limits = Limits(0.3, 0.4, "", np.full(3, 0.0), np.full(3, 0.1))
    values = replace(sized(measure([0.1, 0.1, 0.35]), 5, 60, 60), group_badness=np.array([9.0, 1.0, 2.0]))
    got = settled(planned(at_most=0.2), values, limits=limits)
    assert (got.verdict, got.groups, got.at) == ("fail", ("inconclusive", "pass", "fail"), 2)


def test_the_group_that_is_told_fails_or_is_large_enough_before_it_is_the_worst() -> None:
    values = replace(measure([0.1, 0.3, 0.4]), group_badness=np.array([9.0, 3.0, 2.0]))
    assert settled(planned(at_most=0.2, decide="estimate"), values).at == 1
    small = sized(replace(measure([0.1] * 3), group_badness=np.array([9.0, 2.0, 3.0])), 5, 60, 60)
    assert settled(planned(at_most=0.2, decide="estimate"), small).at == 2
    none = sized(replace(measure([0.1] * 3), group_badness=np.array([1.0, 3.0, 2.0])), 5, 5, 5)
    assert settled(planned(at_most=0.2, decide="estimate"), none).at == 1


def test_the_group_that_settles_a_check_has_its_verdict_though_another_moved_farther() -> None:
    result = paired([-0.09, -0.08], ["pass", "inconclusive"])
    assert settled(planned("value", **RULE), measure([0.5, 0.5]), result).at == 1


def test_as_many_sets_as_are_wanted_are_not_called_too_few() -> None:
    enough = cell(2)
    enough.n_sets = 30
    got = settled(planned(at_most=0.2), sized(measure([0.1, 0.1]), 5, 7), cell=enough)
    assert got.reason == "a is in only 5 sets, b in 7 sets; the suite judges from 30 (groups.min_sets)"
    exact = settled(planned(at_most=0.2, decide="estimate"), sized(measure([0.0, 0.0]), 30, 30))
    assert (exact.verdict, exact.reason) == ("pass", "detection gap is 0.000 (a); wanted at most 0.200")


def test_a_regression_of_one_number_is_told_where_its_worst_group_is_not_the_first() -> None:
    values = replace(measure([0.2, 0.3]), group_badness=np.array([1.0, 2.0]))
    got = settled(planned("none", **RULE), values, paired([-0.1], ["inconclusive"]), before=measure([0.5, 0.3]))
    assert (got.verdict, got.at) == ("inconclusive", 1)
    assert got.reason.endswith("the interval reaches over the margin: about 1,234 sets would settle it")


def test_a_gap_without_groups_is_told_by_its_change_and_a_metric_of_the_top_k_by_its_k() -> None:
    check = planned("value", **RULE)
    check.spec = check.metric.spec = replace(check.spec, relative=True)
    check.check = check.check.model_copy(update={"k": 7})
    got = settled(check, whole(0.2), paired([-0.3], ["fail"]), before=whole(0.5))
    assert got.reason == "detection gap at 7 fell by 0.300, 0.500 to 0.200 [−0.350, −0.250]; margin 0.100"
    check.against = None
    tempered = settled(check, whole(0.2), paired([-0.3], ["fail"]), before=whole(0.5), only_tempered=True)
    assert tempered.reason.startswith("at the baseline's label temperature, ")
