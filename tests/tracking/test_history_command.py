"""`fairgate history`, from runs as they were logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tracking_records import a_check, a_record
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import ModelInfo, RunRecord
from fairgate.records.history import PastValue
from fairgate.tracking import log_run, past_runs, past_values

KNOWN = {"git_dirty": False, "git_branch": "main"}


def a_day(number: int, value: float, suite: str = "told", **changes: Any) -> RunRecord:
    checks = [
        a_check("skew", "soup @ chef", value=value, lo=value - 0.01, hi=value + 0.01, better="lower"),
        a_check("skew", None, value=0.2, lo=0.1, hi=0.3, better="lower"),
    ]
    created = f"2026-03-{number:02d}T10:00:00+00:00"
    commit = f"{number:07d}" + "c" * 33
    place = {**KNOWN, "git_height": number}
    return a_record(
        **{"suite": suite, "checks": checks, "created_at": created, "git_commit": commit, **place, **changes}
    )


@pytest.fixture(scope="module")
def told(uri: str) -> str:
    for number, value in [(3, 0.5), (1, 0.3), (2, 0.3)]:  # a backfilled history: commits give the order, not sending
        log_run(a_day(number, value), [], uri=uri)
    log_run(a_day(4, 0.9, pull_request=7), [], uri=uri)
    log_run(a_day(5, 0.3, git_branch="topic"), [], uri=uri)
    log_run(a_day(6, 0.3, dataset=("v2", "e")), [], uri=uri)
    return uri


def ask(uri: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["history", *words, "--mlflow", uri])


def test_the_commit_at_which_a_number_moved_is_told(told: str) -> None:
    done = ask(told, "told", "--branch", "main")
    assert done.exit_code == 0, done.output
    assert "told: 4 runs from 2026-03-01 to 2026-03-06, in the order of their commits" in done.output
    same = "; the checkpoint is the same, abcdef01"
    assert f"moved at 0000003 (2026-03-03){same}:\n  skew[soup - chef] 0.300 → 0.500, +0.200" in done.output
    assert "cut at 0000006 (2026-03-06): dataset occupations/v1 became occupations/v2" in done.output
    assert "more than both intervals allow" in done.output


def test_a_history_of_mlflow_that_is_off_names_no_server() -> None:
    done = ask("off", "told")
    assert done.exit_code == 4
    assert "error: MLflow is off." in done.output


def test_checkpoints_that_are_not_tracked_are_points_of_their_own_in_the_order_of_time(uri: str) -> None:
    for day, value, letter in [(3, 0.3, "c"), (1, 0.3, "a"), (2, 0.8, "b")]:
        run = a_day(day, value, "untracked", git_commit="9" * 40, git_height=7)
        log_run(run.model_copy(update={"model": ModelInfo(uri="m", fingerprint=letter * 64)}), [], uri=uri)
    told = ask(uri, "untracked").output
    assert "untracked: 3 runs" in told
    moved = [line for line in told.splitlines() if line.startswith("moved at")]
    assert moved == [
        "moved at checkpoint bbbbbbbb (2026-03-02), before it aaaaaaaa, both at commit 9999999:",
        "moved at checkpoint cccccccc (2026-03-03), before it bbbbbbbb, both at commit 9999999:",
    ]
    values = past_values(a_day(4, 0.4, "untracked"), uri)
    assert [one.model[0] for one in values if one.model and one.item == "skew[soup @ chef]"] == ["a", "b", "c"]


def test_runs_of_pull_requests_are_told_only_when_asked_for(told: str) -> None:
    assert "5 runs" in ask(told, "told").output
    shown = ask(told, "told", "--pull-requests").output
    assert "6 runs" in shown
    assert "moved at #7 0000004" in shown


def test_an_item_is_chosen_and_only_so_many_runs_are_read(told: str) -> None:
    chosen = ask(told, "told", "--check", "skew[soup @ chef]", "--limit", "2").output
    assert "told: 2 runs" in chosen
    assert chosen.count("skew") == 1
    assert ask(told, "told", "--subject", "soup @ chef").exit_code == 0


def test_it_is_drawn_into_a_file(told: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "told.html"
    done = ask(told, "told", "--out", str(out))
    assert f"drawn: {out}" in done.output
    assert out.stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody"], "has no experiment 'fairgate/nobody'"),
        (["told", "--branch", "nowhere"], "no finished run"),
        (["told", "--check", "skwe"], "did you mean 'skew'?"),
        (["told", "--out", "told.pdf"], "name it FILE.html"),
        (["told", "--out", "/dev/null/told.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_told_is_exit_code_4_and_says_why(words: list[str], said: str, told: str) -> None:
    done = ask(told, *words)
    assert done.exit_code == 4
    assert said in done.output


def test_without_known_heights_time_gives_the_order(uri: str) -> None:
    for number in (2, 1):
        log_run(a_day(number, 0.3, "timed", git_height=None), [], uri=uri)
    assert "in the order of time" in ask(uri, "timed").output
    assert [run.created_at[:10] for run in past_runs("timed", uri)] == ["2026-03-01", "2026-03-02"]


def test_earlier_values_are_those_that_can_be_compared(told: str) -> None:
    now = a_day(9, 0.4)
    values = [value for value in past_values(now, told) if value.item == "skew[soup @ chef]"]
    assert [(one.created_at[8:10], one.value) for one in values] == [("01", 0.3), ("02", 0.3), ("03", 0.5), ("05", 0.3)]
    first = values[0]
    assert first == PastValue(
        f"{1:07d}" + "c" * 33, first.created_at, first.item, 0.3, 0.29, 0.31, 0.9, "abcdef0123456789" * 4
    )
    assert past_values(a_day(9, 0.4, asked="q"), told) == []


def test_a_run_of_an_older_version_has_k_in_the_name_of_the_metric(uri: str) -> None:
    from fairgate.tracking.store_session import session

    with session(uri) as client:
        experiment = client.create_experiment("fairgate/older")
        run = client.create_run(experiment)
        text = '{"metric": "max_skew_at_100", "better": "lower", "rule": "at_most", "against": null, "asked": "a"}'
        client.log_param(run.info.run_id, "asks/skew", text)
        client.log_metric(run.info.run_id, "skew/all", 0.3)
        client.set_terminated(run.info.run_id)
    assert "MaxSkew@100" in ask(uri, "older").output


def test_a_param_that_somebody_else_wrote_is_passed_over(uri: str) -> None:
    from fairgate.tracking.store_session import session

    with session(uri) as client:
        experiment = client.create_experiment("fairgate/foreign")
        odd = '{"metric": "m", "k": "1", "rule": "r", "asked": "a"}'
        for number, text in enumerate(
            ["{", "[]", "3", '{"metric": 1, "rule": "r", "asked": "a"}', '{"metric": "m"}', odd]
        ):
            run = client.create_run(experiment)
            client.log_param(run.info.run_id, "asks/skew", text)
            client.log_metric(run.info.run_id, "skew/all", number)
            client.set_terminated(run.info.run_id)
    assert "keep no number of any check" in ask(uri, "foreign").output
