"""The workflow that docs/use/pull-requests.md gives to copy, carried out whole by a local runner (act)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attack_world import ROOT, ToyRepository
from dvc_objects_by_hand import Objects, config, pointer
from local_runner import ACT, Outcome, run_workflow
from test_gate_definition import loose
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app

PAGE = (ROOT / "docs" / "use" / "pull-requests.md").read_text(encoding="utf-8")
GATE = re.search(r"`\.github/workflows/fairness-gate\.yml`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL)

pytestmark = pytest.mark.skipif(not ACT.exists(), reason="act is not installed here")


@pytest.fixture
def tracked(toy_repo: ToyRepository) -> ToyRepository:
    """The toy repository with its dataset under DVC, in a remote that lives in the repository."""
    folder = toy_repo.root / "datasets"
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    md5 = Objects(toy_repo.root / ".dvc" / "remote").add_folder(files)
    (toy_repo.root / ".dvc" / "config").write_text(config("remote"), encoding="utf-8")
    (toy_repo.root / "datasets.dvc").write_text(pointer("datasets", f"{md5}.dir"), encoding="utf-8")
    with (toy_repo.root / ".gitignore").open("a", encoding="utf-8") as handle:
        handle.write("/datasets\n")
    toy_repo.git("rm", "--quiet", "-r", "--cached", "datasets")
    toy_repo.push("the dataset is tracked by DVC")
    return toy_repo


def _run(repository: ToyRepository, folder: Path, event: str, payload: dict[str, object]) -> Outcome:
    assert GATE is not None
    text = GATE[1].replace("suite: faces", "suite: jobs")
    return run_workflow(text, event, payload, remote=repository.origin, folder=folder)


def _pull_request(repository: ToyRepository, head: str, *, owner: str = "team") -> dict[str, object]:
    team = {"full_name": "team/models", "name": "models", "owner": {"login": "team"}, "default_branch": "main"}
    return {
        "action": "synchronize",
        "number": 7,
        "repository": team,
        "pull_request": {
            "number": 7,
            "head": {"sha": head, "ref": "change", "repo": {"full_name": f"{owner}/models"}},
            "base": {"ref": "main", "sha": repository.git("rev-parse", "main"), "repo": team},
            "labels": [],
        },
    }


def test_a_harmless_pull_request_is_green_in_both_jobs(tracked: ToyRepository, tmp_path: Path) -> None:
    tracked.branch()
    tracked.use("tuned")
    head = tracked.push("fine-tuned")
    done = _run(tracked, tmp_path / "act", "pull_request", _pull_request(tracked, head))
    assert done.jobs == {"gate": "success", "verdict": "success"}, done.log
    assert "jobs: pass" in done.log


def test_a_more_biased_pull_request_is_red_in_both_jobs_and_names_the_group(
    tracked: ToyRepository, tmp_path: Path
) -> None:
    tracked.branch()
    tracked.use("biased")
    head = tracked.push("fine-tuned")
    done = _run(tracked, tmp_path / "act", "pull_request", _pull_request(tracked, head))
    assert done.jobs == {"gate": "failure", "verdict": "failure"}, done.log
    assert "dark × female" in done.log


@pytest.mark.nightly
def test_a_pull_request_that_needs_an_approval_is_red_and_says_so(tracked: ToyRepository, tmp_path: Path) -> None:
    tracked.branch()
    tracked.use("tuned")
    loose(tracked)
    head = tracked.push("wider margins")
    done = _run(tracked, tmp_path / "act", "pull_request", _pull_request(tracked, head))
    assert done.jobs == {"gate": "failure", "verdict": "failure"}, done.log
    assert "outcome=needs approval" in done.log
    assert "exit status 10" in done.log


@pytest.mark.nightly
def test_a_weaker_gate_is_red_and_names_what_it_asks_first_until_main_approves_it(
    tracked: ToyRepository, tmp_path: Path
) -> None:
    tracked.branch()
    tracked.use("tuned")
    loose(tracked)
    head = tracked.push("wider margins")
    asked = _run(tracked, tmp_path / "asked", "pull_request", _pull_request(tracked, head))
    assert asked.jobs == {"gate": "failure", "verdict": "failure"}, asked.log
    assert "set-output:: outcome=needs approval" in asked.log
    commands = re.findall(r"::(?:error|warning|notice) title=.*", asked.log)
    assert commands[0].startswith("::error title=jobs%3A needs approval::definition: the gate may be weaker")
    report = tmp_path / "asked" / "artifacts" / "fairness-report-faces"
    comment = (report / "comment.md").read_text(encoding="utf-8")
    assert re.findall(r"^\*\*(.*)\*\*", comment, re.MULTILINE)[0] == "Needs an approval before it is merged:", comment
    tracked.branch("main", "main")
    words = ["approve", "jobs", "--from", str(report), "--reason", "weighed in issue 7", "--root", str(tracked.root)]
    approved = CliRunner().invoke(app, words)
    assert approved.exit_code == 0, approved.output
    tracked.push("approved")
    again = _run(tracked, tmp_path / "again", "pull_request", _pull_request(tracked, head))
    assert again.jobs == {"gate": "success", "verdict": "success"}, again.log
    assert "set-output:: outcome=open" in again.log


def test_a_fork_without_the_label_is_not_judged_and_its_required_check_is_red(
    tracked: ToyRepository, tmp_path: Path
) -> None:
    tracked.branch()
    tracked.use("tuned")
    head = tracked.push("fine-tuned")
    done = _run(tracked, tmp_path / "act", "pull_request", _pull_request(tracked, head, owner="stranger"))
    assert done.jobs.get("gate", "skipped") == "skipped", done.log
    assert done.jobs["verdict"] == "failure", done.log
