"""The report action, step by step with a `gh` that is not GitHub's: what is read, refused, and written where."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from example_records import example_record, fairness_check
from fake_gh import install_gh
from github_expressions import holds
from github_files import REPORT, ROOT, Ran, carry_out, defaults, read, step_of
from warm_python import warm_python

from fairgate.records import CheckResult
from fairgate.reports import write_results

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed here")

ACTION = REPORT / "action.yml"
SHA, OTHER, BOT = "a1" * 20, "b2" * 20, "github-actions[bot]"
MARKER = "<!-- fairgate:occupations -->"
HOSTILE_BRANCH = "x$(touch${IFS}pwned)`touch${IFS}pwned`;'\"&state=open"


@dataclass
class Hub:
    """A repository on a GitHub of our own, and the run that the report action is told of."""

    root: Path
    branch: str = "feature"
    event: str = "pull_request"
    sha: str = SHA

    @property
    def state(self) -> Path:
        return self.root / "hub.json"

    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state.read_text(encoding="utf-8"))
        return found

    def add(self, kind: str, *what: dict[str, Any]) -> None:
        known = self.now()
        known[kind] += what
        self.state.write_text(json.dumps(known), encoding="utf-8")

    def pull(self, number: int, sha: str = SHA, owner: str = "stranger", branch: str = "feature") -> None:
        self.add("pulls", {"number": number, "label": f"{owner}:{branch}", "head": {"sha": sha}})

    def artifact(self, number: int, checks: Sequence[CheckResult] | None = None, **said: Any) -> Path:
        """An artifact with a record of pull request 7's head, unless said otherwise."""
        record = example_record(checks)
        origin = {"git_commit": said.pop("commit", SHA), "pull_request": said.pop("of", 7)}
        made = record.model_copy(update={"environment": record.environment.model_copy(update=origin)})
        made = made.model_copy(update={name: said.pop(name) for name in ("suite", "verdict") if name in said})
        folder = self.root / f"made-{number}"
        file = self.root / f"{number}.zip"
        with zipfile.ZipFile(file, "w") as archive:
            archive.write(write_results(made, folder), "results.json")
            archive.writestr("comment.md", f"{MARKER}\nAll is well, says the artifact.")
        self.add("artifacts", {"id": number, "name": "fairness-report-x", "expired": False, "file": str(file), **said})
        return file

    def comment(self, number: int, author: str, body: str, issue: int = 7) -> None:
        self.add("comments", {"id": number, "issue": issue, "user": {"login": author}, "body": body})

    def comments(self) -> list[tuple[str, str]]:
        """(author, first line and second) of every comment."""
        return [(one["user"]["login"], one["body"]) for one in self.now()["comments"]]

    def report(self) -> list[Ran]:
        """Carry out the action's steps but the installation, in order, as their conditions let them."""
        run = {"id": 99, "event": self.event, "head_sha": self.sha, "head_branch": self.branch}
        run |= {"html_url": "https://ci.example/runs/99", "head_repository": {"owner": {"login": "stranger"}}}
        github = {"repository": "team/models", "token": "token", "event": {"workflow_run": run}}
        outputs: dict[str, dict[str, str]] = {"install": {"python": warm_python()}}
        steps = {name: {"outputs": one} for name, one in outputs.items()}
        context = {"github": github, "inputs": defaults(ACTION), "steps": steps}
        scratch = self.root / f"runner-{len(list(self.root.glob('runner-*')))}"
        env = {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(REPORT)}
        done: list[Ran] = []
        for name in ("Find and download", "Validate and render", "Comment"):
            step = step_of(ACTION, name)
            failed = any(ran.code for ran in done)
            if ("cancelled" not in step.get("if", "") and failed) or not holds(step.get("if", "true"), context):
                continue
            ran = carry_out(step, context, self.root, scratch, env)
            steps[step.get("id", name)] = {"outputs": ran.outputs}
            done.append(ran)
        return done


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(tmp_path)
    made.state.write_text(json.dumps({"pulls": [], "artifacts": [], "comments": [], "asked": []}), encoding="utf-8")
    install_gh(tmp_path / "bin", made.state)
    return made


def test_the_first_run_comments_and_the_next_one_replaces_it(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1)
    assert [ran.code for ran in hub.report()] == [0, 0, 0]
    ((author, body),) = hub.comments()
    assert author == BOT
    assert body.startswith(f"{MARKER}\n## ")
    assert "dark × female" in body
    assert "https://ci.example/runs/99#artifacts" in body
    assert "says the artifact" not in body

    hub.state.write_text(json.dumps({**hub.now(), "artifacts": []}), encoding="utf-8")
    hub.artifact(2, [fairness_check("doctor", 0.99)])
    assert [ran.code for ran in hub.report()] == [0, 0, 0]
    ((_, second),) = hub.comments()
    assert second.startswith(f"{MARKER}\n## ")
    assert "dark × female" not in second


def test_a_strangers_comment_with_the_same_marker_is_not_touched(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1)
    hub.comment(1, "stranger", f"{MARKER}\nmine")
    hub.comment(2, BOT, f"see {MARKER}")
    hub.comment(3, BOT, "<!-- fairgate:other-suite -->\nits own")
    hub.comment(4, BOT, f"{MARKER}\nof another pull request", issue=8)
    hub.report()
    kept = hub.comments()
    assert kept[:4] == [
        ("stranger", f"{MARKER}\nmine"),
        (BOT, f"see {MARKER}"),
        (BOT, "<!-- fairgate:other-suite -->\nits own"),
        (BOT, f"{MARKER}\nof another pull request"),
    ]
    assert len(kept) == 5
    hub.report()
    assert len(hub.comments()) == 5


def test_every_suite_has_a_comment_of_its_own(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1)
    hub.artifact(2, suite="retrieval")
    assert [ran.code for ran in hub.report()] == [0, 0, 0]
    assert sorted(body.splitlines()[0] for _, body in hub.comments()) == [MARKER, "<!-- fairgate:retrieval -->"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"of": 8}, "the record is of pull request 8, not of 7"),
        ({"of": None}, "the record is of no pull request, not of 7"),
        ({"commit": OTHER}, "the record is of commit"),
        ({"verdict": "pass"}, "contradicts itself"),
    ],
)
def test_a_forged_record_is_told_to_nobody(hub: Hub, said: dict[str, Any], why: str) -> None:
    hub.pull(7)
    hub.pull(8, sha=OTHER)
    hub.artifact(1, **said)
    ran = hub.report()
    assert [one.code for one in ran] == [0, 1]
    assert why in ran[1].log
    assert ran[1].obeyed == [
        "::error title=fairgate::1 report(s) were refused: damaged, forged, or of another run. The log says which."
    ]
    assert hub.comments() == []


def test_one_forged_record_does_not_silence_the_others(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1, of=8)
    hub.artifact(2, suite="retrieval")
    assert [ran.code for ran in hub.report()] == [0, 1, 0]
    assert [body.splitlines()[0] for _, body in hub.comments()] == ["<!-- fairgate:retrieval -->"]


def test_an_archive_that_leads_elsewhere_is_refused_without_a_trace(hub: Hub) -> None:
    hub.pull(7)
    file = hub.artifact(1)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../pwned", "x")
        archive.writestr("a\n::add-mask::a", "x")
    ran = hub.report()
    assert ran[1].code == 1
    assert not list(hub.root.rglob("pwned"))
    assert all(line.startswith("::error title=fairgate::") for line in ran[1].obeyed)


def test_an_artifact_of_a_size_that_no_report_has_is_not_downloaded(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1, size_in_bytes=10**10)
    (ran,) = hub.report()
    assert ran.outputs["found"] == "false"
    assert not any("zip" in address for _, address in hub.now()["asked"])


def test_artifacts_that_are_no_reports_or_gone_are_left_alone(hub: Hub) -> None:
    hub.pull(7)
    hub.artifact(1, name="wheels")
    hub.artifact(2, expired=True)
    (ran,) = hub.report()
    assert ran.outputs["found"] == "false"
    assert ran.obeyed == ["::notice title=fairgate::The run kept no report; its log says why."]


def test_a_pull_request_whose_head_moved_on_is_left_to_the_newer_run(hub: Hub) -> None:
    hub.pull(7, sha=OTHER)
    hub.artifact(1)
    (ran,) = hub.report()
    assert ran.outputs == {"found": "false"}
    assert hub.comments() == []


def test_a_head_of_two_pull_requests_is_told_to_the_one_that_ran(hub: Hub) -> None:
    hub.pull(6)
    hub.pull(7)
    hub.artifact(1)
    assert [ran.code for ran in hub.report()] == [0, 0, 0]
    assert [one["issue"] for one in hub.now()["comments"]] == [7]


def test_a_run_of_a_branch_is_validated_and_comments_nowhere(hub: Hub) -> None:
    hub.event = "push"
    hub.artifact(1, of=None)
    first, second = hub.report()
    assert (first.code, second.code) == (0, 0)
    assert second.outputs["folder"].endswith("fairgate-reports")
    assert hub.comments() == []


def test_whatever_a_branch_is_called_nothing_of_it_runs(hub: Hub) -> None:
    hub.branch = HOSTILE_BRANCH
    hub.pull(7, branch=HOSTILE_BRANCH)
    hub.artifact(1)
    assert [ran.code for ran in hub.report()] == [0, 0, 0]
    assert len(hub.comments()) == 1
    assert not list(hub.root.rglob("pwned"))


def test_the_job_that_tells_mlflow_names_the_pull_request(hub: Hub, tmp_path: Path) -> None:
    for number, of in ((1, 7), (2, None)):
        folder = tmp_path / "reports" / str(number)
        folder.mkdir(parents=True)
        record = {"environment": {"pull_request": of}}
        (folder / "results.json").write_text(json.dumps(record), encoding="utf-8")
    step = read(ROOT / ".github/workflows/fairness-report.yml")["jobs"]["mlflow"]["steps"][-1]
    outputs = {"python": "echo", "folder": str(tmp_path / "reports")}
    ran = carry_out(step, {"steps": {"report": {"outputs": outputs}}}, tmp_path, tmp_path / "scratch", {})
    said = [line.split("push ")[1] for line in ran.log.splitlines()]
    assert said == [f"--from {tmp_path}/reports/1/ --pull-request 7", f"--from {tmp_path}/reports/2/"]
