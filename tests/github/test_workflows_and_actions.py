"""What holds of every workflow and action: linters are silent, values travel by environment, rights are small."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from github_expressions import holds
from github_files import ACTION, ACTIONS, REPORT, ROOT, WORKFLOWS, defaults, jobs, read, steps

TOOLS = Path(sys.executable).parent
FRESH = {"steps": {"gate": {"outputs": {"fresh": "true"}}}}
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}|\./(?:\.github/actions/\w+)?|\$/[\w./-]+")


def _run(*words: object) -> tuple[int, str]:
    said = subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return said.returncode, said.stdout + said.stderr


@pytest.mark.skipif(not (TOOLS / "actionlint").exists(), reason="actionlint is not installed here")
def test_actionlint_finds_nothing() -> None:
    assert _run(TOOLS / "actionlint") == (0, "")


@pytest.mark.skipif(not (TOOLS / "zizmor").exists(), reason="zizmor is not installed here")
def test_zizmor_finds_nothing_in_workflows_and_actions() -> None:
    code, said = _run(TOOLS / "zizmor", "--offline", "--no-progress", "--quiet", ".github", "action.yml")
    assert code == 0, said


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed here")
def test_shellcheck_finds_nothing_in_the_scripts_of_actions_and_workflows(tmp_path: Path) -> None:
    scripts = sorted([*REPORT.glob("*.sh"), *(ROOT / ".github" / "scripts").glob("*.sh")])
    for number, step in enumerate(step for path in ACTIONS for step in read(path)["runs"]["steps"] if "run" in step):
        scripts.append(tmp_path / f"{number}.sh")
        scripts[-1].write_text(f"#!/usr/bin/env bash\n{step['run']}", encoding="utf-8")
    assert len(scripts) > 8
    assert _run("shellcheck", *scripts) == (0, "")


def test_make_check_looks_at_the_action_too() -> None:
    assert ".github action.yml" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_no_value_is_pasted_into_a_script() -> None:
    assert [file for file, step in steps() if "${{" in step.get("run", "")] == []


def test_every_action_that_is_used_is_pinned_by_commit() -> None:
    used = [step["uses"] for _, step in steps() if "uses" in step]
    assert len(used) > 10
    assert [one for one in used if not PINNED.fullmatch(one)] == []


def test_no_checkout_leaves_its_token_behind() -> None:
    kept = [file for file, step in steps() if "checkout@" in step.get("uses", "")
            and step["with"].get("persist-credentials") is not False]  # fmt: skip
    assert kept == []


def test_nothing_runs_a_pull_request_with_the_rights_of_the_base() -> None:
    for path in WORKFLOWS:
        assert "pull_request_target" not in read(path)["on"]


def test_every_job_ends_by_itself() -> None:
    assert [(file, name) for file, name, job in jobs() if "timeout-minutes" not in job] == []


@pytest.mark.parametrize("path", [path for path in WORKFLOWS if path.name != "ci.yml"], ids=lambda path: path.name)
def test_a_workflow_has_no_rights_and_each_job_names_its_own(path: Path) -> None:
    flow = read(path)
    assert flow["permissions"] == {}
    assert all("permissions" in job for job in flow["jobs"].values())


def test_the_job_that_runs_the_checkpoint_reads_the_repository_and_holds_no_secret() -> None:
    job = read(ROOT / ".github/workflows/fairness-gate.yml")["jobs"]["gate"]
    assert job["permissions"] == {"contents": "read"}
    assert job["environment"] == "fairness-gate"
    assert "secrets." not in str(job)
    assert "MLFLOW" not in str(job)


def test_secrets_stand_in_protected_environments_alone() -> None:
    holding = {(file, name) for file, name, job in jobs() if "secrets." in str(job)}
    assert holding == {("fairness-report.yml", "mlflow"), ("build-datasets.yml", "push")}
    assert all("environment" in job for file, name, job in jobs() if (file, name) in holding)
    assert not any("secrets." in path.read_text(encoding="utf-8") for path in ACTIONS)


def test_only_these_jobs_may_write_and_only_the_comment_job_to_pull_requests() -> None:
    writing = {
        (file, name): {right for right, how in job.get("permissions", {}).items() if how == "write"}
        for file, name, job in jobs()
    }
    assert {job: rights for job, rights in writing.items() if rights} == {
        ("fairness-report.yml", "comment"): {"pull-requests"},
        ("release.yml", "publish"): {"id-token"},
        ("release.yml", "image"): {"packages"},
    }


def test_the_report_workflow_checks_out_the_default_branch_alone() -> None:
    for job in read(ROOT / ".github/workflows/fairness-report.yml")["jobs"].values():
        assert all("ref" not in step.get("with", {}) for step in job["steps"])


def test_the_steps_that_read_artifacts_hold_no_token() -> None:
    for step in read(REPORT / "action.yml")["runs"]["steps"]:
        holds_token = "GH_TOKEN" in step.get("env", {})
        assert holds_token == (step["name"] in ("Find and download", "Comment"))
    assert "fairgate " not in (REPORT / "fetch.sh").read_text() + (REPORT / "comment.sh").read_text()


def test_the_action_has_the_inputs_that_its_users_were_promised() -> None:
    promised = {"suite", "model", "baseline", "tracking-uri", "device", "report", "python", "on-inconclusive"}
    assert promised <= set(defaults(ACTION))
    assert set(read(ACTION)["outputs"]) == {"verdict", "outcome", "report"}
    assert "pytest" not in str(read(ACTION)["runs"])


def test_the_step_that_runs_the_checkpoint_has_no_login_of_mlflow() -> None:
    (gate,) = (step for step in read(ACTION)["runs"]["steps"] if step.get("id") == "gate")
    logins = {name: text for name, text in gate["env"].items() if name.startswith("MLFLOW_TRACKING_")}
    assert logins == dict.fromkeys(
        ["MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"], ""
    )
    assert gate["env"]["FAIRGATE_MLFLOW"] == "off"


@pytest.mark.parametrize(("uri", "told"), [("off", False), ("", False), ("sqlite:///x.db", True)])
def test_mlflow_is_told_in_a_step_of_its_own_whose_failure_changes_nothing(uri: str, told: bool) -> None:
    (step,) = (step for step in read(ACTION)["runs"]["steps"] if step["name"] == "Tell MLflow")
    assert holds(step["if"], {"inputs": {"tracking-uri": uri}, **FRESH}) is told
    assert step["continue-on-error"] is True
    assert "check" not in step["run"]


@pytest.mark.parametrize(("artifact", "kept"), [("", False), ("fairness-report-jobs", True)])
def test_the_report_is_uploaded_only_where_somebody_names_it(artifact: str, kept: bool) -> None:
    (step,) = (step for step in read(ACTION)["runs"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert holds(step["if"], {"inputs": {"artifact": artifact}, **FRESH}) is kept
