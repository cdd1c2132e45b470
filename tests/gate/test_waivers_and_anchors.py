"""A waiver lets a check fail until a date; an anchor compares a second time, with a release that stays where it is."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from test_gate_verdicts import by_item
from toy_repository import SUITE, Toy, write_scores_table

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.records import RunRecord
from fairgate.suites import resolve
from fairgate.suites.result import waive
from fairgate.suites.schema import Waived

BIASED = "scores:biased.csv?values=logit"
EVERYTHING = (  # of biased.csv
    "waivers:\n"
    "  - {check: fairness-by-job, subject: doctor, until: 2999-12-31, reason: 'known, #7'}\n"
    "  - {check: skew, until: 2999-12-31, reason: 'known, #7'}\n"
    "  - {check: no-regression, until: 2999-12-31, reason: 'known, #7'}\n"
    "  - {check: gaps, until: 2999-12-31, reason: 'known, #7'}\n"
    "  - {check: fairness, until: 2999-12-31, reason: 'known, #7'}\n"
    "  - {check: useful, until: 2999-12-31, reason: 'known, #7'}\n"
)


def judge(toy: Toy, **options: str) -> RunRecord:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", **options}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.evaluate(*gate.hold(prepared, settings), command="pytest").record


def test_a_waived_failure_stays_a_failure_and_does_not_shut_the_gate(toy: Toy) -> None:
    assert judge(toy, model=BIASED).verdict == "fail"
    toy.write_suite(SUITE + EVERYTHING)
    record = judge(toy, model=BIASED)
    assert record.verdict == "pass"
    gap = by_item(record)["gaps[doctor]"]
    assert (gap.verdict, gap.waived) == ("fail", True)
    assert gap.waiver is not None
    assert gap.waiver.reason == "known, #7"
    assert record.counts()["fail"] > 0


def test_an_update_prints_the_distance_to_the_anchor(toy: Toy) -> None:
    def updated(text: str) -> list[str]:
        toy.write_suite(text)
        prepared = gate.prepare("jobs", toy.root)
        settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
        return gate.keep_baseline(gate.evaluate(prepared, settings), prepared, reason="retrained")

    assert "`fairgate baseline anchor jobs` writes the line" in updated(SUITE)[-1]
    told = updated(f"{SUITE}anchor: model:scores:base.csv?values=logit\n")
    place = told.index("distance to the anchor (model:scores:base.csv?values=logit): at the anchor, now, change")
    assert "  no-regression@anchor: 0.991, 0.989, −0.002" in told[place:]


def test_a_check_that_passes_needs_no_waiver_and_shows_none(toy: Toy) -> None:
    toy.write_suite(SUITE + EVERYTHING)
    assert all(check.waiver is None for check in judge(toy).checks)


def test_a_waiver_of_one_subject_covers_that_one(toy: Toy) -> None:
    toy.write_suite(SUITE + EVERYTHING.replace("{check: gaps,", "{check: gaps, subject: chef,"))
    record = judge(toy, model=BIASED)
    assert record.verdict == "fail"
    assert [check.item for check in record.checks if check.verdict == "fail" and not check.waived] == ["gaps[doctor]"]


def test_an_expired_waiver_fails_and_says_that_it_has_expired(toy: Toy) -> None:
    toy.write_suite(SUITE + EVERYTHING.replace("2999-12-31", "2020-02-29"))
    record = judge(toy, model=BIASED)
    assert record.verdict == "fail"
    gap = by_item(record)["gaps[doctor]"]
    assert not gap.waived
    assert gap.waiver is not None
    assert gap.waiver.expired


@pytest.mark.parametrize(("today", "waived"), [("2030-05-31", True), ("2030-06-01", True), ("2030-06-02", False)])
def test_a_waiver_holds_through_its_last_day(toy: Toy, today: str, waived: bool) -> None:
    failing = [check for check in judge(toy, model=BIASED).checks if check.verdict == "fail"]
    rules = [Waived(check=check.id, until=date(2030, 6, 1), reason="r") for check in failing]
    marked = waive(failing, list({rule.check: rule for rule in rules}.values()), date.fromisoformat(today))
    assert {check.waived for check in marked} == {waived}


def test_what_could_not_be_computed_is_never_waived(toy: Toy) -> None:
    toy.write_suite(SUITE + EVERYTHING + "  - {check: finds, until: 2999-12-31, reason: r}\n")
    record = judge(toy, model="scores:none.csv?values=logit")
    assert record.verdict == "error"
    assert not record.ok


def test_a_gate_of_which_everything_is_waived_measured_nothing_and_is_no_pass(toy: Toy) -> None:
    failing = [check for check in judge(toy, model=BIASED).checks if check.verdict == "fail"]
    rules = {check.id: Waived(check=check.id, until=date(2030, 6, 1), reason="r") for check in failing}
    marked = waive(failing, list(rules.values()), date(2030, 1, 1))
    assert judge(toy).model_copy(update={"checks": marked}).decided == "error"


@pytest.mark.parametrize(
    ("waiver", "problem", "remedy"),
    [
        ("{check: gasp, until: 2030-01-01, reason: r}", "names the check 'gasp'", "did you mean 'gaps'"),
        ("{check: gaps, subject: docter, until: 2030-01-01, reason: r}", "names 'docter'", "did you mean 'doctor'"),
        ("{check: useful, subject: chef, until: 2030-01-01, reason: r}", "names 'chef'", "leave `subject` out"),
        ("{check: gaps, until: soon, reason: r}", "waivers.0.until", "Last day of the waiver"),
        ("{check: gaps, until: 2030-01-01, reason: TEXT}", "'gaps' has no reason", "in place of TEXT"),
        ("{check: gaps, until: 2030-01-01}", "reason", "add the key 'reason'"),
        ("{check: gaps, until: 2030-01-01, reason: r}, {check: gaps, until: 2031-01-01, reason: r}", "twice", "schema"),
    ],
)
def test_a_waiver_that_waives_nothing_is_refused(toy: Toy, waiver: str, problem: str, remedy: str) -> None:
    toy.write_suite(f"{SUITE}waivers: [{waiver}]\n")
    with pytest.raises(SuiteError, match=problem) as caught:
        gate.prepare("jobs", toy.root)
    assert remedy in str(caught.value)


ANCHORED = SUITE.replace("baseline: model", "anchor: model:scores:first.csv?values=logit\nbaseline: model", 1)


def drifted(toy: Toy, steps: int) -> None:
    """first.csv, and models that stand `steps` small losses below it."""
    write_scores_table(toy.root / "first.csv", 40, seed=20)
    for step in (steps - 1, steps):
        loss = {("doctor", "dark", "female"): 0.25 * step}
        write_scores_table(toy.root / f"step{step}.csv", 40, seed=20 + step, planted=loss)


def test_small_losses_that_add_up_fail_against_the_anchor_alone(toy: Toy) -> None:
    drifted(toy, 4)
    toy.write_suite(ANCHORED)
    options = {"model": "scores:step4.csv?values=logit", "baseline": "model:scores:step3.csv?values=logit"}
    record = judge(toy, **options)
    found = by_item(record)
    assert found["gaps[doctor]"].verdict in ("pass", "inconclusive")
    anchored = found["gaps@anchor[doctor]"]
    assert (anchored.verdict, anchored.against, anchored.bound) == ("fail", "anchor", 0.04)
    assert anchored.worst_group == "dark × female"
    assert "since the anchor" in anchored.reason
    assert record.anchor is not None
    assert record.anchor.uri == "scores:first.csv?values=logit"
    assert record.verdict == "fail"


def test_the_margin_to_the_anchor_may_be_its_own(toy: Toy) -> None:
    drifted(toy, 4)
    toy.write_suite(ANCHORED.replace("margin: 0.04}", "margin: 0.04, anchor_margin: 0.5}"))
    found = by_item(judge(toy, model="scores:step4.csv?values=logit", baseline="none"))
    assert (found["gaps@anchor[doctor]"].bound, found["gaps@anchor[doctor]"].verdict) == (0.5, "pass")
    assert found["gaps[doctor]"].bound == 0.04


def test_comparisons_with_the_anchor_are_in_the_family(toy: Toy) -> None:
    write_scores_table(toy.root / "first.csv", 40, seed=20)
    write_scores_table(toy.root / "worse.csv", 40, seed=24, planted={("doctor", "dark", "female"): 0.48})
    options = {"model": "scores:worse.csv?values=logit"}
    alone = by_item(judge(toy, **options))["gaps[doctor]"]
    toy.write_suite(ANCHORED)
    both = by_item(judge(toy, **options))["gaps[doctor]"]
    assert (alone.worst_group, alone.delta) == (both.worst_group, both.delta)
    assert alone.p_adjusted is not None
    assert both.p_adjusted is not None
    assert 0.05 < alone.p_adjusted < both.p_adjusted < 1


def test_the_candidate_may_be_the_anchored_release_itself(toy: Toy) -> None:
    toy.write_suite(ANCHORED.replace("first.csv", "tuned.csv"))
    record = judge(toy)
    assert record.verdict == "pass"
    assert record.anchor is not None
    assert record.anchor.unchanged
    assert {check.delta for check in record.checks if check.against == "anchor"} == {0.0}


def test_an_anchor_that_cannot_be_read_is_an_error(toy: Toy) -> None:
    toy.write_suite(ANCHORED.replace("first.csv", "nowhere.csv"))
    record = judge(toy)
    assert record.verdict == "error"
    assert "nowhere.csv" in record.checks[0].reason
    assert record.anchor is not None
    assert record.anchor.fingerprint == "unknown"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SUITE.replace("at_least: 0.9}", "at_least: 0.9, anchor_margin: 0.1}", 1), "anchor_margin"),
        (ANCHORED.replace("margin: 0.04}", "margin: 0.04, anchor_margin: 9}"), "cannot fall that far"),
    ],
)
def test_a_margin_to_the_anchor_that_means_nothing_is_refused(toy: Toy, text: str, problem: str) -> None:
    toy.write_suite(text)
    with pytest.raises(SuiteError, match=problem):
        gate.prepare("jobs", toy.root)


def test_runs_in_other_places_are_told_beside_the_verdict(toy: Toy) -> None:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "report": str(toy.root / "old"), "baseline": "none"}
    settings = resolve(prepared.loaded.suite, {**typed, "model": "scores:base.csv?values=logit"}, environment={})
    gate.publish(gate.evaluate(prepared, settings, command=""), prepared, settings)
    results = Path(toy.root / "old" / "results.json")
    text = results.read_text(encoding="utf-8")
    results.write_text(text.replace('"torch": "', '"torch": "1.'), encoding="utf-8")
    record = judge(toy, baseline="file:old")
    assert record.verdict == "pass"
    assert len(record.warnings) == 1
    assert "the baseline was scored with torch 1." in record.warnings[0]
    assert judge(toy).warnings == []


@pytest.mark.parametrize(
    ("typed", "environment", "suites"),
    [(None, {}, True), ("warn", {}, False), (None, {"FAIRGATE_ON_INCONCLUSIVE": "warn"}, False)],
)
def test_who_allowed_thin_evidence_is_known(
    toy: Toy, typed: str | None, environment: dict[str, str], suites: bool
) -> None:
    toy.write_suite(SUITE.replace("schema: 1", "schema: 1\non_inconclusive: warn"))
    suite = gate.prepare("jobs", toy.root).loaded.suite
    settings = resolve(suite, {"on-inconclusive": typed}, environment=environment)
    assert (settings.on_inconclusive, settings.leniency_is_the_suites) == ("warn", suites)
