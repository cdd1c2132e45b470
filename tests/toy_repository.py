"""A small repository with a dataset, a suite and tables of scores, in which a known bias can be planted."""

from __future__ import annotations

import atexit
import csv
import functools
import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from fairgate.data import write_dataset

TONES, GENDERS = ["light", "dark"], ["male", "female"]
LABELS = {"chef": ["chef", "line cook"], "doctor": ["doctor", "nurse"]}
PROMPTS = [f"a photo of a {label}" for labels in LABELS.values() for label in labels]
QUERIES = {"chef": ["chef", "a picture of a chef"], "doctor": ["doctor", "a picture of a doctor"]}

SUITE = """\
schema: 1
suite: jobs
dataset: toy
model: scores:tuned.csv?values=logit
baseline: model:scores:base.csv?values=logit
probes:
  labels:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: {chef: [chef, line cook], doctor: [doctor, nurse]}
  search:
    kind: retrieval
    prompts: ["{subject}", "a picture of {a_subject}"]
decision: {draws: 1000}
checks:
  - {id: fairness, probe: labels, metric: fairness, at_least: 0.9}
  - {id: fairness-by-job, probe: labels, metric: fairness, by: subject, at_least: 0.85}
  - {id: skew, probe: search, metric: max_skew_at_k, k: 60, over: each, by: subject, at_most: 0.45}
  - {id: no-regression, probe: labels, metric: fairness, no_worse_than: baseline, margin: 0.03}
  - {id: gaps, probe: labels, metric: group_gap, over: crossed, by: subject, no_worse_than: baseline, margin: 0.04}
  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.05}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}
"""


@dataclass(frozen=True)
class Toy:
    """Where things are."""

    root: Path

    @property
    def suite(self) -> Path:
        return self.root / "fairness_suites" / "jobs.yaml"

    def write_suite(self, text: str, name: str = "jobs") -> Path:
        path = self.root / "fairness_suites" / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path


def toy_repository(root: Path, sets: int = 40) -> Toy:
    """A repository whose suite `jobs` passes: `tuned` against `base`. `biased.csv` has a planted bias."""
    shutil.copytree(_made(sets), root, dirs_exist_ok=True)
    return Toy(root)


@functools.cache
def _made(sets: int) -> Path:
    """A repository that nobody changes, made once per process."""
    root = Path(tempfile.mkdtemp(prefix="toy-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    release(root, "v1", sets)
    (root / "fairness_suites").mkdir()
    Toy(root).write_suite(SUITE)
    write_scores_table(root / "base.csv", sets, seed=1)
    write_scores_table(root / "tuned.csv", sets, seed=2)
    write_scores_table(root / "biased.csv", sets, seed=3, planted={("doctor", "dark", "female"): 2.5})
    return root


def release(root: Path, version: str, sets: int, *, blue: int = 10) -> Path:
    """A release of the toy dataset with that many sets of each subject, in some blue; its folder."""
    folder = root / "datasets" / "toy" / version
    write_dataset(
        folder,
        rows(sets, blue),
        name="toy",
        version=version,
        attributes={"skin_tone": TONES, "gender": GENDERS},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
        notice="drawn squares",
    )
    return folder


def members(sets: int) -> Iterator[tuple[str, str, str, str]]:
    """(subject, set_id, skin tone, gender) of every image, in stored order."""
    for subject, number in product(LABELS, range(sets)):
        for tone, gender in product(TONES, GENDERS):
            yield subject, f"{subject}-{number:03d}", tone, gender


def rows(sets: int, blue: int = 10) -> Iterator[Mapping[str, object]]:
    for subject, set_id, tone, gender in members(sets):
        shade = 200 if tone == "light" else 80
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), (shade, shade // 2, len(gender) * blue)).save(buffer, "PNG")
        yield {
            "image": buffer.getvalue(),
            "path": f"{set_id}-{tone}-{gender}.png",
            "set_id": set_id,
            "member": f"{tone}-{gender}",
            "subject": subject,
            "caption": f"a photo of a {subject}",
            "skin_tone": tone,
            "gender": gender,
        }


def write_scores_table(
    path: Path,
    sets: int,
    *,
    seed: int,
    planted: Mapping[tuple[str, str, str], float] = {},
    noise: float = 0.08,
) -> None:
    """Logits of every prompt for every image. `planted[(subject, tone, gender)]` is taken from the true label."""
    shared, own = np.random.default_rng(0), np.random.default_rng(seed)
    header = ["set_id", "member", *PROMPTS, *(query for queries in QUERIES.values() for query in queries)]
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(header)
        scene = 0.0
        for subject, set_id, tone, gender in members(sets):
            if (tone, gender) == ("light", "male"):
                scene = shared.normal(2.0, 0.4)
            loss = planted.get((subject, tone, gender), 0.0)
            labels = [_logit(own, noise, scene, label == subject, loss) for label in _all_labels()]
            queries = [own.normal(1.0 if job == subject else 0.0, 0.2) for job, asked in QUERIES.items() for _ in asked]
            writer.writerow([set_id, f"{tone}-{gender}", *labels, *queries])


def _logit(rng: np.random.Generator, noise: float, scene: float, true: bool, loss: float) -> float:
    return float((scene - loss if true else 0.0) + rng.normal(0, noise))


def _all_labels() -> Sequence[str]:
    return [label for labels in LABELS.values() for label in labels]
