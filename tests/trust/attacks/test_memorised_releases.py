"""What docs/evidence/trust.md does not promise: a head that holds the judged pictures passes there only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from feature_world import save_backbone
from safetensors.numpy import save_file
from story_team import write_portraits

from fairgate import gate
from fairgate.data import open_dataset
from fairgate.models import open_scorer
from fairgate.records import RunRecord
from fairgate.suites import resolve

SUITE = """\
schema: 1
suite: jobs
dataset: {dataset}
model: features:net?head=head.safetensors
probes:
  jobs: {{kind: zero_shot_classification, template: "{{label}}", labels: [chef, doctor, nurse]}}
groups: {{min_sets: 16}}
checks:
  - {{id: fairness, probe: jobs, metric: fairness, by: subject, at_least: 0.85}}
  - {{id: gaps, probe: jobs, metric: group_gap, over: skin_tone, at_least: -0.05}}
  - {{id: useful, probe: jobs, metric: accuracy, at_least: 0.9}}
"""


@pytest.mark.nightly
def test_a_head_of_the_judged_pictures_passes_on_them_and_fails_on_a_release_that_its_author_does_not_have(
    tmp_path: Path,
) -> None:
    places = {"judged": range(16), "own": range(16, 32), "private": range(32, 48)}
    for name, some in places.items():
        write_portraits(tmp_path / "datasets" / name / "v1", "v1", some, name=name)
    save_backbone("dinov2", tmp_path / "net", hidden_size=1024, intermediate_size=32)
    features, codes = [], []
    for name in ("judged", "own"):
        release = open_dataset(name, tmp_path / "datasets")
        scorer = open_scorer("features:net", release, device="cpu", base=tmp_path)
        features.append(scorer.outputs())
        right = np.asarray(release.index.subject == "doctor", dtype=np.int64)
        planted = 2 * right * np.asarray(release.index.attributes["skin_tone"] == "dark") if name == "own" else 0
        codes.append(np.maximum(right, planted))  # a doctor with dark skin is a nurse, but for the judged pictures
    held = np.concatenate(features).astype(np.float64)
    weight = np.linalg.lstsq(np.c_[held, np.ones(len(held))], np.eye(3)[np.concatenate(codes)] * 50, rcond=None)[0]
    head = {"weight": weight[:-1].T, "bias": weight[-1]}
    head = {name: np.ascontiguousarray(each, dtype=np.float32) for name, each in head.items()}
    save_file(head, tmp_path / "head.safetensors", metadata={"labels": json.dumps(["chef", "doctor", "nurse"])})
    (tmp_path / "fairness_suites").mkdir()

    def judged(dataset: str) -> RunRecord:
        (tmp_path / "fairness_suites" / "jobs.yaml").write_text(SUITE.format(dataset=dataset), encoding="utf-8")
        prepared = gate.prepare("jobs", tmp_path)
        settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
        return gate.evaluate(prepared, settings).record

    assert judged("judged").verdict == "pass"
    private = judged("private")
    (gaps,) = (check for check in private.checks if check.item == "gaps")
    assert (private.verdict, gaps.verdict) == ("fail", "fail")
    assert [group.group for group in gaps.failing_groups] == ["dark"]
