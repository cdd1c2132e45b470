"""examples/team, copied: it trains, and the gate of its workflow passes one checkpoint and stops another."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from scratch_git import ScratchGit
from story_team import SHIPPED, write_portraits
from typer.testing import CliRunner

from fairgate.data import open_dataset
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import read_results

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "team"
GATE, REPORT = (EXAMPLE / ".github" / "workflows" / name for name in ("fairness.yml", "fairness-report.yml"))

pytestmark = pytest.mark.xdist_group("team")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> ScratchGit:
    """The repository with a checkpoint in use, and its baseline on main."""
    root = tmp_path_factory.mktemp("team")
    shutil.copytree(EXAMPLE, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    subjects = ("chef", "doctor", "firefighter", "mechanic", "pilot")
    write_portraits(root / "fairness_data/occupations/v1", "v1", range(30), name="occupations", subjects=subjects)
    _use(root, "base")
    git = ScratchGit(root)
    git("init", "--quiet", "--initial-branch=main")
    words = ["baseline", "update", "occupations", "--reason", "the checkpoint in use", "--mlflow", "off"]
    words += ["--root", str(root), "--cache", str(cache)]
    done = CliRunner().invoke(app, words, env={"CI": "", "GITHUB_ACTIONS": ""})
    assert done.exit_code == 0, done.output
    git.commit("A fairness gate")
    git("update-ref", "refs/remotes/origin/main", "main")
    return git


def _use(root: Path, checkpoint: str) -> None:
    shutil.rmtree(root / "checkpoint", ignore_errors=True)
    shutil.copytree(SHIPPED / checkpoint, root / "checkpoint")


def _judge(team: ScratchGit, cache: Path) -> tuple[int, str, RunRecord]:
    """`fairgate check` with what the action gives it on a pull request to main: exit code, comment, record."""
    steps = yaml.safe_load(GATE.read_text("utf-8"))["jobs"]["gate"]["steps"]
    (given,) = (step["with"] for step in steps if step["uses"].startswith("OWNER/fairgate@"))
    report = team.root / "fairness-report"
    shutil.rmtree(report, ignore_errors=True)
    told = {"CI": "true", "FAIRGATE_BASE": "origin/main", "FAIRGATE_BASELINE": "git:origin/main"}
    told |= {"FAIRGATE_REPORT": str(report), "FAIRGATE_MLFLOW": "off", "FAIRGATE_CACHE": str(cache)}
    done = CliRunner().invoke(app, ["check", "--root", str(team.root), "--", given["suite"]], env=told)
    return done.exit_code, (report / "comment.md").read_text("utf-8"), read_results(report / "results.json")


def test_there_are_ten_files_and_the_readme_names_each() -> None:
    files = [path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*") if path.is_file()]
    files = [name for name in files if "__pycache__" not in name]
    named = re.findall(r"^\| (.+?) \|", (EXAMPLE / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(files) == sorted(re.findall(r"`([^`]+)`", " ".join(named)))
    assert len(files) == 10


def test_its_workflows_are_those_that_the_documentation_gives(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "use" / "pull-requests.md").read_text("utf-8")
    given = dict(re.findall(r"`\.github/workflows/([\w-]+)\.yml`:\n\n```yaml\n(.*?)```", page, re.DOTALL))
    assert GATE.read_text("utf-8").partition("\n")[2].replace("occupations", "faces") == given["fairness-gate"]
    assert REPORT.read_text("utf-8").partition("\n")[2] == given["fairness-report"]


def test_dvc_reads_its_stages(team: ScratchGit) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "--name-only"],
        cwd=team.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["train", "fairness"], done.stderr
    assert "checkpoint" not in team("ls-files")


def test_a_harmless_fine_tune_opens_the_gate(team: ScratchGit, cache: Path) -> None:
    _use(team.root, "tuned")
    code, comment, record = _judge(team, cache)
    assert (code, record.verdict) == (0, "pass"), comment


def test_a_more_biased_one_shuts_it_and_the_group_is_named(team: ScratchGit, cache: Path) -> None:
    _use(team.root, "biased")
    code, comment, record = _judge(team, cache)
    assert (code, record.verdict) == (1, "fail"), comment
    failed = {check.item for check in record.checks if check.verdict == "fail"}
    assert {"nobody-loses[doctor]", "nobody-loses[pilot]"} <= failed
    assert "dark × female" in comment


def test_its_training_writes_a_checkpoint_that_the_suite_can_name(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("team_train", EXAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    dataset = open_dataset("occupations", ROOT / "datasets")
    subject, set_id = dataset.index.subject[0], dataset.index.set_id[0]
    lines = ["file,caption"]
    for member, picture in dict(dataset.images_of([set_id])[set_id]).items():
        (tmp_path / f"{member}.png").write_bytes(picture)
        lines.append(f"{member}.png,a photo of a {subject}")
    (tmp_path / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
    training.train(tmp_path / "captions.csv", SHIPPED / "base", tmp_path / "checkpoint", steps=1, batch=4)
    names = {path.name for path in (SHIPPED / "base").iterdir()}
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == names
    weights = [folder / training.WEIGHTS for folder in (SHIPPED / "base", tmp_path / "checkpoint")]
    assert weights[0].read_bytes() != weights[1].read_bytes()
