"""`fairgate push --from`: a report that another job made, and that nobody vouches for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from toy_repository import Toy
from tracking_records import a_record
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results, write_results
from fairgate.suites import load_suite
from fairgate.tracking import fetch_record
from fairgate.tracking.store_session import session


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "report"
    write_results(a_record(suite=f"pushed_{tmp_path.name}"[:60]), folder)
    (folder / "scores.parquet").write_bytes(b"PAR1 and more PAR1")
    (folder / "report.html").write_text("<script>alert(1)</script>")
    (folder / "comment.md").write_text("@everyone, all is well")
    return folder


def send(folder: Path, uri: str, *more: str) -> Result:
    return CliRunner().invoke(
        app, ["push", "--from", str(folder), "--mlflow", uri, *more], env={"GITHUB_EVENT_PATH": "", "GITHUB_REF": ""}
    )


def run_of(done: Result) -> str:
    assert done.exit_code == 0, done.output
    return done.output.partition("as run ")[2].split()[0]


def test_record_and_scores_are_sent_and_pages_are_not(report: Path, uri: str, tmp_path: Path) -> None:
    run_id = run_of(send(report, uri))
    with session(uri) as client:
        assert [item.path for item in client.list_artifacts(run_id)] == ["comment.md", "results.json", "scores.parquet"]
        comment = Path(client.download_artifacts(run_id, "comment.md", str(tmp_path))).read_text()
    assert "everyone" not in comment
    assert "passed" in comment
    suite = read_results(report / "results.json").suite
    found = fetch_record("latest", suite, uri, tmp_path / "got")
    assert found.results.read_bytes() == (report / "results.json").read_bytes()
    assert found.scores.read_bytes() == (report / "scores.parquet").read_bytes()
    assert run_of(send(report, uri)) == run_id


def test_a_pull_request_that_the_sender_knows_of_keeps_the_run_from_being_the_latest(
    report: Path, uri: str, tmp_path: Path
) -> None:
    run_id = run_of(send(report, uri, "--pull-request", "12"))
    with session(uri) as client:
        assert client.get_run(run_id).data.tags["fairgate.pull_request"] == "12"


def test_a_pull_request_without_a_report_is_refused(uri: str, tmp_path: Path) -> None:
    command = ["push", "--queue", str(tmp_path), "--mlflow", uri, "--pull-request", "7"]
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "with --from" in refused.output) == (4, True)


def test_a_workflow_after_a_pull_requests_says_so_by_itself(report: Path, uri: str, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"workflow_run": {"event": "pull_request", "pull_requests": []}}))
    command = ["push", "--from", str(report), "--mlflow", uri]
    run_id = run_of(
        CliRunner().invoke(app, command, env={"GITHUB_EVENT_PATH": str(event), "GITHUB_REF": "refs/heads/main"})
    )
    with session(uri) as client:
        assert client.get_run(run_id).data.tags["fairgate.pull_request"] == "unknown"


def test_the_suite_goes_with_it_where_it_is_the_one_that_was_run(toy: Toy, uri: str, tmp_path: Path) -> None:
    digest = load_suite(toy.suite, toy.root).digest
    folder = tmp_path / "report"
    write_results(a_record(suite="jobs").model_copy(update={"suite_digest": digest}), folder)
    (folder / "jobs.yaml").write_bytes(toy.suite.read_bytes())
    assert "jobs.yaml as run" in send(folder, uri).output
    (folder / "jobs.yaml").write_text(toy.suite.read_text().replace("at_least: 0.9}", "at_least: 0.8}"))
    write_results(a_record(suite="jobs", seconds=8.0).model_copy(update={"suite_digest": digest}), folder)
    other = send(folder, uri)
    assert other.exit_code == 0
    assert "jobs.yaml is left out: it is not the suite" in other.output
    (folder / "jobs.yaml").write_text("a: &a [*a]")
    assert "jobs.yaml is left out:" in send(folder, uri).output


def test_a_link_is_not_followed(report: Path, uri: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"PAR1 a secret PAR1")
    (report / "scores.parquet").unlink()
    (report / "scores.parquet").symlink_to(secret)
    done = send(report, uri)
    assert done.exit_code == 4
    assert "holds a link" in done.output


def test_what_is_no_table_of_scores_is_refused(report: Path, uri: str) -> None:
    for content in (b"", b"PAR", b"#!/bin/sh"):
        (report / "scores.parquet").write_bytes(content)
        done = send(report, uri)
        assert (done.exit_code, "not a Parquet file" in done.output) == (4, True)


def test_a_forged_or_missing_record_is_refused(report: Path, uri: str) -> None:
    data = json.loads((report / "results.json").read_text())
    data["checks"][0]["verdict"] = "fail"
    (report / "results.json").write_text(json.dumps(data))
    assert send(report, uri).exit_code == 4
    (report / "results.json").unlink()
    assert "results.json" in send(report, uri).output


def test_an_outage_is_exit_code_1_and_the_folder_stays(report: Path) -> None:
    done = send(report, "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "MLflow did not take the run" in done.output
    assert (report / "results.json").is_file()
