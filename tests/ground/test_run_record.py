"""The run record: verdicts add up to the most severe, and absent evidence is never a number."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from fairgate.records import CheckResult, Coverage, Verdict, overall, status_of


def check(**changes: object) -> CheckResult:
    fields = {
        "id": "skew",
        "subject": "doctor",
        "metric": "max_skew_at_100",
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
        (["fail", "error"], "error"),
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
