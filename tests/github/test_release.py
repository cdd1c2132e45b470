"""The release workflow's script, as far as it goes without the tools that build and send."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from github_files import ROOT, carry_out, read
from scratch_git import scratch_git

from fairgate import __version__

SCRIPT = Path(".github/scripts/dist.sh")
RELEASE = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script reads, and a `python` that does nothing."""
    for name in (str(SCRIPT), "fairgate/version.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "dist").mkdir()
    return tmp_path


def _dist(checkout: Path, *words: str) -> tuple[int, str]:
    told = {"PATH": "/usr/bin:/bin", "PYTHON": "false"}
    done = subprocess.run([checkout / SCRIPT, *words], env=told, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_tag_of_another_version_is_refused_before_anything_is_built(checkout: Path) -> None:
    code, said = _dist(checkout, "v9.9.9")
    assert code == 1
    assert f"tag v{__version__}, or change the version" in said
    assert (checkout / "dist").exists()  # it would be removed before building


def test_a_version_without_a_section_in_the_changelog_is_refused(checkout: Path) -> None:
    log = checkout / "CHANGELOG.md"
    log.write_text(log.read_text("utf-8").replace(f"[{__version__}]", "[0.0.1]"), encoding="utf-8")
    code, said = _dist(checkout, f"v{__version__}")
    assert code == 1
    assert "write what a user can now do" in said


def test_the_version_of_today_gets_as_far_as_building(checkout: Path) -> None:
    assert _dist(checkout, f"v{__version__}") == (1, "")  # the python that does nothing
    assert not (checkout / "dist").exists()


def test_the_workflow_builds_with_that_script_and_signs_and_sends_in_jobs_that_build_no_package() -> None:
    jobs = read(RELEASE)["jobs"]
    runs = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert str(SCRIPT) in runs["build"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert [name for name, text in runs.items() if "twine upload" in text] == ["publish"]
    assert "dist.sh" not in runs["publish"] + runs["image"]
    assert jobs["publish"]["if"] == "${{ github.ref_type == 'tag' }}"
    assert (jobs["publish"]["needs"], jobs["image"]["needs"]) == ("build", "publish")
    assert all("environment" in jobs[name] for name in ("publish", "image"))


@pytest.mark.parametrize(("where", "code"), [("main", 0), ("behind main", 0), ("a branch", 1)])
def test_a_tag_of_a_commit_that_is_not_on_main_is_refused_before_anything_is_installed(
    tmp_path: Path, where: str, code: int
) -> None:
    steps = read(RELEASE)["jobs"]["build"]["steps"]
    assert steps[0]["with"]["fetch-depth"] == 0
    step = steps[1]
    assert step["if"] == "${{ github.ref_type == 'tag' }}"
    git = scratch_git(tmp_path)
    tagged = git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("next", encoding="utf-8")
    later = git.commit("next")
    git("tag", "origin/main", later)  # a name that git would take before the branch of the remote
    git("update-ref", "refs/remotes/origin/main", tagged if where == "a branch" else later)
    sha = tagged if where == "behind main" else later
    ran = carry_out(step, {}, tmp_path, tmp_path / ".runner", {"GITHUB_SHA": sha})
    assert ran.code == code, ran.log
    assert ("is not on main" in ran.log) == bool(code)


def test_what_builds_and_sends_is_pinned() -> None:
    lines = (ROOT / SCRIPT).with_name("release-requirements.txt").read_text("utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in wanted if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert {"build", "twine", "pypi-attestations", "hatchling"} <= {line.partition("==")[0] for line in wanted}
