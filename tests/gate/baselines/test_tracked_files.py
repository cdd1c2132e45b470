"""Whose configuration of DVC counts, what a target means, and which pointers a change is told of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from dvc_objects_by_hand import Objects, config, pointer
from scratch_git import ScratchGit, scratch_git

from fairgate.gate.baselines import Repository
from fairgate.gate.baselines.tracked import changed_pointers, pull
from fairgate.ground.errors import BaselineError, DatasetError

HERE: dict[str, str] = {}
CI = {"CI": "true"}


@dataclass(frozen=True)
class World:
    """A repository with a folder `data` and a file `model` in DVC, on a branch of `main`; `store` is its remote."""

    root: Path
    store: Objects
    git: ScratchGit

    @property
    def repository(self) -> Repository:
        return Repository(self.root)

    def point(self, path: str, md5: str) -> None:
        file = self.root / f"{path}.dvc"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pointer(Path(path).name, md5), encoding="utf-8")

    def pulled(self, *targets: str, environment: dict[str, str] = HERE, base: str | None = None) -> dict[str, int]:
        done = pull(self.repository, targets, base=base, environment=environment)
        return {one.path: one.fetched for one in done}

    def changed(self, own: str | None = None) -> list[str]:
        return changed_pointers(self.repository, self.git("rev-parse", "main"), [Path(own)] if own else [])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "nothing"))
    root, store = tmp_path / "here", Objects(tmp_path / "store")
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc" / "config").write_text(config(store.root), encoding="utf-8")
    made = World(root, store, scratch_git(root, ignore="/data/\n/model\n"))
    made.point("data", f"{store.add_folder({'v1/a': b'a', 'v1/b': b'b', 'v2/a': b'c'})}.dir")
    made.point("model", store.add(b"weights"))
    made.git.commit("tracked")
    made.git("update-ref", "refs/remotes/origin/main", "main")
    made.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    made.git("checkout", "--quiet", "-b", "change")
    return made


def test_everything_or_what_is_named_is_fetched(world: World) -> None:
    assert world.pulled("data.dvc") == {"data": 3}
    assert world.pulled(".") == {"data": 0, "model": 1}
    (world.root / "data" / "v1" / "a").unlink()
    (world.root / "data" / "v2" / "a").unlink()
    assert world.pulled("data/v1/", "./model") == {"data": 1, "model": 0}
    world.point("new", world.store.add(b"not in git yet"))
    assert world.pulled("new.dvc") == {"new": 1}
    with pytest.raises(DatasetError, match="DVC tracks nothing called 'dta'") as caught:
        world.pulled("dta")
    assert "did you mean 'data'?" in (caught.value.remedy or "")
    for target in ("../x", "/etc", "data/nothing"):
        with pytest.raises(DatasetError):
            world.pulled(target)


def test_on_a_persons_machine_the_working_tree_configures_and_in_ci_the_default_branch_does(
    world: World, tmp_path: Path
) -> None:
    other = Objects(tmp_path / "other")
    world.point("model", other.add(b"other weights"))
    (world.root / ".dvc" / "config").write_text(config(other.root), encoding="utf-8")
    world.git.commit("another remote")
    for environment, base in ((CI, None), (CI, "origin/main"), (HERE, "origin/main")):
        with pytest.raises(DatasetError, match="neither DVC's cache here nor the remote has model"):
            world.pulled("model", environment=environment, base=base)
    assert world.pulled("model") == {"model": 1}


def test_the_default_branch_is_the_one_that_the_ci_service_names(world: World, tmp_path: Path) -> None:
    world.git("symbolic-ref", "--delete", "refs/remotes/origin/HEAD")
    world.git("remote", "add", "origin", "https://example.invalid")
    with pytest.raises(BaselineError, match="git knows no commit 'origin/HEAD'") as caught:
        world.pulled(environment=CI)
    assert "fetch-depth: 0" in (caught.value.remedy or "")
    assert "--base origin/main" in (caught.value.remedy or "")
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"repository": {"default_branch": "main"}}), encoding="utf-8")
    assert world.pulled("model", environment={**CI, "GITHUB_EVENT_PATH": str(event), "GITHUB_BASE_REF": "evil"})
    assert world.pulled("data", environment={**CI, "CI_DEFAULT_BRANCH": "main"})
    assert world.pulled("data", environment={**CI, "GITHUB_EVENT_NAME": "schedule", "GITHUB_REF_NAME": "main"})


@pytest.mark.parametrize(
    ("committed", "environment", "counts"), [(False, HERE, True), (False, CI, False), (True, HERE, False)]
)
def test_ones_own_settings_count_on_ones_own_machine_unless_the_branch_brought_them(
    world: World, tmp_path: Path, committed: bool, environment: dict[str, str], counts: bool
) -> None:
    other = Objects(tmp_path / "other")
    world.point("model", other.add(b"other weights"))
    (world.root / ".dvc" / ".gitignore").write_text("/config.local\n", encoding="utf-8")
    (world.root / ".dvc" / "config.local").write_text(config(other.root), encoding="utf-8")
    if committed:
        world.git("add", "--force", ".dvc/config.local")
    world.git.commit("settings")
    if counts:
        assert world.pulled("model", environment=environment, base="origin/main") == {"model": 1}
    else:
        with pytest.raises(DatasetError, match="nor the remote has model"):
            world.pulled("model", environment=environment, base="origin/main")


def test_a_project_above_the_judged_folder_is_found(world: World) -> None:
    inner = world.root / "team"
    (inner / "sub").mkdir(parents=True)
    world.point("team/weights", world.store.add(b"of the team"))
    world.git.commit("a folder in it")
    done = pull(Repository(inner), ["weights"], environment=CI)
    assert [one.path for one in done] == ["team/weights"]
    assert (inner / "weights").read_bytes() == b"of the team"
    assert changed_pointers(Repository(inner), world.git("rev-parse", "main"), [Path("weights")]) == []
    (told,) = changed_pointers(Repository(inner), world.git("rev-parse", "main"), [Path("../model")])
    assert told.startswith("DVC: team/weights.dvc: team/weights is new (")


def test_a_shadow_project_of_the_branch_configures_nothing(world: World, tmp_path: Path) -> None:
    inner = world.root / "team"
    (inner / ".dvc").mkdir(parents=True)
    (inner / ".dvc" / "config").write_text(config(tmp_path / "other"), encoding="utf-8")
    world.point("team/weights", Objects(tmp_path / "other").add(b"evil"))
    world.git.commit("a project in the project")
    with pytest.raises(DatasetError, match=r"there is no \.dvc/config at origin/HEAD"):
        pull(Repository(inner), environment=CI)


def test_changed_pointers_are_named_but_for_the_candidates_own(world: World) -> None:
    assert world.changed() == []
    world.point("model", world.store.add(b"retrained"))
    world.git.commit("retrained")
    for own in ("model", "model/checkpoint.safetensors", "./model"):
        assert world.changed(own) == []
    (told,) = world.changed("elsewhere")
    assert told.startswith("DVC: model.dvc: model has other content than at the merge base (")
    world.point("data", f"{world.store.add_folder({'a': b'another'})}.dir")
    world.point("more", world.store.add(b"more"))
    (world.root / ".dvc" / "config").write_text(config("elsewhere"), encoding="utf-8")
    world.git.commit("and data")
    told, edits = world.changed("model")
    assert "data.dvc: data has other content" in told
    assert "more.dvc: more is new" in told
    assert "model.dvc" not in told
    assert edits == "DVC: this change edits .dvc/config, which has no effect here before it is merged"
    world.git("rm", "--quiet", "data.dvc")
    assert "data.dvc: data is no longer tracked" in world.changed("model")[0]


@pytest.mark.parametrize("own", [".", "datasets/checkpoint", "datasets"])
def test_no_path_of_a_candidate_hides_the_pointer_of_a_release(own: str, world: World) -> None:
    world.point("datasets", world.store.add(b"forged"))
    world.git.commit("data")
    (told,) = world.changed(own)
    assert told.startswith("DVC: datasets.dvc: datasets is new (")


def test_what_cannot_be_compared_is_said(world: World) -> None:
    (world.root / "data.dvc").write_text("[" * 100_000, encoding="utf-8")
    (told,) = world.changed()
    assert "the pointers cannot be compared with the merge base's: the file is no pointer of DVC" in told
    (world.root / "data.dvc").unlink()
    (world.root / "data.dvc").symlink_to("/dev/zero")
    assert "cannot be compared" in world.changed()[0]


def test_there_is_nothing_to_say_where_nothing_is_tracked(tmp_path: Path) -> None:
    git = scratch_git(tmp_path)
    assert changed_pointers(Repository(tmp_path), git("rev-parse", "HEAD")) == []
    assert pull(Repository(tmp_path), environment=CI, base="main") == []


def test_without_git_the_working_tree_is_read_on_a_persons_machine(world: World) -> None:
    (world.root / ".git").rename(world.root.parent / "away")
    assert world.pulled() == {"data": 3, "model": 1}
    with pytest.raises(BaselineError, match="no git repository"):
        world.pulled(environment=CI)
