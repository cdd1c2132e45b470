"""A small repository of labelled single images, no files, with as many images and right answers per group as asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from imported_photographs import import_images

from fairgate import gate
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

RECORDED = {"race": ["Black", "White", "other"], "gender": ["Female", "Male"]}
SUITE = """\
schema: 1
suite: people
dataset: people
probes:
  gender:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: [man, woman]
    truth: gender
    words: {Male: man, Female: woman}
  search:
    kind: association
    template: "a photo of a {word}"
    words: [chef]
groups: {min_sets: 30}
decision: {draws: 500}
checks:
  - {id: useful, probe: gender, metric: accuracy, at_least: 0.6}
"""

Group = tuple[str, str]
"""Race and gender."""


@dataclass(frozen=True)
class People:
    """Where the repository is, and how many images each group has."""

    root: Path
    sizes: Mapping[Group, int]

    def images(self) -> list[tuple[str, Group, int]]:
        """Path, group and number inside the group of every image, in stored order."""
        return [(f"{'-'.join(group)}-{at}.jpg", group, at) for group, size in self.sizes.items() for at in range(size)]

    def scores(
        self,
        name: str,
        right: Mapping[Group, float],
        liked: Mapping[Group, float] | None = None,
        noise: float = 0.05,
    ) -> None:
        """A table `name.csv`: of each group the share `right` of answers is right (all, if not named); the images of a
        group are by `liked` nearer to the word of the search."""
        rng = np.random.default_rng(len(name))
        rows = ["file,a photo of a man,a photo of a woman,a photo of a chef"]
        for path, group, at in self.images():
            lead = 1.0 if at < round(right.get(group, 1.0) * self.sizes[group]) else -1.0
            lead += rng.normal(0, noise)
            man = lead if group[1] == "Male" else -lead
            rows.append(f"{path},{man},0.0,{rng.normal((liked or {}).get(group, 0.0), 1.0)}")
        (self.root / f"{name}.csv").write_text("\n".join(rows), encoding="utf-8")

    def write_suite(self, checks: str, text: str = SUITE) -> None:
        (self.root / "fairness_suites" / "people.yaml").write_text(text + checks, encoding="utf-8")

    def run(self, model: str, baseline: str | None = None, **options: str) -> RunRecord:
        """The record of a run on one table of scores, against another."""
        prepared = gate.prepare("people", self.root)
        typed: dict[str, str | None] = {
            "model": f"scores:{model}.csv?values=logit",
            "baseline": f"model:scores:{baseline}.csv?values=logit" if baseline else "none",
            "mlflow": "off",
            "cache": "off",
        }
        settings = resolve(prepared.loaded.suite, typed | options, environment={})
        return gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings).record


def people_repository(root: Path, sizes: Mapping[Group, int]) -> People:
    """A repository whose dataset has so many images of each group, and a suite `people` of one harmless check."""
    people = People(root, sizes)
    lines = [f"{path},{gender},{race}" for path, (race, gender), _ in people.images()]
    (root / "labels.csv").write_text("\n".join(["file,gender,race", *lines]), encoding="utf-8")
    import_images(root / "labels.csv", None, "people", attributes=RECORDED, subject="person", root=root / "datasets")
    (root / "fairness_suites").mkdir()
    people.write_suite("")
    return people


def check_of(record: RunRecord, id_: str) -> CheckResult:
    """The check with this id."""
    return next(one for one in record.checks if one.id == id_)
