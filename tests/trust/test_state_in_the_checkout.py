"""State inside the checkout belongs to the branch: no cache there is read, and none that another job wrote counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scratch_git import ScratchGit
from toy_repository import Toy, toy_repository
from trust_world import refused
from typer.testing import CliRunner, Result

from fairgate.gate.selftest.machine import look_at_cache
from fairgate.ground.errors import TrackingError
from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results
from fairgate.tracking.store_session import require_not_the_branchs

INSIDE = "the cache is inside of the repository"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A repository of git whose gate is in a folder of the work tree."""
    top = tmp_path_factory.mktemp("work") / "checkout"
    toy = toy_repository(top / "vision")
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    return toy


def asked(toy: Toy, *words: str, **env: str) -> Result:
    return CliRunner().invoke(app, [*words, "--root", str(toy.root)], env={"CI": "", "FAIRGATE_CACHE": "", **env})


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


@pytest.mark.parametrize("where", ["sqlite:///{}/fairgate.db", "file://{}/runs", "{}/runs"])
def test_no_baseline_and_no_model_is_read_from_a_store_that_the_branch_brings(
    world: Toy, where: str, tmp_path: Path
) -> None:
    (world.root / "fairgate.db").write_bytes(b"")
    (world.root / "runs").mkdir(exist_ok=True)
    (world.root / "runs" / "meta.yaml").write_text("")
    git = ScratchGit(world.root)
    git("add", "fairgate.db", "runs")
    git("commit", "--quiet", "--allow-empty", "--message", "a store")
    for named in (("--baseline", "mlflow:latest"), ("--model", "mlflow-model:clip@champion")):
        words = ["check", "jobs", "--mlflow", "off", "--cache", "off", "--base", "none", *named]
        done = asked(world, *words, "--report", str(tmp_path), CI="", MLFLOW_TRACKING_URI=where.format(world.root))
        assert done.exit_code == 3, done.output
        (reason,) = {check.reason for check in read_results(tmp_path / "results.json").checks}
        assert "this store is inside of the repository" in reason


def test_no_store_is_opened_beside_a_journal_that_the_branch_brings(
    world: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would write what the journal holds into a person's own store."""
    monkeypatch.delenv("CI", raising=False)
    git = ScratchGit(world.root)
    for end in ("journal", "wal"):
        (world.root / f"{end}.db-{end}").write_bytes(b"")
        git("add", f"{end}.db-{end}")
        git("commit", "--quiet", "--message", f"a {end}")
        with pytest.raises(TrackingError, match="inside of the repository"):
            require_not_the_branchs(f"sqlite:///{world.root}/{end}.db", world.root)


def test_in_ci_a_store_in_the_checkout_decides_nothing_and_a_persons_own_may(
    world: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for uri in (f"sqlite:///{world.root}/own.db", f"sqlite:///{tmp_path}/fairgate.db", "https://mlflow.example"):
        require_not_the_branchs(uri, world.root)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(TrackingError):
        require_not_the_branchs(f"sqlite:///{world.root}/own.db", world.root)


def test_a_cache_elsewhere_and_none_at_all_are_fine(world: Toy, tmp_path: Path) -> None:
    for cache in (str(tmp_path), "off"):
        report = ["--mlflow", "off", "--report", str(tmp_path / "report"), "--base", "none"]
        assert asked(world, "check", "jobs", *report, "--cache", cache).exit_code in (0, 1)
