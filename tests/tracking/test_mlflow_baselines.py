"""Which run of MLflow's is a baseline, and what is said where none is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tracking_records import a_record

from fairgate.ground.errors import BaselineError
from fairgate.records import NeededApproval
from fairgate.reports import write_results
from fairgate.tracking import fetch_record, log_run, past_runs
from fairgate.tracking.store_session import session

APPROVAL = NeededApproval(kind="plugin", what="another version", before="none", now="0" * 64)


def logged(uri: str, folder: Path, **changes: Any) -> str:
    """A run with its record and scores."""
    approvals = changes.pop("needs_approval", [])
    record = a_record(**changes).model_copy(update={"needs_approval": approvals})
    folder.mkdir(exist_ok=True)
    scores = folder / "scores.parquet"
    scores.write_bytes(f"scores of {changes}".encode())
    return log_run(record, [write_results(record, folder), scores], uri=uri)


def day(number: int) -> str:
    return f"2026-03-{number:02d}T10:00:00+00:00"


def test_record_and_scores_come_back_byte_for_byte(uri: str, tmp_path: Path) -> None:
    run_id = logged(uri, tmp_path / "made", suite="bytes")
    for which in ("latest", run_id):
        found = fetch_record(which, "bytes", uri, tmp_path / which)
        assert found.origin == f"MLflow run {run_id}"
        assert found.results.read_bytes() == (tmp_path / "made/results.json").read_bytes()
        assert found.scores.read_bytes() == (tmp_path / "made/scores.parquet").read_bytes()


def test_the_latest_is_the_newest_passing_run_of_no_pull_request_and_no_changed_tree(uri: str, tmp_path: Path) -> None:
    wanted = logged(uri, tmp_path, suite="latest", created_at=day(5))
    logged(uri, tmp_path, suite="latest", created_at=day(4))
    logged(uri, tmp_path, suite="latest", created_at=day(6), verdict="fail")
    logged(uri, tmp_path, suite="latest", created_at=day(7), pull_request=12)
    logged(uri, tmp_path, suite="latest", created_at=day(8), git_dirty=True)
    logged(uri, tmp_path, suite="latest", created_at=day(9), needs_approval=[APPROVAL])
    logged(uri, tmp_path, suite="another", created_at=day(9))
    logged(uri, tmp_path, suite="latest", created_at="2199-01-01T10:00:00+00:00")  # of a machine whose clock is wrong
    with session(uri) as client:
        client.update_run(logged(uri, tmp_path, suite="latest", created_at=day(10)), status="RUNNING")
    assert fetch_record("latest", "latest", uri, tmp_path / "got").origin == f"MLflow run {wanted}"


def test_a_run_of_a_pull_request_can_be_named(uri: str, tmp_path: Path) -> None:
    run_id = logged(uri, tmp_path, suite="named", pull_request=12, verdict="fail")
    assert fetch_record(run_id, "named", uri, tmp_path / "got").origin == f"MLflow run {run_id}"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([], "has no experiment 'fairgate/none_"),
        ([{"verdict": "fail"}], "none of them passed"),
        (
            [{"pull_request": 3}, {"git_dirty": True}],
            "its 2 passing runs are of pull requests or changed trees",
        ),
    ],
)
def test_where_no_run_can_be_the_latest_it_is_said_why(
    made: list[dict[str, Any]], said: str, uri: str, tmp_path: Path
) -> None:
    suite = f"none_{len(made)}"
    for changes in made:
        logged(uri, tmp_path, suite=suite, **changes)
    with pytest.raises(BaselineError, match=said) as raised:
        fetch_record("latest", suite, uri, tmp_path / "got")
    assert "main branch" in (raised.value.remedy or "")


@pytest.mark.parametrize("which", ["0" * 32, "../../etc/passwd", "", "a b"])
def test_a_run_that_is_not_there_is_refused(which: str, uri: str, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"no run|not the id"):
        fetch_record(which, "bytes", uri, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_run_of_another_suite_is_refused(uri: str, tmp_path: Path) -> None:
    run_id = logged(uri, tmp_path, suite="mine")
    with pytest.raises(BaselineError, match="is of experiment 'fairgate/mine', not of suite 'yours'"):
        fetch_record(run_id, "yours", uri, tmp_path / "got")


def test_the_run_of_a_closed_gate_is_a_baseline_by_its_id_and_never_the_latest(uri: str, tmp_path: Path) -> None:
    run_id = logged(uri, tmp_path, suite="shut", verdict="fail")
    assert fetch_record(run_id, "shut", uri, tmp_path / "got").origin == f"MLflow run {run_id}"
    assert [run.verdict for run in past_runs("shut", uri)] == ["fail"]
    with pytest.raises(BaselineError, match="none of them passed"):
        fetch_record("latest", "shut", uri, tmp_path / "got")


def test_a_run_that_is_not_whole_is_refused(uri: str, tmp_path: Path) -> None:
    run_id = logged(uri, tmp_path, suite="cut")
    with session(uri) as client:
        client.update_run(run_id, status="RUNNING")
        with pytest.raises(BaselineError, match=r"not complete \(RUNNING\)"):
            fetch_record(run_id, "cut", uri, tmp_path / "got")
        client.update_run(run_id, status="FINISHED")
        client.delete_run(run_id)
    with pytest.raises(BaselineError, match="is deleted"):
        fetch_record(run_id, "cut", uri, tmp_path / "got")


def test_a_run_without_scores_is_refused(uri: str, tmp_path: Path) -> None:
    record = a_record(suite="bare")
    log_run(record, [write_results(record, tmp_path)], uri=uri)
    with pytest.raises(BaselineError, match=r"keeps no scores\.parquet"):
        fetch_record("latest", "bare", uri, tmp_path / "got")


def test_a_file_that_is_far_too_large_is_not_fetched(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged(uri, tmp_path, suite="large")
    monkeypatch.setattr("fairgate.tracking.fetch.MOST_BYTES", 4)
    with pytest.raises(BaselineError, match="at most 4 are fetched"):
        fetch_record("latest", "large", uri, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_a_server_that_is_out_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="could not be fetched from MLflow") as raised:
        fetch_record("latest", "jobs", "http://me:secret@127.0.0.1:9", tmp_path)
    assert "secret" not in str(raised.value)
