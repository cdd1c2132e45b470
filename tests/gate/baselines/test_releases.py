"""The release that a commit means: its version, and whose copy of it counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from scratch_git import ScratchGit, scratch_git
from toy_repository import release

from fairgate.data import Dataset, open_dataset, releases_folder
from fairgate.gate.baselines import Repository, release_at
from fairgate.ground.errors import BaselineError, DatasetError


def at(git: ScratchGit, commit: str, ref: str = "toy") -> Dataset | None:
    """The release of a commit; None if it is the newest one of this working tree."""
    return release_at(Repository(git.root), commit, ref, open_dataset("toy", git.root / "datasets").manifest)


def test_a_name_means_the_newest_version_that_the_commit_has_and_what_it_has_there(tmp_path: Path) -> None:
    release(tmp_path, "v1", 2)
    git = scratch_git(tmp_path)
    before = git("rev-parse", "HEAD")
    assert at(git, before) is None
    shutil.rmtree(tmp_path / "datasets")
    release(tmp_path, "v1", 3)
    release(tmp_path, "v10", 2, blue=20)
    release(tmp_path, "v9", 2, blue=30)
    now = git.commit("edited, and two more")
    found = at(git, before)
    assert found is not None
    assert (found.manifest.ref, found.manifest.n_sets) == ("toy@v1", 4)
    assert found.verify() == []
    assert at(git, now) is None
    nine = at(git, now, "toy@v9")
    assert nine is not None
    assert nine.folder == tmp_path / "datasets/toy/v9"
    folder = found.folder
    del found
    assert not folder.exists()


def test_an_ignored_folder_counts_for_every_commit_until_the_branch_tracks_files_there(tmp_path: Path) -> None:
    release(tmp_path, "v1", 2)
    git = scratch_git(tmp_path, ignore="datasets/\n")
    commit = git("rev-parse", "HEAD")
    assert at(git, commit) is None
    with pytest.raises(DatasetError, match="has no version 'v2'"):
        at(git, commit, "toy@v2")
    git("add", "--force", "datasets")
    git.commit("in git")
    with pytest.raises(BaselineError, match="this change brings one of that name"):
        at(git, commit, "toy@v1")


def test_a_module_of_git_counts_while_its_commit_is_the_same(tmp_path: Path) -> None:
    release(tmp_path, "v1", 2)
    git = scratch_git(tmp_path, ignore="datasets/\n")

    def pinned(digit: str) -> str:
        git("update-index", "--add", "--cacheinfo", f"160000,{digit * 40},datasets")
        git("commit", "--quiet", "--message", "a module")
        return git("rev-parse", "HEAD")

    before = pinned("1")
    assert at(git, before) is None
    pinned("2")
    with pytest.raises(BaselineError, match="neither git nor DVC has"):
        at(git, before, "toy@v1")


def test_a_branch_that_brings_releases_elsewhere_does_not_replace_those_of_its_base(tmp_path: Path) -> None:
    release(tmp_path, "v1", 2)
    (tmp_path / "datasets").rename(tmp_path / "fairness_data")
    git = scratch_git(tmp_path)
    before = git("rev-parse", "HEAD")
    assert releases_folder(tmp_path) == tmp_path / "fairness_data"
    release(tmp_path, "v1", 3)
    git.commit("a folder that comes first")
    assert releases_folder(tmp_path) == tmp_path / "datasets"
    found = at(git, before)
    assert found is not None
    assert found.folder == tmp_path / "fairness_data/toy/v1"


def test_a_branch_does_not_bring_a_release_next_to_the_ignored_one_of_its_base(tmp_path: Path) -> None:
    release(tmp_path, "v1", 2)
    (tmp_path / "datasets").rename(tmp_path / "fairness_data")
    git = scratch_git(tmp_path, ignore="fairness_data/\n")
    before = git("rev-parse", "HEAD")
    release(tmp_path, "v1", 3)
    git.commit("a folder that comes first")
    with pytest.raises(BaselineError, match="this change brings one of that name"):
        at(git, before, "toy@v1")
