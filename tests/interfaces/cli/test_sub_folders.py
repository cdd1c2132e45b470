"""Commands find the repository from a sub-folder of it, and go no further up than git's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app

CHECK = ["check", "jobs", "--mlflow", "off", "--cache", "off"]


@pytest.fixture
def below(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: two levels below the suites, in a git repository."""
    subprocess.run(["git", "init", "-q", str(toy.root)], check=True)
    folder = toy.root / "training" / "runs"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_a_suite_is_judged_from_a_sub_folder(below: Path) -> None:
    done = CliRunner().invoke(app, CHECK)
    assert done.exit_code == 0, done.output
    assert "10 passed" in done.output
    assert not list(below.iterdir())


def test_a_root_that_is_typed_counts(below: Path) -> None:
    done = CliRunner().invoke(app, [*CHECK, "--root", "."])
    assert done.exit_code == 4
    assert "there is no fairness suite 'jobs'" in done.output
    assert list(below.iterdir()) == []


def test_suites_above_the_repository_are_somebody_elses(below: Path) -> None:
    subprocess.run(["git", "init", "-q", str(below)], check=True)
    done = CliRunner().invoke(app, CHECK)
    assert (done.exit_code, "there is no fairness suite 'jobs'" in done.output) == (4, True)


def test_outside_of_git_nothing_above_is_looked_at(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    (toy.root / "below").mkdir()
    monkeypatch.chdir(toy.root / "below")
    done = CliRunner().invoke(app, CHECK)
    assert (done.exit_code, "there is no fairness suite 'jobs'" in done.output) == (4, True)
