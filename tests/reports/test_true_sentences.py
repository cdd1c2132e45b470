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
NUMBER = r"(?:≈0|[−\d][\d.]*)"
numbers = st.floats(-1, 1).map(lambda value: round(value, 4) + 0.0)
METRICS = {"group_gap": "gap", "accuracy": "plain", "max_skew_at_k": "plain", "bias_ambiguous": "size"}


def changed(metric: str, before: float, now: float) -> float:
    return abs(now) - abs(before) if METRICS[metric] == "size" else now - before


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    """A run with one check over groups, of any metric, rule and outcome."""
    metric = draw(st.sampled_from(sorted(METRICS)))
    better = "higher" if metric in ("group_gap", "accuracy") else "lower"
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    groups = []
    for name in names:
        before, now, ends = draw(numbers), draw(numbers), draw(st.booleans()) or metric != "accuracy"
        groups.append(
            GroupResult(
                group=name,
                value=now,
                baseline=before if ends else None,
                delta=changed(metric, before, now),
                verdict=draw(st.sampled_from(["pass", "fail", "inconclusive"])),
                n_images=50,
                n_sets=50,
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
        reason="not read",
        worst_group=worst.group,
        groups=groups,
    )
    record = example_record()
    data = record.dataset.model_copy(update={"counterfactual": draw(st.booleans())})
    return record.model_copy(update={"checks": [check], "dataset": data, "anchor": record.baseline})


def read(text: str) -> float:
    return 0.0 if text == "≈0" else float(text.replace("−", "-"))


def near(text: str, value: float) -> bool:
    return abs(read(text) - value) <= 0.00051


def gap(text: str) -> float:
    """The number that `0.310 behind`, `0.020 ahead` or `level` speaks of."""
    if text == "level":
        return 0.0
    size, side = text.split(" ")[:2]
    assert size == "≈0" or read(size) > 0
    return read(size) * {"behind": -1, "ahead": 1}[side]


def require_gaps(text: str, by_name: dict[str, GroupResult], others: str) -> list[str]:
    side = rf"(level|{NUMBER} (?:ahead|behind))"
    joined = rf"(?: of| with)?(?: {re.escape(others)})?"
    told = re.findall(
        rf"({'|'.join(map(re.escape, NAMES))}) {side}{joined} (?:before|in the anchor) and {side} now", text
    )
    for name, before, now in told:
        group = by_name[name]
        assert group.baseline is not None
        assert group.value is not None
        assert abs(gap(before) - group.baseline) <= 0.00051
        assert abs(gap(now) - group.value) <= 0.00051
        assert ("behind" in now) == (group.value < 0)
        assert ("ahead" in before) == (group.baseline > 0)
    return [name for name, *_ in told]


def require_changes(text: str, by_name: dict[str, GroupResult], sized: bool) -> list[str]:
    moves = rf"did not change|fell by {NUMBER}|rose by {NUMBER}|moved {NUMBER} (?:away from|towards) 0"
    told = re.findall(
        rf"of ({'|'.join(map(re.escape, NAMES))}) ({moves})(?: \(({NUMBER}) to ({NUMBER})\))?(?=,| against)", text
    )
    for name, move, before, now in told:
        group = by_name[name]
        assert group.delta is not None
        worse, better = ("away from", "towards") if sized else ("rose", "fell")
        assert (worse in move) == (group.delta > 0)
        assert (better in move) == (group.delta < 0)
        if group.delta:
            (size,) = re.findall(rf"(?:by|moved) ({NUMBER})", move)
            assert near(size, abs(group.delta))
        assert bool(before) == (group.baseline is not None)
        if group.baseline is not None and group.value is not None:
            assert near(before, group.baseline)
            assert near(now, group.value)
    return [name for name, *_ in told]


@given(records())
@settings(max_examples=300, deadline=None)
def test_a_comparison_names_groups_direction_both_values_and_margin_as_the_record_has_them(record: RunRecord) -> None:
    (check,) = record.checks
    text, by_name = sentence(check, record), {group.group: group for group in check.groups}
    if METRICS[check.metric] == "gap":
        others = "its set-mates" if record.dataset.counterfactual else "the mean of all groups"
        assert others in text
        told = require_gaps(text, by_name, others)
    else:
        told = require_changes(text, by_name, METRICS[check.metric] == "size")
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


def test_a_lead_that_shrank_is_told_as_a_lead_at_both_ends() -> None:
    record = situations.by_title()["A lead shrank, and the check passes"]
    (check,) = record.checks
    assert (
        sentence(check, record)
        == "White 0.048 ahead of the mean of all groups before and 0.030 ahead now; margin 0.010"
    )


def test_forty_situations_read_as_they_were_read_by_a_person() -> None:
    written = Path(situations.FILE).read_text(encoding="utf-8")
    assert situations.text() == written, "read the change, then: python tests/reports/situations.py"
    assert len(situations.by_title()) == 40


@pytest.mark.parametrize(
    "jargon", ["embedded world", "standing", "nothing finite", '{"', "should match", "1 sets", "1 images"]
)
def test_no_situation_is_told_in_jargon(jargon: str) -> None:
    assert jargon not in situations.text()
