"""State inside the checkout belongs to the branch: no cache there is read, and none that another job wrote counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toy_repository import Toy, toy_repository
from trust_world import refused
from typer.testing import CliRunner, Result

from fairgate.cli.main import app
from fairgate.selftest.machine import look_at_cache

INSIDE = "the cache is inside of the repository"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository of git whose gate is in a folder of the work tree."""
    top = tmp_path_factory.mktemp("work") / "checkout"
    toy = toy_repository(top / "vision")
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    return toy


def asked(toy: Toy, *words: str, **env: str) -> Result:
    return CliRunner().invoke(app, [*words, "--root", str(toy.root)], env={"FAIRGATE_CACHE": "", **env})


@pytest.mark.parametrize("place", ["vision/cache", "cache", "vision/../.git/cache", "../link", "../link/cache"])
def test_a_cache_in_the_work_tree_is_refused_also_by_a_detour(world: Toy, place: str) -> None:
    top = world.root.parent
    link = top.parent / "link"
    if not link.is_symlink():
        link.symlink_to(top)
    said = refused(asked(world, "check", "jobs", "--mlflow", "off", "--cache", str(top / place)))
    assert INSIDE in said
    assert "--fairness-cache" in said


def test_a_cache_in_the_work_tree_is_refused_wherever_it_is_named(
    world: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = str(world.root / "cache")
    monkeypatch.chdir(world.root)
    check = ["check", "jobs", "--mlflow", "off"]
    assert INSIDE in refused(asked(world, *check, FAIRGATE_CACHE=inside))
    assert INSIDE in refused(asked(world, *check, "--cache", "cache"))
    assert INSIDE in refused(asked(world, *check, XDG_CACHE_HOME=inside))
    assert INSIDE in refused(asked(world, *check, XDG_CACHE_HOME="", HOME=inside))
    audit = ["audit", "jobs", "--model", "scores:base.csv?values=logit", "--model", "scores:tuned.csv?values=logit"]
    for words in (audit, ["power", "jobs"], ["baseline", "update", "jobs", "--reason", "a test"]):
        assert INSIDE in refused(asked(world, *words, "--cache", inside)), words
    study = ["study", "intersections", "--model", "open_clip:local-dir:tuned", "--data", "toy"]
    assert INSIDE in refused(asked(world, *study, "--cache", inside, "--out", str(tmp_path)))
    assert not Path(inside).exists()
    assert INSIDE in look_at_cache(Path(inside), world.root).what


def test_a_cache_elsewhere_and_none_at_all_are_fine(world: Toy, tmp_path: Path) -> None:
    for cache in (str(tmp_path), "off"):
        report = ["--mlflow", "off", "--report", str(tmp_path / "report"), "--base", "none"]
        assert asked(world, "check", "jobs", *report, "--cache", cache).exit_code in (0, 1)
