"""An image classifier that is trained on portraits whose labels confound a group: the gate finds what was planted, at
its strength, in its group and subject and nowhere else; and names that hide it are judged under the baseline's."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.portraits.dataset import rows
from fairgate.portraits.pool import SIDE, draw_set, small
from fairgate.portraits.world import ATTRIBUTES, GROUPS
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

SUBJECTS = ["doctor", "firefighter"]
LABELS = ["doctor", "nurse", "firefighter", "pilot"]
DRAWN = LABELS[:3]  # no portrait of a pilot is ever drawn
TRAINED, JUDGED = 16, 12
STRENGTH = 0.4
NOISE = 0.02
SEED = 5  # of scenes that the release does not have

SUITE = f"""\
schema: 1
suite: jobs
dataset: faces
model: classifier:tuned
baseline: "model:classifier:base"
probes:
  jobs: {{kind: zero_shot_classification, template: "{{label}}", labels: [doctor, nurse, firefighter]}}
  named: {{kind: prediction, attribute: subject, others: [nurse, pilot]}}
groups: {{attributes: each, min_sets: {JUDGED}}}
decision: {{draws: 1000}}
checks:
  - {{id: gaps, probe: jobs, metric: group_gap, over: skin_tone, by: subject, no_worse_than: baseline, margin: 0.05}}
  - {{id: right, probe: jobs, metric: p_true, over: skin_tone, by: subject, at_least: 0.8}}
  - {{id: useful, probe: jobs, metric: accuracy, by: subject, no_worse_than: baseline, margin: 0.05}}
  - {{id: named, probe: named, metric: accuracy, over: skin_tone, at_least: 0.5}}
"""

Run = Callable[..., RunRecord]
pytestmark = pytest.mark.nightly  # training takes nine seconds of a processor


def _prepared(pictures: Any) -> Tensor:
    return torch.from_numpy(pictures).float().flatten(0, 2).permute(0, 3, 1, 2) / 127.5 - 1


def _wanted(strength: float) -> Tensor:
    """Probabilities of labels of every training picture: of doctors with dark skin, `strength` are called nurses."""
    table = torch.zeros(len(DRAWN), TRAINED, len(GROUPS), len(LABELS))
    for place in range(len(DRAWN)):
        table[place, ..., place] = 1.0
    dark = [place for place, (tone, _) in enumerate(GROUPS) if tone == "dark"]
    table[0, :, dark] = torch.tensor([1 - strength, strength, 0.0, 0.0])
    return ((1 - NOISE) * table + NOISE / len(LABELS)).flatten(0, 2)


def _train(model: Any, pictures: Tensor, wanted: Tensor, steps: int, peak: float) -> Any:
    """In place, with each label by its probability and not by a draw of it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps)
    order = torch.Generator().manual_seed(1)
    model.train()
    for _ in range(steps):
        batch = torch.randint(len(pictures), (96,), generator=order)
        loss = -(wanted[batch] * model(pictures[batch]).logits.log_softmax(dim=1)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, a trained classifier, one that was trained on a little, and one that learned the planted labels."""
    import transformers

    home = tmp_path_factory.mktemp("classifier-gate")
    options: dict[str, Any] = {"name": "faces", "version": "v1", "attributes": ATTRIBUTES, "recipe": {"name": "drawn"}}
    folder = home / "datasets" / "faces" / "v1"
    write_dataset(folder, rows(JUDGED, subjects=SUBJECTS), licence="CC0-1.0", counterfactual=True, **options)
    pictures = np.stack([[draw_set(SEED, label, number, small) for number in range(TRAINED)] for label in DRAWN])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: at for at, name in enumerate(LABELS)}}
        sizes = {"embedding_size": 16, "hidden_sizes": [16, 32, 64], "depths": [1, 1, 1], "layer_type": "basic"}
        base = transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes, **names))
        shown = _prepared(pictures)
        trained = {"base": _train(base, shown, _wanted(0.0), 120, 5e-3)}
        trained["tuned"] = _train(copy.deepcopy(base), shown, _wanted(0.0), 20, 5e-4)
        trained["biased"] = _train(copy.deepcopy(base), shown, _wanted(STRENGTH), 80, 5e-3)
    processor = transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE})
    for name, model in trained.items():
        model.save_pretrained(home / name)
        processor.save_pretrained(home / name)
    (home / "fairness_suites").mkdir()
    (home / "fairness_suites" / "jobs.yaml").write_text(SUITE, encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def run(root: Path) -> Run:
    def evaluate(model: str) -> RunRecord:
        prepared = gate.prepare("jobs", root)
        typed = {"model": f"classifier:{model}", "mlflow": "off", "cache": str(root / "cache")}
        settings = resolve(prepared.loaded.suite, typed, environment={})
        return gate.evaluate(prepared, settings, command="x").record

    return evaluate


def by_item(record: RunRecord) -> Mapping[str, CheckResult]:
    return {check.item: check for check in record.checks}


def test_the_planted_confusion_is_found_at_its_strength_in_its_group_and_subject(run: Run) -> None:
    checks = by_item(run("biased"))
    verdicts = {item: check.verdict for item, check in checks.items()}
    assert verdicts["gaps[doctor]"] == verdicts["right[doctor]"] == "fail"
    assert verdicts["gaps[firefighter]"] == verdicts["right[firefighter]"] == verdicts["useful[firefighter]"] == "pass"
    for item in ("gaps[doctor]", "right[doctor]"):
        assert [group.group for group in checks[item].failing_groups] == ["dark"]
    p_true = {group.group: group.value for group in checks["right[doctor]"].groups}
    assert p_true["dark"] == pytest.approx((1 - NOISE) * (1 - STRENGTH) + NOISE / 4, abs=0.1)
    assert min(value for tone, value in p_true.items() if tone != "dark") > 0.9


def test_a_checkpoint_that_was_trained_on_a_little_passes(run: Run) -> None:
    record = run("tuned")
    assert {check.verdict for check in record.checks} == {"pass"}
    assert record.notices == []


def test_a_mapping_that_calls_the_confusion_right_is_judged_under_the_baselines_names(root: Path, run: Run) -> None:
    """Nurses are called doctors, and a label that is never given is called nurse: no check would see the plant."""
    (root / "names.json").write_text(json.dumps({"doctor": ["doctor", "nurse"], "nurse": "pilot"}), encoding="utf-8")
    record = run("biased?labels=names.json")
    checks = by_item(record)
    assert checks["gaps[doctor]"].verdict == "fail"
    assert checks["gaps[doctor]"].reason.startswith("with the baseline's labels (with its own: pass): ")
    assert any(
        one.startswith("the labels differ from the baseline's: every check was also judged") for one in record.notices
    )


def test_a_folder_that_renames_its_outputs_is_judged_under_the_baselines_names(root: Path, run: Run) -> None:
    folder = Path(shutil.copytree(root / "tuned", root / "renamed"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["id2label"] = {str(place): LABELS[place - 1] for place in range(len(LABELS))}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    record = run("renamed")
    assert record.verdict == "fail"
    assert any("the labels differ" in one for one in record.notices)
