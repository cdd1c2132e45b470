from __future__ import annotations

import math

import pytest
from tracking_records import a_check, a_record

from fairgate.records import RunRecord
from fairgate.tracking import content


def test_a_number_that_is_absent_or_infinite_is_not_logged() -> None:
    record = a_record(checks=[a_check("skew", "doctor", value=-math.inf, lo=math.nan, hi=1.5, delta=None)])
    logged = content.metrics(record)
    assert logged["skew/doctor/hi"] == 1.5
    assert not {"skew/doctor", "skew/doctor/lo", "skew/doctor/delta"} & set(logged)
    assert all(map(math.isfinite, logged.values()))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("physician assistant", "physician assistant"),
        ("a@b=c,d|e<f", "a-b-c-d-e-f"),
        ("cleaner/janitor", "cleaner-janitor"),
        ("café", "cafe"),
        ("..", "-"),
        ("医者", "-"),
    ],
)
def test_a_name_keeps_only_what_mlflow_takes(text: str, safe: str) -> None:
    assert content.safe_part(text) == safe


def test_subjects_that_would_share_a_name_are_told_apart() -> None:
    checks = [a_check("skew", subject, value=float(i)) for i, subject in enumerate(["医者", "看護師", "a|b", "a@b"])]
    logged = content.metrics(a_record(checks=checks))
    values = [value for name, value in logged.items() if name.startswith("skew/") and name.count("/") == 1]
    assert sorted(values) == [0.0, 1.0, 2.0, 3.0]


def test_a_check_called_gate_does_not_overwrite_the_totals() -> None:
    logged = content.metrics(a_record(checks=[a_check("gate", "pass", value=0.123)]))
    assert logged["gate/pass"] == 1.0
    assert 0.123 in logged.values()


def test_a_very_long_name_still_fits() -> None:
    logged = content.metrics(a_record(checks=[a_check("skew", "very " * 100 + tail) for tail in ("long", "longer")]))
    assert all(len(name) <= 250 for name in logged)
    assert len([name for name in logged if name.endswith("/lo")]) == 2


def test_params_say_what_every_check_asks_once() -> None:
    checks = [
        a_check("skew", "doctor", bound=0.9, over="race"),
        a_check("skew", "nurse", bound=0.9, over="race"),
        a_check("fair", None, bound=None),
    ]
    params = content.params(a_record(checks=checks))
    assert params["check/skew"] == "max_skew_at_k of neutral_search over race: at_most 0.9"
    assert params["check/fair"] == "max_skew_at_k of neutral_search: at_most"
    assert params["alpha"] == "0.05"


def test_a_check_with_two_bounds_says_both() -> None:
    checks = [a_check("skew", "doctor", bound=0.9), a_check("skew", "nurse", bound=0.8)]
    assert content.params(a_record(checks=checks))["check/skew"].endswith(
        "at_most 0.9; " + "max_skew_at_k of " + "neutral_search: at_most 0.8"
    )


def test_a_run_outside_git_is_named_so() -> None:
    assert content.run_name(a_record(git_commit=None)).startswith("nogit-")
    assert "fairgate.git.commit" not in content.tags(a_record(git_commit=None))


def test_a_record_and_its_reading_from_a_file_share_one_key() -> None:
    record = a_record(checks=[a_check("skew", "doctor", value=-math.inf)])
    again = RunRecord.model_validate_json(record.model_dump_json())
    assert content.run_key(again) == content.run_key(record)
    assert content.run_key(a_record(seconds=9.0)) != content.run_key(a_record(seconds=8.0))


def test_a_time_that_is_not_iso_is_no_time() -> None:
    assert content.started_ms(a_record(created_at="yesterday")) == 0
    assert content.started_ms(a_record(created_at="1970-01-01T00:00:01+00:00")) == 1000
