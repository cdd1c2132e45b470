"""A base's suite is judged on the base's own release, too: other data of a branch's choice hide no bias."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attack_world import Repository, ToyRepository, suite_with
from dvc_objects_by_hand import Objects, config, pointer
from nightly import some
from scratch_git import scratch_git
from test_data_identity import Rows, forge
from toy_repository import release, toy_repository
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.interfaces.cli.main import app

FACES = "datasets/faces"


def all_alike(rows: Rows) -> Rows:
    """Every member of a set has the picture of the first."""
    return [row | {"image": rows[number - number % 4]["image"]} for number, row in enumerate(rows)]


def claim(folder: Path) -> None:
    """Write the content's own fingerprint into a forged manifest, which is then an honest one of other data."""
    (problem,) = [
        one for one in open_dataset(folder.parent.name, folder.parents[1]).verify() if "fingerprint" in one.what
    ]
    forge(folder, fingerprint=problem.what.split("fingerprint is ")[1].partition(";")[0])


@pytest.fixture
def faces(team_repo: Repository) -> Repository:
    """The team's release is in git, and its suite pins it."""
    ignore = team_repo.root / ".gitignore"
    ignore.write_text(ignore.read_text(encoding="utf-8").replace("datasets/\n", ""), encoding="utf-8")
    suite_with(team_repo, dataset="faces@v1")
    team_repo.push("the release in git", branch="main")
    return team_repo


@pytest.mark.parametrize(("model", "code"), [("biased", 1), pytest.param("tuned", 10, marks=pytest.mark.nightly)])
def test_a_release_in_which_all_members_look_alike_hides_no_bias(faces: Repository, model: str, code: int) -> None:
    """Past the pin of the base's suite; a reader sees which release decided, and what it cost."""
    faces.branch()
    faces.use(model)
    v2 = faces.root / FACES / "v2"
    shutil.copytree(faces.root / FACES / "v1", v2)
    forge(v2, all_alike, version="v2")
    claim(v2)
    suite_with(faces, dataset="faces@v2")
    faces.push("better pictures")
    judged = faces.judge()
    assert judged.code == code, judged.log
    assert judged.asks_for == ["dataset"]
    assert judged.record.dataset.version == "v2"
    assert "by the base's checks on main's release faces/v1 as well" in judged.notices
    assert " s more" in judged.notices
    if code == 1:
        failed = [check for check in judged.record.checks if check.verdict == "fail"]
        assert {check.judged_on for check in failed} == {"main's release faces/v1"}
        assert all(check.reason.startswith("on main's release faces/v1: ") for check in failed)
        assert "on this change's dataset it would pass" in judged.comment


def test_a_release_that_only_the_runner_had_and_the_branch_covers_gives_no_verdict(team_repo: Repository) -> None:
    """A file of the branch keeps the runner from bringing its own copy; nothing is left out silently."""
    team_repo.branch()
    team_repo.use("biased")
    forge(team_repo.root / FACES / "v1", all_alike)
    claim(team_repo.root / FACES / "v1")
    team_repo.git("add", "--force", FACES)
    team_repo.push("the release in git")
    judged = team_repo.judge()
    assert (judged.code, judged.verdict) == (3, "error"), judged.log
    assert "none is here that this change does not bring itself" in judged.log


def unpinned(toy: ToyRepository) -> None:
    """A newer version, and not a word in the suite."""
    release(toy.root, "v2", 40, blue=20)


def past_the_pin(toy: ToyRepository) -> None:
    release(toy.root, "v2", 40, blue=20)
    suite_with(toy, dataset="toy@v2")


def without_the_old_one(toy: ToyRepository) -> None:
    """What the base judges on is in git's history alone."""
    shutil.rmtree(toy.root / "datasets")
    release(toy.root, "v2", 40, blue=20)
    suite_with(toy, dataset="toy@v2")


EDITS = [unpinned, past_the_pin, without_the_old_one]


@pytest.mark.parametrize("edit", some(EDITS, few=1), ids=lambda edit: edit.__name__)
def test_every_way_to_other_data_is_judged_on_the_bases_as_well(
    toy_repo: ToyRepository, edit: Callable[[ToyRepository], None]
) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    edit(toy_repo)
    toy_repo.push("other data")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert judged.asks_for == ["dataset"]
    assert "by the base's checks on main's release toy/v1" in judged.notices


def test_the_same_release_again_is_scored_once(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    release(toy_repo.root, "v2", 40)
    toy_repo.push("a copy")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.record.dataset.version == "v2"
    assert judged.all_notices == []


@pytest.fixture
def tracked(toy_repo: ToyRepository, tmp_path: Path) -> tuple[ToyRepository, Objects]:
    """The folder of releases is in DVC, by one pointer as `dvc add datasets` makes it; the remote is a folder."""
    store = Objects(tmp_path / "storage")
    toy_repo.git("rm", "--quiet", "-r", "--cached", "datasets")
    (toy_repo.root / ".dvc").mkdir()
    (toy_repo.root / ".dvc" / "config").write_text(config(store.root), encoding="utf-8")
    (toy_repo.root / ".gitignore").write_text(".fairgate/\n/datasets\n", encoding="utf-8")
    point(toy_repo, store)
    toy_repo.push("releases in DVC", branch="main")
    toy_repo.branch("change", "main")
    toy_repo.use("tuned")
    return toy_repo, store


def point(toy: ToyRepository, store: Objects) -> None:
    """What `dvc add datasets` and `dvc push` do."""
    top = toy.root / "datasets"
    files = {file.relative_to(top).as_posix(): file.read_bytes() for file in top.rglob("*") if file.is_file()}
    (toy.root / "datasets.dvc").write_text(pointer("datasets", f"{store.add_folder(files)}.dir"), encoding="utf-8")


@pytest.mark.parametrize("kept", some([True, False], few=1), ids=lambda kept: "here" if kept else "gone")
def test_a_new_version_under_dvc_is_judged_on_the_old_one_too(
    tracked: tuple[ToyRepository, Objects], *, kept: bool
) -> None:
    toy, store = tracked
    if not kept:
        shutil.rmtree(toy.root / "datasets")
    release(toy.root, "v2", 40, blue=20)
    point(toy, store)
    toy.push("a new version")
    judged = toy.judge()
    assert judged.code == 10, judged.log
    assert judged.asks_for == ["dataset"]
    assert "on main's release toy/v1 as well" in judged.notices


def test_a_release_that_the_remote_lacks_gives_no_verdict_and_the_command(
    tracked: tuple[ToyRepository, Objects],
) -> None:
    toy, store = tracked
    shutil.rmtree(toy.root / "datasets")
    shutil.rmtree(store.root)
    release(toy.root, "v2", 40, blue=20)
    point(toy, store)
    toy.push("a new version")
    judged = toy.judge()
    assert (judged.code, judged.verdict) == (3, "error"), judged.log
    assert "judges on dataset 'toy', and this run needs it as it is there" in judged.log
    assert "fairgate dataset pull" in judged.log


def test_files_under_an_unchanged_pointer_are_not_the_bases(tracked: tuple[ToyRepository, Objects]) -> None:
    toy, _ = tracked
    shutil.rmtree(toy.root / "datasets")
    release(toy.root, "v1", 40, blue=20)
    toy.git("add", "--force", "datasets")
    toy.push("in git as well")
    judged = toy.judge()
    assert judged.code == 10, judged.log
    assert judged.asks_for == ["dataset"]


def test_a_project_of_dvc_that_a_branch_adds_hides_no_pointer_above_it(tmp_path: Path) -> None:
    """The judged folder is one of several in a repository, whose pointers are at its top."""
    team = tmp_path / "team"
    toy_repository(team)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").touch()
    out = "{{path: team/datasets, hash: md5, md5: {}.dir}}"
    lock = f"schema: '2.0'\nstages:\n  make:\n    cmd: make\n    outs:\n    - {out}\n"
    (tmp_path / "dvc.lock").write_text(lock.format("1" * 32), encoding="utf-8")
    git = scratch_git(tmp_path, ignore="team/datasets\n")
    git("checkout", "--quiet", "-b", "change")
    (tmp_path / "dvc.lock").write_text(lock.format("2" * 32), encoding="utf-8")
    (team / ".dvc").mkdir()
    (team / ".dvc" / "config").touch()
    git.commit("other data, and a project")
    words = ["check", "jobs", "--root", str(team), "--base", "main", "--mlflow", "off", "--cache", "off"]
    judged = CliRunner().invoke(app, words, env={"CI": ""})
    assert judged.exit_code == 3, judged.output
    assert "judges on dataset 'toy', and this run needs it as it is there" in judged.output
