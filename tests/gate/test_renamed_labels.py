"""A classifier whose labels are not the baseline's is judged under the baseline's, too, and the change is named."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_repository import Toy, toy_repository

from fairgate import gate
from fairgate.records import RunRecord
from fairgate.suites import resolve

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from classifier_world import save_classifier

LABELS = ["chef", "doctor", "nurse"]
SUITE = """\
schema: 1
suite: jobs
dataset: toy
model: classifier:tuned
baseline: "model:classifier:base"
probes:
  labels: {kind: zero_shot_classification, template: "{label}", labels: [chef, doctor, nurse]}
decision: {draws: 500}
checks:
  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.1}
  - {id: sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.1}
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """An untrained classifier, which answers all pictures much alike: a baseline, and what is to be judged."""
    made = toy_repository(tmp_path_factory.mktemp("renamed"), sets=20)
    save_classifier("vit", made.root / "base", LABELS)
    made.write_suite(SUITE)
    return made


def judged(toy: Toy, **changes: Any) -> RunRecord:
    folder = toy.root / "tuned"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(toy.root / "base", folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": str(toy.root / "cache")}, environment={})
    return gate.evaluate(prepared, settings, command="x").record


def test_names_that_were_exchanged_are_said_next_to_the_verdict(toy: Toy) -> None:
    record = judged(toy, id2label={"0": "doctor", "1": "chef", "2": "nurse"})
    (notice,) = (one for one in record.notices if "labels" in one)
    assert notice.startswith("the labels differ from the baseline's: every check was also judged with the baseline's")


def test_another_number_of_labels_passes_no_comparison(toy: Toy) -> None:
    save_classifier("vit", toy.root / "more", [*LABELS, "pilot"])
    prepared = gate.prepare("jobs", toy.root)
    typed = {"model": "classifier:more", "mlflow": "off", "cache": str(toy.root / "cache")}
    record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record
    assert {check.verdict for check in record.checks} <= {"inconclusive", "fail"}
    assert any("it has 3 labels, and this model 4" in notice for notice in record.notices)


def test_the_same_labels_in_another_spelling_of_the_config_are_no_change(toy: Toy) -> None:
    named = {"0": "Chef", "1": "DOCTOR", "2": "nurse"}
    record = judged(toy, id2label=named, label2id={"chef": 9}, _name_or_path="elsewhere")
    assert not [notice for notice in record.notices if "labels" in notice]
