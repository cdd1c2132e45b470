"""The run record: verdicts add up to the most severe, and absent evidence is never a number."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from fairgate.records import CheckResult, Coverage, Decision, GroupResult, RunRecord, Verdict, overall, status_of


def check(**changes: object) -> CheckResult:
    fields = {
        "id": "skew",
        "subject": "doctor",
        "metric": "max_skew_at_k",
        "k": 100,
        "probe": "search",
        "rule": "at_most",
        "value": 0.2,
        "bound": 0.9,
        "verdict": "pass",
        "n_sets": 60,
        "reason": "fine",
    }
    return CheckResult.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("verdicts", "run"),
    [
        (["pass", "pass"], "pass"),
        (["pass", "inconclusive"], "inconclusive"),
        (["inconclusive", "fail", "pass"], "fail"),
        (["fail", "error"], "fail"),
        (["inconclusive", "error"], "error"),
        ([], "error"),
    ],
)
def test_a_run_is_as_bad_as_its_worst_check_and_no_check_is_an_error(verdicts: list[Verdict], run: Verdict) -> None:
    assert overall(verdicts) == run


def test_a_number_that_is_not_finite_becomes_null_beside_a_status() -> None:
    result = check(value=-math.inf, status=status_of(-math.inf))
    assert result.value == -math.inf
    assert json.loads(result.model_dump_json())["value"] is None
    assert json.loads(result.model_dump_json())["status"] == "infinite"
    assert [status_of(value) for value in (None, math.nan, 0.0)] == ["absent", "absent", "ok"]


def test_an_older_record_has_k_in_the_name_of_the_metric_and_is_read_with_both_apart() -> None:
    older = {key: value for key, value in check().model_dump().items() if key != "k"}
    read = CheckResult.model_validate({**older, "metric": "max_skew_at_100"}, strict=True)
    assert (read.metric, read.k, read.metric_with_k) == ("max_skew_at_k", 100, "max_skew_at_100")
    assert read == check()
    plain = CheckResult.model_validate({**older, "metric": "group_gap"})
    assert (plain.metric, plain.k) == ("group_gap", None)


def test_a_name_that_ends_as_one_with_k_is_kept_in_a_record_that_has_k_apart() -> None:
    read = check(metric="error_at_1", k=None)
    assert CheckResult.model_validate_json(read.model_dump_json()).metric_with_k == "error_at_1"


def test_a_finite_number_is_written_as_it_is() -> None:
    written = json.loads(check(value=0.25, lo=None, hi=math.nan).model_dump_json())
    assert (written["value"], written["lo"], written["hi"]) == (0.25, None, None)
    assert check(hi=math.nan).model_dump(mode="json")["hi"] is None
    assert [status_of(value) for value in (math.inf, -math.inf, -0.5)] == ["infinite", "infinite", "ok"]


def run_record(verdict: Verdict, *checks: CheckResult, **changes: object) -> RunRecord:
    fields = {
        "suite": "jobs",
        "suite_digest": "s",
        "verdict": verdict,
        "dataset": {"name": "d", "version": "1", "fingerprint": "f", "counterfactual": True, "attributes": {}},
        "model": {"uri": "m", "fingerprint": "f"},
        "baseline": None,
        "coverage": {"expected_sets": 1, "scored_sets": 1, "expected_images": 2, "scored_images": 2, "prompts": 1},
        "probes": {},
        "decision": {"alpha": 0.05, "correction": "holm", "seed": 0, "draws": 100},
        "checks": checks,
        "environment": {"fairgate": "0", "python": "3", "platform": "p", "device": "cpu"},
        "command": "c",
        "created_at": "now",
        "seconds": 1.0,
    }
    return RunRecord.model_validate({**fields, **changes})


def test_every_verdict_is_counted_also_those_that_did_not_occur() -> None:
    record = run_record("fail", check(), check(verdict="fail"), check())
    assert record.counts() == {"pass": 2, "inconclusive": 0, "fail": 1, "error": 0}
    assert run_record("error").counts() == {"pass": 0, "inconclusive": 0, "fail": 0, "error": 0}


def test_the_gate_opens_for_a_pass_and_for_doubt_where_that_is_allowed() -> None:
    verdicts: list[Verdict] = ["pass", "inconclusive", "fail", "error"]
    assert [run_record(verdict).ok for verdict in verdicts] == [True, False, False, False]
    assert [run_record(verdict, allow_inconclusive=True).ok for verdict in verdicts] == [True, True, False, False]


def test_an_item_names_check_and_subject() -> None:
    assert check().item == "skew[doctor]"
    assert check(subject=None).item == "skew"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        check(colour="red")


@pytest.mark.parametrize(
    ("changes", "complete"),
    [({}, True), ({"scored_sets": 1}, False), ({"scored_images": 3}, False), ({"missing": ["one"]}, False)],
)
def test_coverage_is_complete_only_when_nothing_is_missing(changes: dict[str, object], complete: bool) -> None:
    counts = {"expected_sets": 2, "scored_sets": 2, "expected_images": 4, "scored_images": 4, "prompts": 3}
    assert Coverage.model_validate({**counts, **changes}).complete is complete


WAIVED: dict[str, object] = {"waiver": {"until": "2030-01-01", "reason": "known", "expired": False}}
EXPIRED: dict[str, object] = {"waiver": {"until": "2020-01-01", "reason": "known", "expired": True}}
WATCHED: dict[str, object] = {"tier": "watch"}
APPROVAL = [{"kind": "model", "what": "another model", "before": "a", "now": "b"}]


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, ()),
        (WAIVED, ("inconclusive", "fail")),
        (EXPIRED, ()),
        (WATCHED, ("pass", "inconclusive", "fail")),
    ],
)
def test_a_good_waiver_excuses_a_failure_or_doubt_and_watching_all_but_an_error(
    changes: dict[str, object], verdicts: tuple[Verdict, ...]
) -> None:
    for verdict in ("pass", "inconclusive", "fail", "error"):
        got = check(verdict=verdict, **changes)
        word = "watched" if changes is WATCHED else "waived"
        assert (got.excuse, got.excused) == ((word, True) if verdict in verdicts else (None, False))


def test_a_check_that_is_waived_and_watched_is_called_waived_where_the_waiver_counts() -> None:
    assert check(verdict="fail", **WAIVED, **WATCHED).excuse == "waived"
    assert check(verdict="pass", **WAIVED, **WATCHED).excuse == "watched"


@pytest.mark.parametrize(
    ("verdict", "changes", "code"),
    [
        ("pass", {}, 0),
        ("pass", {"needs_approval": APPROVAL}, 10),
        ("inconclusive", {}, 1),
        ("inconclusive", {"allow_inconclusive": True}, 0),
        ("inconclusive", {"allow_inconclusive": True, "needs_approval": APPROVAL}, 10),
        ("inconclusive", {"needs_approval": APPROVAL}, 1),
        ("fail", {"allow_inconclusive": True, "needs_approval": APPROVAL}, 1),
        ("error", {"allow_inconclusive": True, "needs_approval": APPROVAL}, 3),
    ],
)
def test_the_exit_code_is_0_for_an_open_gate_10_for_approval_1_for_a_shut_one_and_3_without_a_verdict(
    verdict: Verdict, changes: dict[str, object], code: int
) -> None:
    record = run_record(verdict, check(verdict=verdict), **changes)
    assert (record.exit_code, record.ok, record.passes) == (code, code == 0, code in (0, 10))


def test_an_error_beside_a_failure_that_counts_is_a_failure_and_beside_an_excused_one_no_verdict() -> None:
    error, fail = check(verdict="error"), check(verdict="fail")
    assert run_record("error", error, fail).exit_code == 1
    for excuse in (WAIVED, WATCHED):
        assert run_record("error", error, check(verdict="fail", **excuse)).exit_code == 3
    assert run_record("error", error, check(verdict="pass"), check(verdict="inconclusive")).exit_code == 3


def test_excused_checks_add_nothing_to_the_verdict_and_do_not_close_the_gate() -> None:
    passing, doubt, fail, error = (check(verdict=verdict) for verdict in ("pass", "inconclusive", "fail", "error"))
    excused = [check(verdict="fail", **WAIVED), check(verdict="inconclusive", **WATCHED)]
    assert run_record("pass", passing, *excused).decided == "pass"
    assert run_record("error", *excused).decided == "error"
    assert run_record("fail", passing, fail, *excused).decided == "fail"
    checks = [doubt, *excused, error, passing, fail]
    assert run_record("fail", *checks).closing == [doubt, error, fail]
    assert run_record("fail", *checks, allow_inconclusive=True).closing == [error, fail]


@pytest.mark.parametrize(
    ("weights", "baseline", "other"),
    [
        (1_000, 995, False),
        (995, 1_000, False),
        (1_000, 994, True),
        (994, 1_000, True),
        (None, 1_000, False),
        (1_000, None, False),
        (None, None, False),
    ],
)
def test_a_baseline_is_of_another_architecture_if_its_weights_differ_by_more_than_half_a_percent(
    weights: int | None, baseline: int | None, other: bool
) -> None:
    saved = {"source": "git:main", "uri": "m", "fingerprint": "f", "weights": baseline}
    model = {"uri": "m", "fingerprint": "f", "weights": weights}
    assert run_record("pass", check(), model=model, baseline=saved).other_architecture is other
    assert not run_record("pass", check(), model=model).other_architecture


def group(name: str, **changes: object) -> GroupResult:
    return GroupResult.model_validate({"group": name, "value": 0.5, "n_images": 9, "n_sets": 9, **changes})


def test_groups_that_failed_that_are_undecided_and_that_are_small_are_told_apart() -> None:
    groups = [
        group("a", verdict="fail"),
        group("b", verdict="inconclusive", n_sets=8),
        group("c", verdict="pass"),
        group("d"),
        group("e", verdict="fail", n_sets=7),
    ]
    told = check(groups=groups, min_sets=9)
    assert told.failing_groups == [groups[0], groups[4]]
    assert told.undecided_groups == [groups[1]]
    assert told.small_groups == [groups[1], groups[4]]
    assert check(groups=groups).small_groups == []


def test_a_check_counts_the_sets_of_its_worst_group_if_its_value_is_that_groups() -> None:
    groups = [group("a", value=0.9, n_sets=50), group("b", value=0.2, n_sets=40)]
    worst = check(groups=groups, worst_group="b")
    assert (worst.worst, worst.units) == (groups[1], 40)
    assert check(groups=groups, worst_group="a").units == 60
    none = check(groups=groups)
    assert (none.worst, none.units) == (None, 60)


def test_an_item_is_about_a_subject_a_word_or_a_category_and_tells_the_anchor() -> None:
    assert check(subject=None, word="clever").item == "skew[clever]"
    assert check(subject=None, category="race").item == "skew[race]"
    assert check(subject="doctor", against="anchor").item == "skew@anchor[doctor]"
    assert check(subject=None, against="anchor").item == "skew@anchor"
    assert check(against="baseline").item == "skew[doctor]"


@pytest.mark.parametrize(
    ("correction", "method"),
    [("holm", "step-down max-T"), ("bonferroni", "single-step max-T"), ("none", "none")],
)
def test_a_correction_has_its_published_name(correction: str, method: str) -> None:
    assert Decision(alpha=0.05, correction=correction, seed=0, draws=100).method == method


def test_a_notice_of_an_older_release_is_read_in_todays_words() -> None:
    dataset = {"name": "d", "version": "1", "fingerprint": "f", "counterfactual": True, "attributes": {}}
    for notice in ("fairgate's embedded world: drawn", "fairgate's demonstration data: drawn"):
        read = run_record("pass", check(), dataset={**dataset, "notice": notice}).dataset
        assert read.notice == "fairgate's demonstration data: drawn"
    assert run_record("pass", check(), dataset=dataset).dataset.notice is None


def test_text_that_no_file_can_hold_is_written_as_a_reader_knows_it_wherever_it_is() -> None:
    record = run_record("pass", check(), warnings=["caf\udce9"], probes={"\udce9": "caf\udce9"})
    assert record.warnings == [r"caf\xe9"]
    assert record.probes == {r"\xe9": r"caf\xe9"}
