"""A team with a main branch, a release and a baseline."""

from __future__ import annotations

import pytest
from scratch_git import scratch_git
from story_team import SHIPPED, SUITE, Team, write_portraits


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    """main, released once as `release-1`, with the shipped `base` in use and its baseline committed."""
    root = tmp_path_factory.mktemp("team")
    write_portraits(root / "datasets" / "faces" / "v1", "v1", range(40))
    write_portraits(root / "datasets" / "faces" / "v2", "v2", range(10, 50))
    team = Team(root, tmp_path_factory.mktemp("cache"))
    team.use(SHIPPED / "base")
    team.suite.parent.mkdir()
    team.suite.write_text(SUITE.replace("anchor: git:release-1\n", ""), encoding="utf-8")
    team.git = scratch_git(root, ignore="datasets/\n")
    code, output = team.update_baseline("the first release")
    assert code == 0, output
    team.git.commit("a baseline")
    team.git("tag", "release-1")
    team.suite.write_text(SUITE, encoding="utf-8")
    team.git.commit("guard against drift since release-1")
    return team
