from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairgate.tracking.environment import environment


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "suite.yaml").write_text("a: 1\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
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

    monkeypatch.setattr("fairgate.tracking.environment.version", version)
    found = environment(repository, "cpu").packages
    assert "torch" not in found
    assert found["numpy"] == "1.0"
