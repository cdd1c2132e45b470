"""The two worlds, made once per process and copied for every test."""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from hashlib import md5
from itertools import permutations
from pathlib import Path

import pytest
from attack_world import KNOWN_TABLES, TEAM_SUITE, Repository, ToyRepository, opened
from scratch_git import ScratchGit
from story_team import write_portraits
from toy_repository import SUITE as TOY_SUITE
from toy_repository import toy_repository

from fairgate.ground.hashing import sha256_bytes, sha256_file

TABLES = ("base", "tuned", "biased")


@pytest.fixture(scope="session")
def _made_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of scores; main holds `base.csv` in use, with its baseline."""
    folder = tmp_path_factory.mktemp("toy-world")
    toy = toy_repository(folder / "root")
    text = TOY_SUITE.replace("model: scores:tuned.csv?values=logit\n", "model: scores:model.csv?values=logit\n")
    for name in TABLES:
        shutil.move(toy.root / f"{name}.csv", folder / f"{name}.csv")
    text = text.replace("baseline: model:scores:base.csv?values=logit\n", "")
    toy.write_suite(f"{text}approvals:\n{approved_tables(folder)}")
    shutil.copy(folder / "base.csv", toy.root / "model.csv")
    return _with_a_baseline(opened(toy.root, folder, ignore=""), folder)


@pytest.fixture(scope="session")
def _made_team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny checkpoints; main holds `base` in use, with its baseline. The dataset is not in git: a job has it pulled."""
    folder = tmp_path_factory.mktemp("team-world")
    root = folder / "root"
    write_portraits(root / "datasets" / "faces" / "v1", "v1", range(32))
    (root / "fairness_suites").mkdir()
    (root / "fairness_suites" / "jobs.yaml").write_text(TEAM_SUITE, encoding="utf-8")
    repository = opened(root, folder, ignore="datasets/\n")
    repository.use("base")
    return _with_a_baseline(repository, folder)


def approved_tables(folder: Path) -> str:
    """Approvals of each edit that puts one of the tables in the place of another: of these tests only a few are about
    that a table is edited."""
    until = date.today() + timedelta(days=300)
    lines = []
    for old, new in permutations((folder / f"{name}.csv" for name in TABLES), 2):
        by_dvc = sha256_bytes(f"md5:{md5(old.read_bytes()).hexdigest()}".encode())
        for before in (sha256_file(old), by_dvc):
            line = f"kind: table, before: {before}, now: {sha256_file(new)}, reason: {KNOWN_TABLES}, until: {until}"
            lines.append(f"  - {{{line}}}\n")
    return "".join(lines)


def _with_a_baseline(repository: Repository, folder: Path) -> Path:
    repository.update_baseline("the checkpoint in use", "--baseline", "none")
    repository.push("a gate and its baseline")
    return folder


def _copied(made: Path, folder: Path) -> Repository:
    shutil.copytree(made, folder, dirs_exist_ok=True, symlinks=True)
    git = ScratchGit(folder / "root")
    git("remote", "set-url", "origin", str(folder / "origin.git"))
    return Repository(folder / "root", folder / "origin.git", folder / "runner", git)


@pytest.fixture
def toy_repo(_made_toy: Path, tmp_path: Path) -> ToyRepository:
    """Tables of scores: cheap. `use("tuned")` passes, `use("biased")` fails."""
    made = _copied(_made_toy, tmp_path)
    return ToyRepository(made.root, made.origin, made.runner, made.git)


@pytest.fixture
def team_repo(_made_team: Path, tmp_path: Path) -> Repository:
    """Real tiny checkpoints. `use("tuned")` passes, `use("biased")` fails."""
    return _copied(_made_team, tmp_path)
