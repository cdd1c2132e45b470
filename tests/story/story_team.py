"""A team's repository: portraits, a tiny CLIP that it fine-tunes, a suite, and a main branch with a baseline."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from scratch_git import ScratchGit
from typer.testing import CliRunner

from fairgate.data import open_dataset, write_dataset
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord
from fairgate.reports import read_results

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "build/portraits/checkpoints"
WEIGHTS = "open_clip_model.safetensors"

SUITE = """\
schema: 1
suite: jobs
dataset: faces@v1
model: open_clip:local-dir:checkpoint
baseline: git:main
anchor: git:release-1
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: {chef: [chef, line cook, server], doctor: [doctor, nurse, pharmacist]}
  search:
    kind: retrieval
    prompts: ["{subject}", "a photo of {a_subject}"]
checks:
  - {id: fairness, probe: labels, metric: fairness, by: subject, at_least: 0.90}
  - {id: no-regression, probe: labels, metric: fairness, by: subject, no_worse_than: baseline, margin: 0.02,
     anchor_margin: 0.04}
  - {id: gaps, probe: labels, metric: group_gap, over: crossed, by: subject, no_worse_than: baseline, margin: 0.06,
     anchor_margin: 0.2}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.02}
"""


class Team:
    """A repository and the hands that work in it."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache
        self.git: ScratchGit = ScratchGit(root)

    @property
    def suite(self) -> Path:
        return self.root / "fairness_suites" / "jobs.yaml"

    def use(self, checkpoint: Path) -> None:
        """Put a checkpoint where the team keeps its own."""
        shutil.rmtree(self.root / "checkpoint", ignore_errors=True)
        shutil.copytree(checkpoint, self.root / "checkpoint")

    def use_between(self, share: float) -> None:
        """A checkpoint on the straight way from the shipped `base` to the more biased one."""
        self.use(SHIPPED / "base")
        one, other = (load_file(SHIPPED / name / WEIGHTS) for name in ("base", "biased"))
        mixed = {
            name: np.asarray(one[name] + np.float32(share) * (other[name].astype("f4") - one[name])).astype(
                one[name].dtype
            )
            for name in one
        }
        save_file(mixed, self.root / "checkpoint" / WEIGHTS)

    def pull_request(self, branch: str) -> None:
        """A branch from main; what is not committed is forgotten."""
        self.git("checkout", "--quiet", "--force", "-B", branch, "main")
        self.git("clean", "--quiet", "-d", "--force")

    def run(self, *words: str) -> tuple[int, str]:
        """The command line's exit code and output, on a developer's machine."""
        result = CliRunner().invoke(app, list(words), env={"CI": "", "COLUMNS": "120", "GITHUB_ACTIONS": ""})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    def gate(self, *words: str) -> tuple[int, str, RunRecord]:
        """`fairgate check` as the pull request's job runs it: exit code, output, record."""
        options = ["--root", str(self.root), "--mlflow", "off", "--cache", str(self.cache), *words]
        report = self.root / ".fairgate" / "report"
        code, output = self.run("check", "jobs", "--report", str(report), *options)
        return code, output, read_results(report / "results.json")

    @property
    def comment(self) -> str:
        """What the job would post on the pull request."""
        return (self.root / ".fairgate" / "report" / "comment.md").read_text(encoding="utf-8")

    def update_baseline(self, reason: str, *words: str) -> tuple[int, str]:
        options = ["--root", str(self.root), "--mlflow", "off", "--cache", str(self.cache), *words]
        return self.run("baseline", "update", "jobs", "--reason", reason, *options)

    def merge(self, branch: str) -> None:
        self.git("checkout", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", f"merge {branch}", branch)


def write_portraits(
    folder: Path, version: str, places: range, *, name: str = "faces", subjects: Sequence[str] = ("chef", "doctor")
) -> None:
    """Some sets of these subjects of the embedded release, as a release of their own."""
    released = open_dataset("occupations", ROOT / "datasets")
    index, of_subject = released.index, {}
    for subject, set_id in zip(index.subject.tolist(), index.set_id.tolist(), strict=True):
        of_subject.setdefault(subject, {})[set_id] = None
    wanted = [list(of_subject[subject])[place] for subject in subjects for place in places]
    pictures = {set_id: dict(members) for set_id, members in released.images_of(wanted).items()}
    rows = (
        {
            "image": pictures[set_id][member],
            "path": index.path[row],
            "set_id": set_id,
            "member": member,
            "subject": index.subject[row],
            "caption": f"a drawing of a {index.subject[row]}",
            **{attribute: codes[row] for attribute, codes in index.attributes.items()},
        }
        for row, (set_id, member) in enumerate(zip(index.set_id.tolist(), index.member.tolist(), strict=True))
        if set_id in pictures
    )
    write_dataset(
        folder,
        rows,
        name=name,
        version=version,
        attributes={each: list(groups) for each, groups in released.manifest.attributes.items()},
        recipe={"name": "a part of the embedded release"},
        licence="CC0-1.0",
        counterfactual=True,
        notice=released.manifest.notice,
    )
