"""What GitHub's code scanning and GitLab's code quality get of a run, and where they show it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from example_records import (
    COMMIT,
    example_record,
    failed_computation,
    fairness_check,
    gap_check,
    skew_check,
    team_record,
    vicious_record,
    waived,
)
from toy_repository import SUITE, Toy, toy_repository
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import render_code_quality, render_sarif, write_results

FILE = "fairness_suites/jobs.yaml"


def results_of(record: RunRecord, lines: dict[str, int] | None = None) -> list[dict[str, Any]]:
    log = json.loads(render_sarif(record, FILE, lines or {}))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["tool"]["driver"]["name"] == "fairgate"
    assert len(set(rules)) == len(rules)
    for result in run["results"]:  # what the format, and GitHub, require of each
        assert result["message"]["text"]
        assert result["level"] in ("error", "warning", "note")
        assert rules[result["ruleIndex"]] == result["ruleId"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == FILE
        assert place["physicalLocation"]["region"]["startLine"] >= 1
    return run["results"]


def quality_of(record: RunRecord, lines: dict[str, int] | None = None) -> list[dict[str, Any]]:
    found = json.loads(render_code_quality(record, FILE, lines or {}))
    assert len({one["fingerprint"] for one in found}) == len(found)
    for one in found:
        assert set(one) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert one["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert one["location"]["path"] == FILE
    return found


def test_every_check_that_did_not_pass_is_a_finding_at_its_line() -> None:
    checks = [fairness_check("nurse", 0.95), gap_check("doctor", "fail"), waived(skew_check("chef", 0.98))]
    record = example_record(checks)
    lines = {check.item: at for at, check in enumerate(checks, 10)}
    failed, tolerated = results_of(record, lines)
    assert (failed["level"], failed["properties"]["item"]) == ("error", checks[1].item)
    assert failed["locations"][0]["physicalLocation"]["region"]["startLine"] == 11
    assert failed["properties"]["delta"] == checks[1].delta
    assert "dark × female" in failed["message"]["text"]
    assert (tolerated["level"], tolerated["properties"]["waived"]) == ("warning", True)
    assert "waived until" in tolerated["message"]["text"]
    quality = quality_of(record, lines)
    assert [(one["severity"], one["location"]["lines"]["begin"]) for one in quality] == [("major", 11), ("minor", 12)]


def test_an_inconclusive_check_is_an_error_unless_the_run_allows_it() -> None:
    thin = gap_check("pilot", "inconclusive", sets=40)
    assert results_of(example_record([thin]))[0]["level"] == "error"
    assert results_of(example_record([thin], allow_inconclusive=True))[0]["level"] == "warning"


def test_a_run_without_a_failure_has_no_finding() -> None:
    record = example_record([fairness_check("nurse", 0.95)])
    assert results_of(record) == []
    assert quality_of(record) == []


def test_a_run_that_could_not_be_judged_is_one_finding_and_no_execution_that_succeeded() -> None:
    record = example_record([failed_computation()])
    (only,) = results_of(record)
    assert (only["ruleId"], only["level"]) == ("not-judged", "error")
    assert record.checks[0].reason[:40] in only["message"]["text"]
    invocation = json.loads(render_sarif(record, FILE, {}))["runs"][0]["invocations"][0]
    assert invocation == {"executionSuccessful": False, "exitCode": 3}


def test_a_changed_definition_and_what_is_to_review_are_findings_also_of_a_pass() -> None:
    record = team_record([fairness_check("nurse", 0.95)], notices=["another tokenizer", "another release"])
    found = [(one["ruleId"], one["level"]) for one in results_of(record)]
    assert found == [("gate-definition", "warning"), ("to-review", "note"), ("to-review", "note")]
    assert COMMIT[:10] in results_of(record)[0]["message"]["text"]
    assert len(quality_of(record)) == 3


def test_a_finding_keeps_its_fingerprint_when_numbers_and_lines_move() -> None:
    before, after = (example_record([fairness_check("doctor", value, verdict="fail")]) for value in (0.5, 0.4))
    (first,), (second,) = quality_of(before, {"fairness[doctor]": 3}), quality_of(after, {"fairness[doctor]": 9})
    assert first["fingerprint"] == second["fingerprint"]
    assert first["description"] != second["description"]
    assert results_of(before)[0]["partialFingerprints"] == {"fairgate/v1": first["fingerprint"]}
    (other,) = quality_of(after.model_copy(update={"suite": "traits"}))
    assert other["fingerprint"] != first["fingerprint"]


def test_hostile_names_make_no_link_and_no_argument_in_a_viewer() -> None:
    check = fairness_check("[a](javascript:1) {0} {12}", 0.2, verdict="fail")
    for record in (example_record([check]), vicious_record()):
        for result in results_of(record):
            text = result["message"]["text"]
            assert not re.search(r"\]\(|\{\d|[\x00-\x1f\x7f\u202e]", text)
        for one in quality_of(record):
            assert not re.search(r"[\x00-\x1f\x7f\u202e]", one["description"])


def test_a_suites_path_with_spaces_is_a_uri() -> None:
    record = example_record([fairness_check("doctor", 0.2, verdict="fail")])
    result = json.loads(render_sarif(record, "a team/é.yaml", {}))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20team/%C3%A9.yaml"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository whose suites are in a folder of it."""
    top = tmp_path_factory.mktemp("top")
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    (top / "gate").mkdir()
    return toy_repository(top / "gate")


@pytest.mark.parametrize(
    ("variable", "wanted", "other"),
    [
        ("GITHUB_ACTIONS", "results.sarif", "gl-code-quality-report.json"),
        ("GITLAB_CI", "gl-code-quality-report.json", "results.sarif"),
    ],
)
def test_the_gate_writes_the_file_that_its_ci_shows_with_the_lines_of_the_suite(
    nested: Toy, variable: str, wanted: str, other: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, "true")
    words = ["--model", "scores:biased.csv?values=logit", "--mlflow", "off", "--cache", "off", "--base", "none"]
    run = CliRunner().invoke(app, ["check", "jobs", "--root", str(nested.root), "--report", str(tmp_path), *words])
    assert run.exit_code == 1, run.output
    assert not (tmp_path / other).exists()
    found = json.loads((tmp_path / wanted).read_text())
    if wanted == "results.sarif":
        first = found["runs"][0]["results"][0]
        place = first["locations"][0]["physicalLocation"]
        path, line, check = place["artifactLocation"]["uri"], place["region"]["startLine"], first["ruleId"]
    else:
        path, line = found[0]["location"]["path"], found[0]["location"]["lines"]["begin"]
        check = found[0]["check_name"].removeprefix("fairgate/")
    assert path == "gate/fairness_suites/jobs.yaml"
    assert f"id: {check}," in SUITE.splitlines()[line - 1]


def test_elsewhere_the_report_has_neither_file_and_an_old_one_is_removed(nested: Toy, tmp_path: Path) -> None:
    (tmp_path / "results.sarif").write_text("old")
    words = ["--mlflow", "off", "--cache", "off", "--base", "none"]
    run = CliRunner().invoke(app, ["check", "jobs", "--root", str(nested.root), "--report", str(tmp_path), *words])
    assert run.exit_code == 0, run.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("comment.md", "metrics.json", "report.html", "results.json", "scores.parquet")
    ]


def test_a_record_that_another_job_made_is_rendered_for_code_scanning_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write_results(example_record([fairness_check("doctor", 0.5, verdict="fail")]), tmp_path)
    run = CliRunner().invoke(app, ["report", "render", str(tmp_path), "--out", str(tmp_path / "new")])
    assert run.exit_code == 0, run.output
    (result,) = json.loads((tmp_path / "new" / "results.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "fairness_suites/occupations.yaml"
