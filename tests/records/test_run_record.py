"""The run record: verdicts add up to the most severe, and absent evidence is never a number."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from fairgate.records import CheckResult, Coverage, RunRecord, Verdict, overall, status_of


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
