"""DVC is a program that a repository configures: of a branch, only its pointers are read, and they are checked."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from attack_world import ToyRepository
from dvc_objects_by_hand import Objects, config, pointer
from github_files import PULL, carry_out, defaults, step_of
from nightly import some
from scratch_git import ScratchGit
from warm_python import warm_python

DEEP = "[" * 100_000
SCORES = "fairness_suites/baselines/jobs/scores.parquet"


@dataclass(frozen=True)
class Pulled:
    """What the pull action did in a fresh clone."""

    code: int
    log: str
    work: Path


@dataclass(frozen=True)
class Team:
    """A toy repository whose model, data and baseline scores DVC tracks, with a local remote."""

    repo: ToyRepository
    store: Objects

    def track(self, path: str, content: bytes | dict[str, bytes], **more: str) -> None:
        """Push content to the remote, and write its pointer."""
        md5 = self.store.add(content) if isinstance(content, bytes) else f"{self.store.add_folder(content)}.dir"
        self.point(path, md5, **more)

    def point(self, path: str, md5: str, name: str | None = None, **more: str) -> None:
        """Write a pointer, wherever the path leads."""
        file = self.repo.root / f"{name or path}.dvc"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pointer(path if name else Path(path).name, md5, **more), encoding="utf-8")

    def configure(self, text: str) -> None:
        (self.repo.root / ".dvc" / "config").write_text(text, encoding="utf-8")

    def use(self, name: str) -> None:
        """The candidate of main or of a branch: a table that DVC tracks."""
        self.track("model.csv", (self.repo.root.parent / f"{name}.csv").read_bytes())

    def pull(self, *, environment: dict[str, str] | None = None, **inputs: str) -> Pulled:
        """The pull action's script in a clone of what was pushed, as the next job of `judge(fresh=False)`."""
        branch, folder = self.repo.current, self.repo.runner / f"job{self.repo.jobs + 1}"
        work, temp = folder / "work", folder / "temp"
        if not work.exists():
            ScratchGit(self.repo.runner)("clone", "--quiet", str(self.repo.origin), str(work))
            ScratchGit(work)("checkout", "--quiet", "--detach", f"origin/{branch}")
        event = temp / "event.json"
        event.parent.mkdir(parents=True, exist_ok=True)
        event.write_text(json.dumps({"repository": {"default_branch": "main"}}), encoding="utf-8")
        env = {
            "CI": "true",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_BASE_REF": "main",
            "GITHUB_ACTION_PATH": str(PULL.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "DVC_GLOBAL_CONFIG_DIR": str(temp / "nothing"),
            "HOME": str(temp),
            **(environment or {}),
        }
        context = {"inputs": {**defaults(PULL), "python": warm_python(), **inputs}, "steps": {"install": {}}}
        ran = carry_out(step_of(PULL, "Fetch"), context, work, temp, env)
        return Pulled(ran.code, ran.log, work)


@pytest.fixture
def team(toy_repo: ToyRepository, tmp_path: Path) -> Team:
    """On main: the model and the baseline's scores are in DVC, whose remote is a folder outside of the repository."""
    made = Team(toy_repo, Objects(tmp_path / "storage"))
    git = toy_repo.git
    git("rm", "--quiet", "-r", "--cached", "model.csv", SCORES)
    (toy_repo.root / ".dvc").mkdir()
    made.configure(config(tmp_path / "storage"))
    made.use("base")
    made.track(SCORES, (toy_repo.root / SCORES).read_bytes())
    (toy_repo.root / ".gitignore").write_text(".fairgate/\n/model.csv\n/extra/\nscores.parquet\n", encoding="utf-8")
    made.track("extra", {"a.txt": b"a", "b/c.txt": b"c"})
    toy_repo.push("in DVC")
    toy_repo.branch()
    return made


def refused(pulled: Pulled, *words: str) -> None:
    assert pulled.code == 3, pulled.log
    assert "Traceback" not in pulled.log
    assert "remedy:" in pulled.log
    for word in words:
        assert word in pulled.log


# the honest ones


@pytest.mark.parametrize(("name", "code"), [("tuned", 0), ("biased", 1)])
def test_a_retrained_checkpoint_under_dvc_is_fetched_and_judged_without_a_notice(
    team: Team, name: str, code: int
) -> None:
    team.use(name)
    team.repo.push("retrained")
    pulled = team.pull()
    assert pulled.code == 0, pulled.log
    assert "model.csv: 1 file(s), 1 fetched" in pulled.log
    assert (pulled.work / "extra/b/c.txt").read_bytes() == b"c"
    assert "nothing to fetch" in team.pull().log
    (pulled.work / SCORES).unlink()  # the baseline's own scores come from the merge base
    judged = team.repo.judge(fresh=False)
    assert judged.code == code, judged.log
    assert "DVC" not in judged.notices


def test_a_new_version_of_the_data_is_named_next_to_the_verdict(team: Team) -> None:
    team.use("tuned")
    team.track("extra", {"a.txt": b"another", "b/c.txt": b"c"})
    team.track("more", {"a.txt": b"a"})
    team.repo.push("more data")
    assert team.pull().code == 0
    judged = team.repo.judge(fresh=False)
    assert judged.code == 0, judged.log
    for text in (judged.notices, judged.comment, judged.log):
        assert "extra.dvc: extra has other content than at the merge base" in text
        assert "more.dvc: more is new" in text


def test_a_killed_fetch_goes_on_where_it_was(team: Team) -> None:
    files = {f"{number:03d}.bin": os.urandom(2000) for number in range(60)}
    team.track("many", files)
    team.repo.push("many files")
    lost = [team.store.path(team.store.add(content)) for content in list(files.values())[30:]]
    for path in lost:
        path.rename(path.with_suffix(".away"))
    refused(team.pull(), "neither DVC's cache here nor the remote has many/0", "dvc push")
    for path in lost:
        path.with_suffix(".away").rename(path)
    again = team.pull()
    assert again.code == 0, again.log
    assert "many: 60 file(s), 60 fetched" not in again.log
    assert {path.name: path.read_bytes() for path in (again.work / "many").iterdir()} == files


def test_a_repository_that_has_no_dvc_configuration_on_main_is_told_what_to_do(team: Team) -> None:
    team.repo.git("checkout", "--quiet", "main")
    (team.repo.root / ".dvc" / "config").unlink()
    team.repo.push("no configuration")
    team.repo.branch()
    (team.repo.root / ".dvc").mkdir(exist_ok=True)
    team.configure(config(team.store.root))
    team.repo.push("mine")
    refused(team.pull(), "there is no .dvc/config at origin/main", "merge .dvc/config by itself first")


# the remote


def forged(team: Team, root: Path) -> Objects:
    """A remote with a biased table under the name of the one in use, which passes."""
    passing = (team.repo.root.parent / "tuned.csv").read_bytes()
    biased = (team.repo.root.parent / "biased.csv").read_bytes()
    mine = Objects(root)
    team.track("model.csv", passing)
    mine.add(biased, md5=team.store.add(passing))
    return mine


@pytest.mark.parametrize("way", some(["config", "config.local", "named", "cache.dir", "cache"], few=2))
def test_forged_bytes_of_the_branchs_remote_or_cache_are_never_taken(team: Team, tmp_path: Path, way: str) -> None:
    mine = forged(team, tmp_path / "mine")
    if way == "config":
        team.configure(config(mine.root))
    elif way == "config.local":
        (team.repo.root / ".dvc" / "config.local").write_text(config(mine.root), encoding="utf-8")
    elif way == "named":
        team.configure(config(team.store.root, more=f"['remote \"mine\"']\n    url = {mine.root}\n"))
        team.track("model.csv", (team.repo.root.parent / "tuned.csv").read_bytes(), more="  remote: mine\n")
    elif way == "cache.dir":
        team.configure(config(team.store.root, more=f"[cache]\n    dir = {mine.root}\n"))
    else:
        (team.repo.root / ".dvc" / "cache").symlink_to(mine.root)
        team.repo.git("add", "--force", ".dvc/cache")
    team.repo.push("harmless, it says")
    pulled = team.pull()
    if way == "named":
        return refused(pulled, "the remote 'mine' is not in the configuration that counts")
    assert pulled.code == 0, pulled.log
    assert (pulled.work / "model.csv").read_bytes() == (team.repo.root.parent / "tuned.csv").read_bytes()
    if "config" in way:
        assert team.repo.judge(fresh=False).code == 0
    return None


def test_forged_bytes_in_a_remote_inside_the_repository_are_found_by_their_md5(team: Team) -> None:
    team.repo.git("checkout", "--quiet", "main")
    team.configure(config("store"))
    inner = Objects(team.repo.root / ".dvc" / "store")
    inner.add((team.repo.root.parent / "base.csv").read_bytes())
    team.repo.push("a remote in the repository")
    team.repo.branch()
    inner.add(b"forged", md5=inner.add((team.repo.root.parent / "base.csv").read_bytes()))
    team.repo.push("forged")
    refused(team.pull(targets="model.csv"), "has other content than its name says")


def test_an_intermediate_commit_of_a_merged_branch_does_not_configure_anything(team: Team, tmp_path: Path) -> None:
    mine = forged(team, tmp_path / "mine")
    good = (team.repo.root / ".dvc" / "config").read_text(encoding="utf-8")
    team.configure(config(mine.root))
    evil = team.repo.git.commit("evil for a moment")
    team.configure(good)
    team.repo.git.commit("and good again")
    team.repo.git("checkout", "--quiet", "main")
    team.repo.git("merge", "--quiet", "--no-ff", "--message", "reviewed as a whole", "change")
    team.repo.push()
    team.repo.branch("next", evil)
    team.repo.push("from in between")
    pulled = team.pull()
    assert pulled.code == 0, pulled.log
    assert (pulled.work / "model.csv").read_bytes() == (team.repo.root.parent / "tuned.csv").read_bytes()


# where it is written


def outside(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if "/temp/" not in f"{path}/"}


@pytest.mark.parametrize("path", some(["../../action/evil.py", "lib/python3.12/site-packages/evil.pth"], few=1))
def test_a_folder_that_lists_paths_elsewhere_is_refused_before_anything_is_written(team: Team, path: str) -> None:
    """More of them, and of what follows: tests/data/remote."""
    md5 = team.store.add_folder({"a-good-one": b"x", path: b"evil", "z": b"y"})
    team.point("extra", f"{md5}.dir")
    team.repo.push("data")
    before = outside(team.repo.runner.parent)
    pulled = team.pull()
    refused(pulled, "nothing is written there")
    written = {one for one in outside(team.repo.runner.parent) - before if not one.startswith("runner/job1")}
    assert not written
    assert not (pulled.work / "extra").exists()
    assert not (pulled.work / "model.csv").exists()


@pytest.mark.parametrize("what", some(["a parent", "the folders of DVC", "DVC's own folder"], few=1))
def test_nothing_is_written_through_a_link_of_the_branch(team: Team, tmp_path: Path, what: str) -> None:
    target, root = tmp_path / "target", team.repo.root
    target.mkdir()
    if what == "a parent":
        team.point("up/extra", f"{team.store.add_folder({'a.txt': b'evil'})}.dir", name="innocent")
        (root / "up").symlink_to(target)
    elif what == "DVC's own folder":
        forged(team, tmp_path / "mine")
        (root / ".dvc" / "config").unlink()
        (root / ".dvc").rmdir()
        (root / ".dvc").symlink_to("settings")
        (root / "settings").mkdir()
        (root / "settings" / "config").write_text(config(tmp_path / "mine"), encoding="utf-8")
        (root / "settings" / "cache").symlink_to(tmp_path / "mine")
    else:
        for name in ("tmp", "cache"):
            (root / ".dvc" / name).symlink_to(target)
            team.repo.git("add", "--force", f".dvc/{name}")
    team.repo.push("data")
    pulled = team.pull()
    if what == "a parent":
        refused(pulled, "nothing is written")
    else:
        assert pulled.code == 0, pulled.log
        meant = root.parent / ("tuned.csv" if "own" in what else "base.csv")
        assert (pulled.work / "model.csv").read_bytes() == meant.read_bytes()
    assert not list(target.iterdir())


def test_files_of_git_and_files_of_somebody_are_not_written_over(team: Team) -> None:
    team.point("fairness_suites", f"{team.store.add_folder({'jobs.yaml': b'evil'})}.dir", name="innocent")
    team.repo.push("data")
    refused(team.pull(), "git has files at fairness_suites")
    work = team.pull(targets="extra.dvc").work
    (work / "extra" / "a.txt").write_text("mine", encoding="utf-8")
    (work / "extra" / "stale.txt").write_text("of an earlier job", encoding="utf-8")
    refused(team.pull(targets="extra.dvc"), "extra/a.txt, extra/stale.txt", "--force")
    done = subprocess.run(
        [
            warm_python(),
            "-P",
            "-m",
            "fairgate.interfaces.cli",
            "dataset",
            "pull",
            "--force",
            "--base",
            "origin/main",
            "extra",
        ],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in (work / "extra").rglob("*.txt")} == {"a.txt": b"a", "c.txt": b"c"}


@pytest.mark.parametrize(
    "text", some([DEEP, DEEP + "]" * 100_000], few=1), ids=lambda text: "closed" if text.endswith("]") else "open"
)
def test_a_list_of_great_depth_is_an_error_with_a_remedy(team: Team, text: str) -> None:
    team.point("extra", f"{team.store.add(text.encode(), suffix='.dir')}.dir")
    team.repo.push("data")
    refused(team.pull(targets="extra"), "the list of extra's files is none")


def test_data_of_another_repository_is_refused_by_name(team: Team) -> None:
    imported = "deps:\n- path: x\n  repo: {url: https://evil.invalid}\n"
    team.point("x", team.store.add(b"x"), top=imported)
    team.repo.push("data")
    refused(team.pull(), "`dvc import`", "x.dvc")


def test_a_pointer_that_is_a_link_is_not_read(team: Team, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password: 1", encoding="utf-8")
    (team.repo.root / "x.dvc").symlink_to(tmp_path / "secret")
    team.repo.push("data")
    pulled = team.pull()
    refused(pulled, "x.dvc")
    assert "password" not in pulled.log


# commands

S3 = "['remote \"store\"']\n    url = s3://bucket/path\n    endpointurl = http://127.0.0.1:9\n    configpath = aws\n"
needs_s3 = pytest.mark.skipif(find_spec("dvc_s3") is None, reason="dvc-s3 is not installed")


def helper(tmp_path: Path) -> tuple[str, Path]:
    """An AWS configuration that runs a command, and the file that is there once it did."""
    rung = tmp_path / "rung"
    program = tmp_path / "helper.sh"
    program.write_text(f"#!/bin/sh\ntouch {rung}\n", encoding="utf-8")
    program.chmod(0o755)
    return f"[default]\ncredential_process = {program}\n", rung


@pytest.mark.parametrize("main_has_s3", [False, pytest.param(True, marks=needs_s3)])
def test_a_login_helper_of_the_branch_does_not_run(team: Team, tmp_path: Path, main_has_s3: bool) -> None:
    """Where main's own configuration names a file of the repository, main's version of that file counts."""
    text, rung = helper(tmp_path)
    if main_has_s3:
        team.repo.git("checkout", "--quiet", "main")
        team.configure(f"[core]\n    remote = store\n{S3}")
        (team.repo.root / ".dvc" / "aws").write_text(
            "[default]\ncredential_process = ./tools/login.sh\n", encoding="utf-8"
        )
        team.repo.push("S3")
        team.repo.branch("change")
        (team.repo.root / "tools").mkdir()
        (team.repo.root / "tools" / "login.sh").write_text((tmp_path / "helper.sh").read_text(), encoding="utf-8")
        (team.repo.root / "tools" / "login.sh").chmod(0o755)
        (team.repo.root / ".dvc" / "aws").write_text(text, encoding="utf-8")
    else:
        (team.repo.root / ".dvc" / "aws").write_text(text, encoding="utf-8")
        team.configure(f"[core]\n    remote = store\n{S3}")
    team.repo.push("a login")
    offline = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}
    pulled = team.pull(environment=offline)
    assert pulled.code == (3 if main_has_s3 else 0), pulled.log
    (pulled.work / "model.csv").write_bytes((team.repo.root.parent / "tuned.csv").read_bytes())
    judged = team.repo.judge(fresh=False, environment=offline)  # which fetches the baseline's scores
    assert judged.record.verdict == ("error" if main_has_s3 else "pass"), judged.log
    assert not rung.exists()


@needs_s3
def test_the_default_branchs_own_login_helper_does_run(team: Team, tmp_path: Path) -> None:
    """The control: with the same configuration on main, the command is started, so that the tests above can fail."""
    text, rung = helper(tmp_path)
    team.repo.git("checkout", "--quiet", "main")
    team.configure(f"[core]\n    remote = store\n{S3}")
    (team.repo.root / ".dvc" / "aws").write_text(text, encoding="utf-8")
    team.repo.push("S3")
    team.repo.branch("change")
    team.repo.push("x")
    refused(team.pull(environment={"AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"}), "remote 'store'")
    assert rung.exists()


def test_modules_of_the_working_tree_are_not_imported(team: Team) -> None:
    for name in ("dvc", "yaml", "sitecustomize"):
        (team.repo.root / f"{name}.py").write_text("open('evil', 'w')", encoding="utf-8")
    team.repo.push("modules")
    pulled = team.pull()
    assert pulled.code == 0, pulled.log
    assert not (pulled.work / "evil").exists()
