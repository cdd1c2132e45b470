"""Every sentence is true of its record: groups, direction, both values and margin, read back from the words.

The numbers are compared with the record's own; nothing of the code that makes sentences is used to read them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import situations
from example_records import example_record
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.records import CheckResult, GroupResult, RunRecord
from fairgate.reports import sentence

NAMES = ("White", "Black", "East Asian", "dark × female", "70-130", "Middle Eastern")
NUMBER = r"(?:≈0|[−+\d][\d.]*)"
APART = r"on what both runs scored|at the (?:model's own|baseline's|anchor's) label temperature"
numbers = st.floats(-1, 1).map(lambda value: round(value, 4) + 0.0)
METRICS = {
    **{"group_gap": "gap", "accuracy_gap": "gap", "accuracy": "plain", "p_true": "plain", "max_skew_at_k": "plain"},
    **{"bias_ambiguous": "size", "effect_size": "size"},
}
TEMPERED = ("group_gap", "p_true")


def changed(metric: str, before: float, now: float) -> float:
    return abs(now) - abs(before) if METRICS[metric] == "size" else now - before


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    """A run with one check over groups, of any metric, rule and outcome."""
    metric = draw(st.sampled_from(sorted(METRICS)))
    better = "lower" if metric == "max_skew_at_k" or METRICS[metric] == "size" else "higher"
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    groups = []
    for name in names:
        before, ends = draw(numbers), draw(st.booleans()) or metric != "accuracy"
        now = draw(numbers | st.sampled_from([before, -before]))
        n_sets = draw(st.sampled_from([5, 50, 50]))
        groups.append(
            GroupResult(
                group=name,
                value=now,
                baseline=before if ends else None,
                delta=draw(numbers | st.just(changed(metric, before, now))),
                verdict=draw(st.sampled_from(["pass", "fail", "inconclusive"])),
                n_images=n_sets,
                n_sets=n_sets,
            )
        )
    failing = [group for group in groups if group.verdict == "fail"]
    sign = 1 if better == "higher" else -1
    worst = min(failing or groups, key=lambda group: sign * (group.delta or 0.0))
    check = CheckResult(
        id="by-group",
        subject=draw(st.sampled_from([None, "doctor"])),
        against=draw(st.sampled_from(["baseline", "anchor"])),
        metric=metric,
        k=60 if metric == "max_skew_at_k" else None,
        probe="labels",
        over="race",
        rule="no_worse_than",
        better=better,
        value=worst.value,
        baseline=worst.baseline,
        delta=worst.delta,
        bound=draw(st.sampled_from([0.01, 0.02, 0.05])),
        verdict="fail" if failing else draw(st.sampled_from(["pass", "inconclusive"])),
        n_sets=300,
        min_sets=30,
        only_tempered=metric in TEMPERED and draw(st.booleans()),
        reason="not read",
        worst_group=worst.group,
        groups=groups,
    )
    record = example_record()
    data = record.dataset.model_copy(update={"counterfactual": draw(st.booleans())})
    return record.model_copy(update={"checks": [check], "dataset": data, "anchor": record.baseline})


def read(text: str) -> float:
    return 0.0 if text == "≈0" else float(text.replace("−", "-"))


def require_apart(check: CheckResult, words: str, whole: float, delta: float | None) -> None:
    """The words that a change is not of the two values beside it are there if it is not, and give the right reason."""
    assert delta is not None
    assert bool(words) == (abs(whole - delta) >= 0.0005)
    if words:
        own = "model's own" if check.only_tempered else f"{check.against}'s"
        wanted = f"at the {own} label temperature" if check.metric in TEMPERED else "on what both runs scored"
        assert words == wanted


def near(text: str, value: float) -> bool:
    return abs(read(text) - value) <= 0.00051


def gap(text: str) -> float:
    """The number that `0.310 behind`, `0.020 ahead` or `level` speaks of."""
    if text == "level":
        return 0.0
    size, side = text.split(" ")[:2]
    assert size == "≈0" or read(size) > 0
    return read(size) * {"behind": -1, "ahead": 1}[side]


def require_gaps(text: str, check: CheckResult, others: str) -> list[str]:
    side = rf"(level|{NUMBER} (?:ahead|behind))"
    joined = rf"(?: of| with)?(?: {re.escape(others)})?"
    moved = rf"(?:(?:lost|gained|kept) ({NUMBER}|its place)(?: against {re.escape(others)})? ({APART}) \()?"
    told = re.findall(
        rf"({'|'.join(map(re.escape, NAMES))}) {moved}{side}{joined} (?:before|in the anchor) and {side} now", text
    )
    by_name = {group.group: group for group in check.groups}
    for name, delta, words, before, now in told:
        group = by_name[name]
        assert group.baseline is not None
        assert group.value is not None
        assert abs(gap(before) - group.baseline) <= 0.00051
        assert abs(gap(now) - group.value) <= 0.00051
        assert ("behind" in now) == (group.value <= -0.0005)
        assert ("ahead" in before) == (group.baseline >= 0.0005)
        require_apart(check, words, group.value - group.baseline, group.delta)
        if delta and delta != "its place":
            assert near(delta, abs(group.delta or 0.0))
            assert (f"{name} lost" in text) == ((group.delta or 0.0) < 0)
    return [name for name, *_ in told]


def require_changes(text: str, check: CheckResult) -> list[str]:
    moves, sized = rf"did not change|fell by {NUMBER}|rose by {NUMBER}", METRICS[check.metric] == "size"
    ends = rf" ?({APART})? \((?:({NUMBER}) (?:to|before and) )?({NUMBER})(?: (?:before and )?now[^)]*)?\)"
    told = re.findall(rf"of ({'|'.join(map(re.escape, NAMES))}) ({moves})(, its sign did)?(?:{ends})?(?=,| a)", text)
    by_name = {group.group: group for group in check.groups}
    assert ("size of" in text) == sized
    for name, move, turned, words, before, now in told:
        group = by_name[name]
        assert group.delta is not None
        assert ("rose" in move) == (group.delta > 0)
        assert ("fell" in move) == (group.delta < 0)
        if group.delta:
            (size,) = re.findall(rf"by ({NUMBER})", move)
            assert near(size, abs(group.delta))
        assert bool(now) == (group.baseline is not None)
        if group.baseline is not None and group.value is not None:
            assert near(before or now, group.baseline)
            assert near(now, group.value)
            require_apart(check, words, changed(check.metric, group.baseline, group.value), group.delta)
            assert bool(turned) == (sized and group.delta == 0 and group.baseline * group.value < 0)
    return [name for name, *_ in told]


@given(records())
@settings(max_examples=300, deadline=None)
def test_a_comparison_names_groups_direction_both_values_and_margin_as_the_record_has_them(record: RunRecord) -> None:
    (check,) = record.checks
    text, by_name = sentence(check, record), {group.group: group for group in check.groups}
    if METRICS[check.metric] == "gap":
        left_out = len({group.n_sets for group in check.groups}) > 1
        others = "the mean of the judged groups" if left_out else "the mean of all groups"
        others = "its set-mates" if record.dataset.counterfactual else others
        assert others in text
        told = require_gaps(text, check, others)
    else:
        told = require_changes(text, check)
        assert f"against the {check.against}" in text
    assert ("anchor" in text) == (check.against == "anchor")
    failing = {group.group for group in check.groups if group.verdict == "fail"}
    assert len(told) == max(1, min(3, len(failing))), f"every failing group, three at most: {text}"
    assert set(told) <= failing or told == [check.worst_group]
    harm = [(-1 if check.better == "higher" else 1) * (by_name[name].delta or 0.0) for name in told]
    assert harm == sorted(harm, reverse=True), "the worst first"
    assert (f"and {len(failing) - 3} more group" in text) == (len(failing) > 3)
    (margin,) = re.findall(rf"; margin ({NUMBER})", text)
    assert near(margin, check.bound or 0.0)
    assert text.startswith("doctor: ") == (check.subject is not None)


@given(value=numbers, bound=numbers, rule=st.sampled_from(["at_least", "at_most"]), name=st.sampled_from(NAMES))
def test_a_bound_names_the_group_its_value_and_the_requirement(
    value: float, bound: float, rule: str, name: str
) -> None:
    failed = value < bound if rule == "at_least" else value > bound
    groups = [
        GroupResult(group=name, value=value, verdict="fail" if failed else "pass", n_images=50, n_sets=50),
        GroupResult(group="other", value=bound, verdict="pass", n_images=50, n_sets=50),
    ]
    check = situations.bounded(groups=groups, value=value, bound=bound, rule=rule, worst_group=name)
    check = check.model_copy(update={"verdict": "fail" if failed else "pass"})
    text = sentence(check, example_record([check]))
    said = re.search(rf"is ({NUMBER}) \[[^]]+\](?: for ([^,;]+))?; required (at least|at most) ({NUMBER})", text)
    assert said is not None, text
    assert near(said[1], value)
    assert said[2] == (name if failed else None)
    assert said[3].replace(" ", "_") == rule
    assert near(said[4], bound)


@st.composite
def bounded_checks(draw: st.DrawFn) -> CheckResult:
    """A bound on a number of all images or of two groups; intervals are anywhere, images few or many."""
    metric = draw(st.sampled_from(["accuracy", "effect_size", "bias_ambiguous"]))
    sized = metric != "accuracy"
    rule, bound = ("at_most" if sized else "at_least"), draw(numbers.map(abs))

    def part(name: str) -> GroupResult:
        value, n_sets = draw(numbers), draw(st.sampled_from([5, 50, 50]))
        lo, hi = (value - draw(st.floats(0, 0.5)), value + draw(st.floats(0, 0.5)))
        verdict = draw(st.sampled_from(["pass", "fail", "inconclusive"]))
        return GroupResult(group=name, value=value, lo=lo, hi=hi, verdict=verdict, n_images=n_sets, n_sets=n_sets)

    groups = [part("White"), part("Black")]
    failing = [group for group in groups if group.verdict == "fail"]
    worst = max(failing or groups, key=lambda group: abs(group.value or 0.0) if sized else -(group.value or 0.0))
    assert worst.value is not None
    value = abs(worst.value) if metric == "effect_size" else worst.value
    alone = draw(st.booleans())
    return situations.bounded(
        metric=metric,
        rule=rule,
        bound=bound,
        value=value,
        groups=[] if alone else groups,
        worst_group=None if alone else worst.group,
        better="lower" if sized else "higher",
        verdict="fail" if failing else draw(st.sampled_from(["pass", "inconclusive"])),
        n_sets=worst.n_sets if alone else 100,
    )


@given(bounded_checks())
@settings(max_examples=300, deadline=None)
def test_a_bound_has_groups_with_their_own_numbers_and_is_inside_an_interval_that_is_said_to_reach_over(
    check: CheckResult,
) -> None:
    text, by_name = sentence(check, example_record([check])), {group.group: group for group in check.groups}
    assert "on average" not in text, "every value here is that of a group, or its size"
    told = re.findall(rf"({NUMBER})(?: \[[^]]+\])? for (White|Black)", text)
    assert {name for _, name in told} == {group.group for group in check.failing_groups}
    for value, name in told:
        assert near(value, by_name[name].value or 0.0), "with its sign"
    bounds = [check.bound or 0.0] + ([-(check.bound or 0.0)] if check.metric != "accuracy" else [])
    over = re.search(r"the bound is inside the interval(?: of ([\w, ]+))?", text)
    if over is not None:
        parts = [by_name[name] for name in over[1].split(", ")] if over[1] else [check]
        assert all(any((part.lo or 0.0) < bound < (part.hi or 0.0) for bound in bounds) for part in parts)
        assert check.verdict == "inconclusive"


def test_a_lead_that_shrank_is_told_as_a_lead_at_both_ends() -> None:
    record = situations.by_title()["A lead shrank, and the check passes"]
    (check,) = record.checks
    assert (
        sentence(check, record)
        == "White 0.048 ahead of the mean of all groups before and 0.030 ahead now; margin 0.010"
    )


def test_a_change_at_another_label_temperature_than_its_ends_says_which_is_which() -> None:
    group = situations.group("White", 0.048, 0.045).model_copy(update={"delta": -0.03})
    other = situations.group("other", -0.1, -0.1, "inconclusive", images=5)
    check = situations.compared([group, other], metric="group_gap", bound=0.01)
    assert sentence(check, situations.photographs(check)) == (
        "White lost 0.030 against the mean of the judged groups at the baseline's label "
        "temperature (0.048 ahead before and 0.045 ahead now at the model's own label temperature); margin 0.010; "
        "too few images to judge other (5 of 30)"
    )


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (0.4, -0.335, "size of Cohen's d of Black fell by 0.065 (0.400 to −0.335) against"),
        (-0.3, 0.3, "size of Cohen's d of Black did not change, its sign did (−0.300 to 0.300) against"),
    ],
)
def test_of_a_number_that_counts_by_its_size_the_size_is_what_fell(before: float, now: float, told: str) -> None:
    moved = situations.group("Black", before, now).model_copy(update={"delta": round(abs(now) - abs(before), 6)})
    check = situations.compared([moved], metric="effect_size", better="lower")
    assert sentence(check, situations.photographs(check)).startswith(told)


def test_forty_situations_read_as_they_were_read_by_a_person() -> None:
    written = Path(situations.FILE).read_text(encoding="utf-8")
    assert situations.text() == written, "read the change, then: python tests/reports/situations.py"
    assert len(situations.by_title()) == 40


@pytest.mark.parametrize(
    "jargon", ["embedded world", "standing", "nothing finite", '{"', "should match", "1 sets", "1 images"]
)
def test_no_situation_is_told_in_jargon(jargon: str) -> None:
    assert jargon not in situations.text()
