"""A detector that misses the dark doctors fails by that group and subject alone; one that finds the same passes."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from detector_planted import BOX, fitted
from PIL import Image

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.portraits.dataset import rows
from fairgate.portraits.world import ATTRIBUTES
from fairgate.records import CheckResult
from fairgate.suites import resolve

SETS = 10
SUITE = f"""\
schema: 1
suite: detector
dataset: faces
model: "detector:tuned"
baseline: "model:detector:base"
probes:
  people: {{kind: detection, threshold: 0.5}}
groups: {{attributes: each, min_sets: {SETS}}}
decision: {{draws: 1000}}
checks:
  - {{id: found, probe: people, metric: detection_recall, by: subject, over: each, at_least: 0.95}}
  - {{id: gap, probe: people, metric: detection_gap, over: skin_tone, by: subject, no_worse_than: baseline,
     margin: 0.1}}
  - {{id: nobody, probe: people, metric: false_boxes, at_most: 0.05}}
"""

Run = Callable[..., Mapping[str, CheckResult]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two subjects, a baseline, a checkpoint that finds the same, and one that misses dark doctors."""
    home = tmp_path_factory.mktemp("detector-gate")
    drawn = [{**row, **BOX} for row in rows(SETS, subjects=["doctor", "firefighter"])]
    options = {"name": "faces", "version": "v1", "attributes": ATTRIBUTES, "recipe": {"name": "portraits"}}
    write_dataset(home / "datasets" / "faces" / "v1", drawn, licence="CC0-1.0", counterfactual=True, **options)
    save = fitted(drawn, [Image.open(io.BytesIO(row["image"])).convert("RGB") for row in drawn])
    save(home / "base", lambda _: True)
    save(home / "tuned", lambda _: True, seed=1)
    save(home / "biased", lambda row: not (row["subject"] == "doctor" and row["skin_tone"] == "dark"))
    (home / "fairness_suites").mkdir()
    (home / "fairness_suites" / "detector.yaml").write_text(SUITE, encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def run(root: Path) -> Run:
    def evaluate(name: str) -> Mapping[str, CheckResult]:
        prepared = gate.prepare("detector", root)
        options = {"model": f"detector:{name}", "mlflow": "off", "cache": str(root / "cache")}
        settings = resolve(prepared.loaded.suite, options, environment={})
        return {check.item: check for check in gate.evaluate(prepared, settings, command="x").record.checks}

    return evaluate


def test_a_checkpoint_that_finds_the_same_persons_passes(run: Run) -> None:
    assert {check.verdict for check in run("tuned").values()} == {"pass"}


def test_missed_members_fail_by_group_and_subject_and_nowhere_else(run: Run) -> None:
    checks = run("biased")
    assert {item for item, check in checks.items() if check.verdict == "fail"} == {"found[doctor]", "gap[doctor]"}
    groups = {group.group: group.value for group in checks["found[doctor]"].groups}
    assert groups["dark"] == 0
    assert groups["light"] == 1
    tones = len(ATTRIBUTES["skin_tone"])
    assert checks["gap[doctor]"].delta == pytest.approx(
        -1 + 1 / tones
    )  # from 0 to: none of its own, the other tones' all


@pytest.mark.nightly
def test_classes_under_other_names_pass_no_comparison(root: Path, run: Run) -> None:
    folder = Path(shutil.copytree(root / "tuned", root / "renamed"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["id2label"]["1"] = "mannequin"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    verdicts = {item: check.verdict for item, check in run("renamed").items()}
    assert "pass" not in {verdicts["gap[doctor]"], verdicts["gap[firefighter]"]}
    assert verdicts["found[doctor]"] == "pass"  # a bound is held on what the model calls a person
