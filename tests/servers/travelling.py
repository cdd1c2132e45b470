"""A team whose build, release and baseline's scores are in DVC, with a remote in S3; and the clones of colleagues."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dvc_objects_by_hand import config
from s3_servers import BUCKET
from scratch_git import ScratchGit, scratch_git
from toy_recipe import Toy
from typer.testing import CliRunner, Result

from fairgate.builds.recipes.registry import RECIPES
from fairgate.data import open_dataset, read_dataset
from fairgate.interfaces.cli.main import app

LABELS = {"baker": ("baker", "cook"), "car mechanic": ("car mechanic", "driver")}
SCORES = "fairness_suites/baselines/jobs/scores.parquet"
PARAMS = "builds:\n  toys: {recipe: toy, side: 64, sets: 9}\n"
SUITE = """\
schema: 1
suite: jobs
dataset: toys
model: scores:model.csv?values=logit
baseline: git:origin/main
probes:
  labels:
    kind: zero_shot_classification
    template: "{label}"
    labels: {baker: [baker, cook], car mechanic: [car mechanic, driver]}
  search: {kind: retrieval, prompts: ["{subject}"]}
groups: {min_sets: 3}
decision: {draws: 500}
checks:
  - {id: right, probe: labels, metric: accuracy, at_least: 0.6}
  - {id: no-regression, probe: labels, metric: fairness, no_worse_than: baseline, margin: 0.2}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.6}
"""


@dataclass(frozen=True)
class Clone:
    """A working copy."""

    root: Path

    @property
    def git(self) -> ScratchGit:
        return ScratchGit(self.root)

    @property
    def fingerprints(self) -> tuple[str, str]:
        """Of the build and of the release, as their manifests and content say."""
        datasets = [read_dataset(self.root / place) for place in ("build/toys/dataset", "datasets/toys/v1")]
        for dataset in datasets:
            assert dataset.verify() == []
        return datasets[0].fingerprint, datasets[1].fingerprint

    def dvc(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run DVC as people do."""
        command = [sys.executable, "-m", "dvc", *words]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)

    def fairgate(self, *words: str) -> Result:
        """Run fairgate in the working copy."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.root)
            patch.setitem(RECIPES._found, "toy", Toy)
            return CliRunner().invoke(app, words)

    def check(self, *words: str) -> Result:
        """Judge, with a report in `report`."""
        return self.fairgate("check", "jobs", "--mlflow", "off", "--cache", "off", "--report", "report", *words)

    def copy(self, root: Path) -> Clone:
        """All of it once more, with DVC's cache."""
        return Clone(Path(shutil.copytree(self.root, root, symlinks=True)))

    def clone(self, root: Path) -> Clone:
        """A colleague's: git's files alone."""
        self.git("clone", "--quiet", str(self.root), str(root))
        return Clone(root)


def a_team(root: Path) -> Clone:
    """A team's repository: a build and its release are tracked, and the baseline's scores; nothing is pushed."""
    root.mkdir()
    made = Clone(root)
    (root / "params.yaml").write_text(PARAMS, encoding="utf-8")
    (root / "datasets").mkdir()
    (root / "fairness_suites").mkdir()
    (root / "fairness_suites" / "jobs.yaml").write_text(SUITE, encoding="utf-8")
    _release(made)
    write_scores(root, seed=1)
    scratch_git(root, ignore="/report/\n/build/toys/\n/datasets/\n")
    assert made.dvc("init", "-q").returncode == 0
    done = made.fairgate("baseline", "update", "jobs", "--reason", "the first", "--cache", "off", "--mlflow", "off")
    assert done.exit_code == 0, done.output
    added = made.dvc("add", "build/toys", "datasets", SCORES)
    assert added.returncode == 0, added.stderr
    made.git.commit("a release, its build and a baseline")
    return made


def _release(clone: Clone) -> None:
    for words in (
        ("build", "toys"),
        ("release", "build/toys", "toys", "--unreviewed", "it is noise", "--tolerance", "1", "--root", "datasets"),
    ):
        done = clone.fairgate(*words)
        assert done.exit_code == 0, done.output


def keep_in_s3(clone: Clone, port: int, folder: str) -> None:
    """Name a folder of the bucket as DVC's remote, in the committed configuration."""
    options = f"    endpointurl = http://127.0.0.1:{port}\n"
    (clone.root / ".dvc" / "config").write_text(config(f"s3://{BUCKET}/{folder}", more=options), encoding="utf-8")
    clone.git.commit("a remote")


def write_scores(root: Path, *, seed: int) -> None:
    """Logits of both labels for every image of the newest release: mostly right."""
    index = open_dataset("toys", root / "datasets").index
    draw = np.random.default_rng(seed)
    with (root / "model.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        labels = [label for several in LABELS.values() for label in several]
        writer.writerow(["set_id", "member", *labels])
        for set_id, member, subject in zip(index.set_id, index.member, index.subject, strict=True):
            writer.writerow([set_id, member, *(3.0 * (label == subject) + draw.normal(0, 0.3) for label in labels)])


def change_data(clone: Clone) -> None:
    """A change that replaces the release by a smaller one, which is not pushed."""
    (clone.root / "params.yaml").write_text(PARAMS.replace("sets: 9", "sets: 6"), encoding="utf-8")
    shutil.rmtree(clone.root / "datasets" / "toys")
    _release(clone)
    assert clone.dvc("add", "-q", "datasets").returncode == 0
    clone.git.commit("another release")
