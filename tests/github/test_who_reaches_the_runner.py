"""Whose code reaches the runner with the GPU, and what the required check says where nobody's did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from github_expressions import filled, holds
from github_files import ROOT, carry_out, read

GATE = read(ROOT / ".github/workflows/fairness-gate.yml")["jobs"]
SHA, OTHER = "a1" * 20, "b2" * 20


def _event(head_repository: str, *labels: str, name: str = "pull_request") -> dict[str, Any]:
    head = {"sha": SHA, "repo": {"full_name": head_repository}}
    request = {"number": 7, "head": head, "labels": [{"name": label} for label in labels]}
    event = {"pull_request": request} if name == "pull_request" else {}
    return {"github": {"event_name": name, "repository": "team/models", "event": event}}


@pytest.mark.parametrize(
    ("context", "runs"),
    [
        (_event("team/models"), True),
        (_event("", name="push"), True),
        (_event("", name="workflow_dispatch"), True),
        (_event("", name="merge_group"), True),
        (_event("stranger/models"), False),
        (_event("stranger/models", "documentation"), False),
        (_event("stranger/models", f"fairgate/{SHA}"), True),
        (_event("stranger/models", "documentation", f"fairgate/{SHA}"), True),
        (_event("stranger/models", f"fairgate/{OTHER}"), False),
        (_event("stranger/models", "fairgate/"), False),
        (_event("stranger/models", f"fairgate/{SHA[:7]}"), False),
        (_event("stranger/models", f"x-fairgate/{SHA}-x"), False),
    ],
)
def test_a_fork_needs_the_label_of_this_very_commit(context: dict[str, Any], runs: bool) -> None:
    assert holds(GATE["gate"]["if"], context) is runs


def test_the_label_fits_into_what_github_allows() -> None:
    assert len(f"fairgate/{SHA}") <= 50


def test_the_commit_that_was_labelled_is_the_one_that_is_checked_out() -> None:
    checkout = GATE["gate"]["steps"][0]["with"]
    assert checkout["ref"] == "${{ github.event.pull_request.head.sha || github.sha }}"
    assert checkout["fetch-depth"] == 0
    assert "labeled" in read(ROOT / ".github/workflows/fairness-gate.yml")["on"]["pull_request"]["types"]


def test_a_retargeted_pull_request_and_a_merge_queue_are_judged() -> None:
    page = (ROOT / "docs" / "use" / "pull-requests.md").read_text(encoding="utf-8")
    for text in (page, (ROOT / ".github/workflows/fairness-gate.yml").read_text(encoding="utf-8")):
        types = re.search(r"types: \[(.*?)\]", text)
        assert types is not None
        assert "edited" in types[1].split(", ")
        assert re.search(r"^  merge_group:", text, re.MULTILINE)


def test_no_run_is_cancelled_but_an_older_one_of_the_same_pull_request() -> None:
    group = read(ROOT / ".github/workflows/fairness-gate.yml")["concurrency"]["group"]
    runs = [{"event": event, "run_id": run} for event, run in (({}, 1), ({}, 2), ({"pull_request": {"number": 7}}, 3))]
    assert len({filled(group, {"github": run}) for run in runs}) == 3


@pytest.mark.parametrize("event", ["pull_request", "merge_group", "push", "workflow_dispatch"])
def test_a_run_by_hand_whose_baseline_anybody_may_choose_has_not_the_name_of_the_required_check(event: str) -> None:
    """GitHub counts checks of a commit by their name, whatever started the workflow."""
    name = filled(GATE["verdict"]["name"], {"github": {"event_name": event}})
    assert name == ("By hand" if event == "workflow_dispatch" else "Fairness verdict")


def test_no_documented_workflow_can_be_started_by_hand() -> None:
    for path in ("docs/use/pull-requests.md", "examples/team/.github/workflows/fairness.yml"):
        assert "workflow_dispatch" not in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("result", "outcome", "code", "said"),
    [
        ("success", "open", 0, "The gate is open."),
        ("failure", "shut", 1, "The gate is shut"),
        ("failure", "no verdict", 1, "No verdict: the checkpoint was not judged"),
        ("failure", None, 1, "No verdict: the checkpoint was not judged"),
        ("cancelled", None, 1, "did not finish (cancelled)"),
        ("skipped", None, 1, f"adds the label fairgate/{SHA}"),
        ("", None, 1, "did not finish"),
    ],
)
def test_the_required_check_passes_only_where_the_gate_ran_and_was_open(
    tmp_path: Path, result: str, outcome: str | None, code: int, said: str
) -> None:
    job = GATE["verdict"]
    assert holds(job["if"], {})
    assert job["needs"] == "gate"
    context = {"needs": {"gate": {"result": result, "outputs": {"outcome": outcome}}}, **_event("stranger/models")}
    ran = carry_out(job["steps"][0], context, tmp_path, tmp_path / "scratch", {})
    assert ran.code == code
    assert said in ran.log
