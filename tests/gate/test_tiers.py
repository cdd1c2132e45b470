"""`tier: watch`: a check that is measured, shown and named, spends no alpha and decides nothing."""

from __future__ import annotations

import pytest
from test_gate_verdicts import by_item
from test_waivers_and_anchors import BIASED, judge
from toy_repository import SUITE, Toy

from fairgate.ground.errors import SuiteError
from fairgate.records import RunRecord
from fairgate.reports import render_comment, render_html, terminal_summary
from fairgate.suites import load_suite
from fairgate.suites.suite_diff import definition_digest, same_verdicts, stricter, weaker

GAPS = next(line for line in SUITE.splitlines() if "id: gaps" in line)
WATCHED = ("skew", "fairness", "no-regression", "fairness-by-job")


def watching(*ids: str) -> str:
    """The suite with some of its checks watched."""
    lines = SUITE.splitlines(keepends=True)
    return "".join(
        line.replace("{id: ", "{tier: watch, id: ") if any(f"id: {name}," in line for name in ids) else line
        for line in lines
    )


def test_a_watched_check_fails_without_closing_the_gate_and_is_named(toy: Toy) -> None:
    toy.write_suite(watching(*WATCHED))
    record = judge(toy, model=BIASED)
    failing = [check for check in record.checks if check.verdict == "fail"]
    assert {check.id for check in failing if check.watched} >= {"fairness-by-job"}
    assert {check.id for check in record.closing} == {check.id for check in failing if not check.watched}
    fairness = next(check for check in failing if check.watched)
    assert f"{fairness.item}: fail, watched, and decides nothing" in "\n".join(terminal_summary(record))
    assert "Waived or watched" in render_comment(record)
    loss = "watched, and decides nothing: "
    for text in ("\n".join(terminal_summary(record)), render_comment(record), render_html(record, lambda _: {})):
        assert any(fairness.subject in line.split(loss)[1] for line in text.splitlines() if loss in line)


def test_watched_checks_alone_cannot_pass_a_run() -> None:
    from example_records import example_record, gap_check

    watched = gap_check("doctor", "pass").model_copy(update={"tier": "watch"})
    assert example_record([watched]).decided == "error"
    broken = watched.model_copy(update={"verdict": "error", "value": None, "status": "absent"})
    assert not broken.watched
    assert example_record([gap_check("chef", "pass"), broken]).decided == "error"


def test_a_watched_comparison_spends_no_alpha(toy: Toy) -> None:
    """The p of a check that decides is the same whether nothing else is compared, or all else is watched."""
    watched, alone = ("no-regression", "useful"), SUITE.splitlines(keepends=True)
    toy.write_suite(watching(*watched).replace("{tier: watch, id: useful", "{id: useful"))
    with_watch = judge(toy, model=BIASED)
    left = "".join(line for line in alone if "id: no-regression," not in line)
    toy.write_suite(left)
    without = judge(toy, model=BIASED)
    toy.write_suite(SUITE)
    deciding = judge(toy, model=BIASED)

    def p_of(record: RunRecord) -> list[float | None]:
        return [by_item(record)[item].p_adjusted for item in ("gaps[doctor]", "gaps[chef]")]

    assert p_of(with_watch) == p_of(without)
    assert all(a is not None and b is not None and a <= b for a, b in zip(p_of(without), p_of(deciding), strict=True))


def test_a_suite_that_only_watches_groups_or_use_is_refused(toy: Toy) -> None:
    with pytest.raises(SuiteError, match="none that decides compares a group with the baseline"):
        load_suite(toy.write_suite(watching("gaps", "no-regression")), toy.root)
    with pytest.raises(SuiteError, match="none says whether the model is still of use"):
        load_suite(toy.write_suite(watching("useful", "finds")), toy.root)


def test_from_gate_to_watch_is_a_weaker_definition_and_back_a_stricter_one(toy: Toy) -> None:
    gate, watch = (load_suite(toy.write_suite(text), toy.root).suite for text in (SUITE, watching("skew")))
    assert [change.what for change in weaker(gate, watch)] == ["checks.skew.tier"]
    assert weaker(watch, gate) == []
    assert not same_verdicts(gate, watch)
    assert definition_digest(gate) != definition_digest(watch)


def test_a_branch_that_watches_what_its_base_decides_is_decided_by_the_base(toy: Toy) -> None:
    base = judge(toy, model=BIASED)
    toy.write_suite(watching(*WATCHED))
    branch = judge(toy, model=BIASED)
    merged = stricter([("this change", branch.checks), ("merge base", base.checks)])
    by = {check.item: check.decided_by for check in merged if check.verdict == "fail" and not check.excused}
    wanted = [check for check in base.closing if check.id in WATCHED and check.verdict == "fail"]
    assert [by[check.item] for check in wanted] == ["merge base"] * len(wanted)
    assert wanted


def test_a_suite_without_tiers_has_the_digest_that_it_had_before_there_were_any(toy: Toy) -> None:
    plain = load_suite(toy.write_suite(SUITE), toy.root)
    written = load_suite(toy.write_suite(SUITE.replace("{id: skew", "{tier: gate, id: skew")), toy.root)
    assert plain.digest == written.digest
    assert "tier" not in plain.suite.model_dump()["checks"][0]
