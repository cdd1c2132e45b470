"""Whose code reaches the runner with the GPU, and what the required check says where nobody's did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from github_expressions import holds
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


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        ("success", 0, "The gate is open."),
        ("failure", 1, "The gate is shut"),
        ("cancelled", 1, "did not finish (cancelled)"),
        ("skipped", 1, f"adds the label fairgate/{SHA}"),
        ("", 1, "did not finish"),
    ],
)
def test_the_required_check_passes_only_where_the_gate_ran_and_was_open(
    tmp_path: Path, result: str, code: int, said: str
) -> None:
    job = GATE["verdict"]
    assert holds(job["if"], {})
    assert job["needs"] == "gate"
    context = {"needs": {"gate": {"result": result}}, **_event("stranger/models")}
    ran = carry_out(job["steps"][0], context, tmp_path, tmp_path / "scratch", {})
    assert ran.code == code
    assert said in ran.log
