from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from fairgate.tracking.run_environment import asking_pull_request, environment


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(name)
    (tmp_path / "suite.yaml").write_text("a: 1\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commit_is_told_and_whether_files_differ_from_it(repository: Path) -> None:
    clean = environment(repository, "cpu")
    assert clean.git_commit is not None
    assert len(clean.git_commit) == 40
    assert clean.git_dirty is False
    (repository / "suite.yaml").write_text("a: 2\n")
    assert environment(repository, "cpu").git_dirty is True


def test_outside_git_the_commit_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = environment(tmp_path, "cpu")
    assert (found.git_commit, found.git_dirty) == (None, None)


def test_without_git_at_all_the_commit_is_absent(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment(repository, "cpu").git_commit is None


def test_the_ci_job_is_told_where_there_is_one(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment(repository, "cuda").ci_url is None
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "team/model")
    monkeypatch.setenv("GITHUB_RUN_ID", "7")
    found = environment(repository, "cuda")
    assert found.ci_url == "https://github.example/team/model/actions/runs/7"
    assert found.device == "cuda"
    assert "numpy" in found.packages


def test_a_package_that_is_not_installed_is_left_out(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    def version(name: str) -> str:
        if name == "torch":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("fairgate.tracking.run_environment._version", version)
    found = environment(repository, "cpu").packages
    assert "torch" not in found
    assert found["numpy"] == "1.0"


def commit(repository: Path, text: str) -> None:
    (repository / "suite.yaml").write_text(text)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, "commit", "-qam", text], cwd=repository, check=True)


def test_the_branch_is_told_and_how_many_commits_led_here(repository: Path) -> None:
    first = environment(repository, "cpu")
    assert (first.git_branch, first.git_height, first.pull_request) == ("main", 1, None)
    commit(repository, "second")
    subprocess.run(["git", "checkout", "-qb", "topic/x"], cwd=repository, check=True)
    commit(repository, "third")
    third = environment(repository, "cpu")
    assert (third.git_branch, third.git_height) == ("topic/x", 3)


def test_a_shallow_clone_does_not_know_its_height(repository: Path, tmp_path: Path) -> None:
    commit(repository, "second")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{repository}", clone], check=True)
    assert environment(clone, "cpu").git_height is None


def test_a_detached_checkout_of_ci_has_the_branch_that_ci_names(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "checkout", "-q", "--detach"], cwd=repository, check=True)
    assert environment(repository, "cpu").git_branch is None
    monkeypatch.setenv("GITHUB_REF_NAME", "v1")
    monkeypatch.setenv("GITHUB_REF_TYPE", "tag")
    assert environment(repository, "cpu").git_branch is None
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    monkeypatch.setenv("GITHUB_REF_TYPE", "branch")
    assert environment(repository, "cpu").git_branch == "main"
    monkeypatch.setenv("GITHUB_HEAD_REF", "fix-\udce4")  # a byte that is not UTF-8, as Python reads it
    assert environment(repository, "cpu").git_branch == "fix-?"


def test_a_merge_request_of_gitlab_is_known_by_its_number_branch_and_job(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "checkout", "-q", "--detach"], cwd=repository, check=True)
    for name, value in {
        "GITLAB_CI": "true",
        "CI_MERGE_REQUEST_IID": "17",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic",
        "CI_JOB_URL": "https://gitlab.example/team/x/-/jobs/5",
    }.items():
        monkeypatch.setenv(name, value)
    made = environment(repository, "cpu")
    assert (made.pull_request, made.git_branch) == (17, "topic")
    assert made.ci_url == "https://gitlab.example/team/x/-/jobs/5"
    assert asking_pull_request(os.environ) == "17"
    monkeypatch.delenv("CI_MERGE_REQUEST_IID")
    monkeypatch.delenv("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
    monkeypatch.setenv("CI_COMMIT_BRANCH", "main")
    made = environment(repository, "cpu")
    assert (made.pull_request, made.git_branch) == (None, "main")


def test_the_pull_request_is_told_by_the_ref_or_by_the_event(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_REF", "refs/pull/41/merge")
    assert environment(repository, "cpu").pull_request == 41
    monkeypatch.setenv("GITHUB_REF", f"refs/heads/gh-readonly-queue/release/2.0/pr-43-{'a1' * 20}")
    assert environment(repository, "cpu").pull_request == 43
    monkeypatch.setenv("GITHUB_REF", "refs/heads/pr-44-fix")
    assert environment(repository, "cpu").pull_request is None
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    event = tmp_path / "event.json"
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    for text, number in [('{"pull_request": {"number": 42}}', 42), ('{"number": 1}', None), ("[]", None), ("{", None)]:
        event.write_text(text)
        assert environment(repository, "cpu").pull_request == number


@pytest.mark.parametrize(
    ("followed", "asking"),
    [
        ({"event": "pull_request", "pull_requests": [{"number": 7}]}, "7"),
        ({"event": "pull_request_target", "pull_requests": []}, "unknown"),
        ({"event": "pull_request"}, "unknown"),
        ({"event": "push", "pull_requests": [{"number": 7}]}, None),
        (None, None),
    ],
)
def test_a_workflow_that_follows_another_knows_whose(
    followed: dict[str, object] | None, asking: str | None, tmp_path: Path
) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"workflow_run": followed} if followed else {}))
    assert asking_pull_request({"GITHUB_EVENT_PATH": str(event)}) == asking
    assert asking_pull_request({"GITHUB_REF": "refs/pull/5/merge", "GITHUB_EVENT_PATH": str(event)}) == "5"
    assert asking_pull_request({}) is None
