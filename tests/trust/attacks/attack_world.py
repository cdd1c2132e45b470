"""A scratch team, pull requests that try to influence their own verdict, and the action that judges them.

Two worlds: `toy` judges tables of scores (no torch, seconds a run), `team` real tiny embedded checkpoints.
`judge` carries out the action's own scripts, as a runner does, in a fresh clone of what was pushed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from github_expressions import holds
from github_files import ACTION, Ran, carry_out, defaults, read
from scratch_git import ScratchGit, scratch_git
from typer.testing import CliRunner
from warm_python import warm_python

from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import read_results

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "build" / "portraits" / "checkpoints"
REPORT = "fairness-report"
KNOWN_TABLES = "known tables"

TEAM_SUITE = """\
schema: 1
suite: jobs
dataset: faces
model: open_clip:local-dir:checkpoint
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: {chef: [chef, line cook, server], doctor: [doctor, nurse, pharmacist]}
  search:
    kind: retrieval
    prompts: ["{subject}", "a photo of {a_subject}"]
checks:
  - {id: fairness, probe: labels, metric: fairness, by: subject, at_least: 0.85}
  - {id: no-regression, probe: labels, metric: fairness, by: subject, no_worse_than: baseline, margin: 0.02}
  - {id: gaps, probe: labels, metric: group_gap, over: crossed, by: subject, no_worse_than: baseline, margin: 0.06}
  - {id: sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.06}
  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.02}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.02}
"""


@dataclass(frozen=True)
class Judged:
    """What the action's steps did: the job's exit code, its log, the record and comment that it left, if any."""

    code: int
    log: str
    verdict: str
    ran: Ran
    folder: Path

    @property
    def record(self) -> RunRecord:
        """The record; an error that shows the log where there is none."""
        assert (self.folder / "results.json").is_file(), self.log
        return read_results(self.folder / "results.json")

    @property
    def comment(self) -> str:
        """What would be posted on the pull request."""
        return (self.folder / "comment.md").read_text(encoding="utf-8")

    @property
    def failed(self) -> set[str]:
        """The items that failed."""
        return {check.item for check in self.record.checks if check.verdict == "fail"}

    @property
    def notices(self) -> str:
        """What is shown next to the verdict."""
        return "\n".join(self.all_notices)

    @property
    def all_notices(self) -> list[str]:
        """The same, one by one; without the edits of known tables, which main approves in this world."""
        return [notice for notice in self.record.notices if KNOWN_TABLES not in notice]

    @property
    def asks_for(self) -> list[str]:
        """The kinds of changes that a person has to approve."""
        return [each.kind for each in self.record.needs_approval]


@dataclass
class Repository:
    """A team's working copy, its bare remote `origin`, and a runner."""

    root: Path
    origin: Path
    runner: Path
    git: ScratchGit
    suite_name: str = "jobs"
    jobs: int = field(default=0)

    @property
    def suite(self) -> Path:
        return self.root / "fairness_suites" / f"{self.suite_name}.yaml"

    def use(self, name: str, place: str = "checkpoint") -> Path:
        """Put one of the shipped checkpoints (base, tuned, biased, whackamole) where the team keeps its own."""
        folder = self.root / place
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SHIPPED / name, folder)
        for path in folder.rglob("*"):
            path.touch()  # git takes files of one size, second and place for the same
        return folder

    def branch(self, name: str = "change", start: str = "main") -> None:
        """A branch of a contributor; what is not committed is forgotten."""
        self.git("checkout", "--quiet", "--force", "-B", name, start)
        self.git("clean", "--quiet", "-d", "--force")

    def push(self, message: str = "a change", *, branch: str | None = None) -> str:
        """Commit everything and push the branch; the commit."""
        commit = self.git.commit(message)
        self.git("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch or self.current}")
        return commit

    @property
    def current(self) -> str:
        return self.git("rev-parse", "--abbrev-ref", "HEAD")

    def update_baseline(self, reason: str = "the checkpoint in use", *words: str) -> None:
        """`fairgate baseline update` on a developer's machine."""
        options = [
            "--root",
            str(self.root),
            "--mlflow",
            "off",
            "--cache",
            f"{os.environ['XDG_STATE_HOME']}/cache-of-a-developer",
            *words,
        ]
        result = CliRunner().invoke(
            app,
            ["baseline", "update", self.suite_name, "--reason", reason, *options],
            env={"CI": "", "FAIRGATE_BASE": ""},
        )
        assert result.exit_code == 0, result.output

    def judge(
        self,
        branch: str | None = None,
        *,
        event: str = "pull_request",
        base: str = "main",
        default_branch: str = "main",
        before: str | None = None,
        environment: Mapping[str, str] | None = None,
        ignored: tuple[str, ...] = (),
        fresh: bool = True,
        **inputs: str,
    ) -> Judged:
        """Carry out the action for an event, in a clone of what was pushed to `branch` (the present one).

        `event` is pull_request, merge_group, push or workflow_dispatch, `base` the base branch of the first two and
        `before` the pushed range's start. `ignored` names files and folders of the working copy that git ignores and
        that the job has by other means (a dataset that was pulled). Jobs share a cache, as on a runner that lives on.
        """
        self.jobs += 1
        branch = branch or self.current
        work, temp = self.runner / f"job{self.jobs}" / "work", self.runner / f"job{self.jobs}" / "temp"
        if fresh:
            ScratchGit(self.runner)("clone", "--quiet", str(self.origin), str(work))
            git = ScratchGit(work)
            git("checkout", "--quiet", "--detach", f"origin/{branch}")
            for name in ("datasets", *ignored):
                if (self.root / name).exists() and not (work / name).exists():
                    link_or_copy(self.root / name, work / name)
        head = ScratchGit(work)("rev-parse", "HEAD")
        github = _github(event, branch=branch, base=base, head=head, before=before, default_branch=default_branch)
        payload = temp / "event.json"
        payload.parent.mkdir(parents=True, exist_ok=True)
        payload.write_text(json.dumps(github["event"]), encoding="utf-8")
        env = {
            "CI": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_BASE_REF": github["base_ref"],
            "GITHUB_HEAD_REF": github["head_ref"],
            "GITHUB_REF": github["ref"],
            "GITHUB_REF_NAME": branch,
            "GITHUB_SHA": head,
            "GITHUB_WORKSPACE": str(work),
            "GITHUB_REPOSITORY": "team/models",
            "GITHUB_SERVER_URL": "https://github.invalid",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **(environment or {}),
        }
        named = {"cache": f"{os.environ['XDG_STATE_HOME']}/cache-of-jobs"}
        named |= {name.replace("_", "-"): text for name, text in inputs.items()}
        given = {**defaults(ACTION), "suite": self.suite_name, "python": warm_python(), "report": REPORT, **named}
        context: dict[str, object] = {"inputs": given, "github": github, "steps": {}, "runner": {"temp": str(temp)}}
        return _carried_out(context, work, temp, env)


def _carried_out(context: dict[str, object], work: Path, temp: Path, env: Mapping[str, str]) -> Judged:
    """Every scripted step of the action in order, as the runner does: after a failure only those whose `if` says so."""
    code, logs, gate, verdict = 0, [], None, "error"
    outputs: dict[str, dict[str, object]] = {}
    context["steps"] = outputs
    for step in read(ACTION)["runs"]["steps"]:
        if "run" not in step or step.get("name") in ("Install fairgate", "Tell MLflow"):
            continue
        condition = step.get("if")
        if condition is None and code:
            continue
        if condition is not None and not holds(str(condition), context):
            continue
        ran = carry_out(step, context, work, temp, env)
        logs.append(ran.log)
        if "id" in step:
            outputs[step["id"]] = {"outputs": ran.outputs, "outcome": "failure" if ran.code else "success"}
        if step.get("id") == "gate":
            gate, verdict = ran, ran.outputs.get("verdict", "error")
        code = code or ran.code
    assert gate is not None or code, logs
    return Judged(code, "\n".join(logs), verdict, gate or ran, work / REPORT)


def _github(
    event: str, *, branch: str, base: str, head: str, before: str | None, default_branch: str
) -> dict[str, object]:
    """The `github` context and payload, as far as an action reads them."""
    payload: dict[str, object] = {"repository": {"default_branch": default_branch, "full_name": "team/models"}}
    ref = f"refs/heads/{branch}"
    if event == "pull_request":
        payload |= {
            "action": "synchronize",
            "number": 7,
            "pull_request": {
                "number": 7,
                "base": {"ref": base, "repo": {"full_name": "team/models"}},
                "head": {"ref": branch, "sha": head, "repo": {"full_name": "team/models"}},
                "labels": [],
            },
        }
        ref = "refs/pull/7/merge"
    elif event == "merge_group":
        payload["merge_group"] = {"base_ref": f"refs/heads/{base}", "head_ref": ref, "head_sha": head}
    elif event == "push":
        payload |= {"before": before or "0" * 40, "after": head, "ref": ref}
    pull = event == "pull_request"
    return {
        "event_name": event,
        "event": payload,
        "base_ref": base if pull else "",
        "head_ref": branch if pull else "",
        "ref": ref,
        "ref_name": branch,
        "sha": head,
        "token": "",
        "repository": "team/models",
    }


def link_or_copy(source: Path, target: Path) -> None:
    """A copy of a file or folder."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


class ToyRepository(Repository):
    """A repository whose model is a table of scores."""

    def use(self, name: str, place: str = "model.csv") -> Path:
        """Put base, tuned or biased scores where the suite's model is."""
        return Path(shutil.copy(self.root.parent / f"{name}.csv", self.root / place))


def opened(root: Path, folder: Path, *, ignore: str) -> Repository:
    """`root` as the main branch of a repository with a bare remote in `folder`."""
    git = scratch_git(root, ignore=ignore)
    origin, runner = folder / "origin.git", folder / "runner"
    runner.mkdir(parents=True)
    ScratchGit(folder)("clone", "--quiet", "--bare", str(root), str(origin))
    git("remote", "add", "origin", str(origin))
    git("fetch", "--quiet", "origin")
    return Repository(root, origin, runner, git)


def suite_with(repository: Repository, **changes: object) -> None:
    """Write the suite with top-level keys replaced (None: removed)."""
    data = yaml.safe_load(repository.suite.read_text(encoding="utf-8"))
    for key, value in changes.items():
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
    repository.suite.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
