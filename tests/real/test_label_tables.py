"""Labels that others' models gave real photographs, through tables, the probe `prediction` and the gate: the figures
that were published with them come out."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fairface import RACES, REAL
from imported_photographs import import_images

from fairgate import gate
from fairgate.records import CROSS, CheckResult, RunRecord
from fairgate.suites import resolve

OUTPUTS = REAL / "outputs"
UTKFACE, FACELLM = OUTPUTS / "utkface_faceattr", OUTPUTS / "fairface3k_facellm"
AGES = ["0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-130"]
LAST = [3, 10, 20, 30, 40, 50, 60, 70, 130]
"""Of every age group the last year: as published, ages of 3 and 10 are still in the younger group."""
Row = Mapping[str, str]


def read(path: Path) -> list[dict[str, str]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(text.decode().splitlines()))


def repository(
    root: Path, truths: Iterable[Row], attributes: Mapping[str, Sequence[str]], tables: Mapping[str, Iterable[Row]]
) -> Path:
    """A release without pictures, and tables of labels for it."""
    write(root / "truth.csv", truths)
    for name, rows in tables.items():
        write(root / f"{name}.csv", rows)
    import_images(root / "truth.csv", None, "faces", attributes=attributes, subject="face", root=root / "datasets")
    (root / "fairness_suites").mkdir()
    return root


def write(path: Path, rows: Iterable[Row]) -> None:
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def run(root: Path, suite: str, model: str, baseline: str | None = None) -> RunRecord:
    (root / "fairness_suites" / "faces.yaml").write_text(suite, encoding="utf-8")
    prepared = gate.prepare("faces", root)
    named = f"model:labels:{baseline}.csv" if baseline else "none"
    typed: dict[str, Any] = {"model": f"labels:{model}.csv", "baseline": named, "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.evaluate(prepared, settings, command="x").record


def checks(record: RunRecord) -> dict[str, CheckResult]:
    assert record.verdict != "error", next(one.reason for one in record.checks if one.verdict == "error")
    return {one.id: one for one in record.checks}


@pytest.mark.skipif(not UTKFACE.is_dir(), reason="the labels of UTKFace are not here")
@pytest.mark.nightly
def test_f1_and_balanced_accuracy_of_deepface_by_group_are_the_published_ones(tmp_path: Path) -> None:
    faces = [
        {**row, "age": next(name for name, last in zip(AGES, LAST, strict=True) if int(row["src_age"]) <= last)}
        for row in read(UTKFACE / "deepface.csv.gz")
        if row["pred_gender"] and row["src_gender"] in ("Male", "Female") and not row["src_race"].endswith(".jpg")
    ]
    races = ["White", "Asian", "Black", "Indian", "Other"]
    attributes = {"gender": ["Male", "Female"], "race": races, "age": AGES}
    truths = [{"file": f["image"], "gender": f["src_gender"], "race": f["src_race"], "age": f["age"]} for f in faces]
    given = [
        {"file": f["image"], "gender": f["pred_gender"], "race": f["pred_race"], "age": f["pred_age_grp"]}
        for f in faces
    ]
    root = repository(tmp_path, truths, attributes, {"deepface": given})
    found = {}
    for label_of, labels in attributes.items():
        others = [name for name in attributes if name != label_of]
        record = run(root, _every_number(label_of, labels, others), "deepface")
        for id_, check in checks(record).items():
            metric, number, over = id_.split("-")
            label = labels[int(number)]
            if over == "all":
                found[metric, label_of, label, ()] = check.value
            for group in check.groups:
                found[metric, label_of, label, tuple(sorted(group.group.split(CROSS)))] = group.value
    compared = 0
    for row in read(UTKFACE / "deepface_published.csv"):
        asked = {"age_bins": "age", "genders": "gender", "races": "race"}[row["test_prop"]]
        said = {"age": row["test_age"], "gender": row["test_gender"], "race": row["test_race"]}
        group = tuple(sorted(value for name, value in said.items() if name != asked and value != "All"))
        for metric, column in (("f1", "model_F1"), ("balanced_accuracy", "model_Accuracy")):
            if row[column] != "NA":
                value = found[metric, asked, said[asked], group]
                assert value == pytest.approx(float(row[column]), abs=1e-12), row
                compared += 1
    assert compared == 356 + 432


def _every_number(label_of: str, labels: Sequence[str], others: Sequence[str]) -> str:
    """A suite with both metrics of every label, for everybody, by each other attribute, and by both."""
    groups = {"all": "", "one": f", over: {others[0]}", "two": f", over: {others[1]}", "both": ", over: crossed"}
    lines = [
        f"  - {{id: {metric}-{number}-{name}, probe: reads, metric: {metric}, label: '{label}', at_least: 0.51{over}}}"
        for number, label in enumerate(labels)
        for metric in ("f1", "balanced_accuracy")
        for name, over in groups.items()
    ]
    listed = "\n".join(lines)
    return f"""\
schema: 1
suite: faces
dataset: faces
probes:
  reads: {{kind: prediction, attribute: {label_of}}}
groups: {{attributes: [{", ".join(others)}], min_sets: 2}}
decision: {{draws: 500}}
checks:
{listed}
"""


SUITE = """\
schema: 1
suite: faces
dataset: faces
probes:
  gender: {kind: prediction, attribute: gender}
  race: {kind: prediction, attribute: race, words: {East Asian: Asian, Southeast Asian: Asian}}
groups: {attributes: [gender, race]}
decision: {draws: 500}
checks:
  - {id: gender, probe: gender, metric: accuracy, at_least: 0.8}
  - {id: recall, probe: gender, metric: accuracy, over: gender, at_least: 0.7}
  - {id: races, probe: race, metric: f1, at_least: 0.6}
  - {id: no-worse, probe: gender, metric: accuracy, over: [gender, race], no_worse_than: baseline, margin: 0.05}
  - {id: races-no-worse, probe: race, metric: f1, no_worse_than: baseline, margin: 0.05}
"""


@pytest.mark.skipif(not FACELLM.is_dir(), reason="the labels of FairFace are not here")
def test_a_language_model_and_deepface_have_the_published_errors_and_the_second_is_found_worse(tmp_path: Path) -> None:
    faces = read(FACELLM / "predictions.csv.gz")
    attributes = {"gender": ["Male", "Female"], "race": RACES}
    truths = [{"file": f["image_id"], "gender": f["gender"], "race": f["race"]} for f in faces]
    tables = {
        name: [{"file": f["image_id"], "gender": f[f"{name}_gender"], "race": f[f"{name}_race"]} for f in faces]
        for name in ("facellm", "deepface")
    }
    root = repository(tmp_path, truths, attributes, tables)
    published = {(row["model"], row["metric"], row["group"]): row for row in read(FACELLM / "published.csv")}
    met = 0
    for name, title, baseline in (("facellm", "FaceLLM", None), ("deepface", "DeepFace", "facellm")):
        suite = SUITE if baseline else SUITE.partition("  - {id: no-worse")[0]
        found = checks(run(root, suite, name, baseline))
        recall = {group.group: group.value for group in found["recall"].groups}
        values = {
            ("gender_accuracy", "all"): 100 * found["gender"].value,
            ("gender_recall", "Female"): 100 * recall["Female"],
            ("gender_recall", "Male"): 100 * recall["Male"],
            ("race_macro_F1", "all"): found["races"].value,
        }
        for (metric, group), value in values.items():
            row = published[title, metric, group]
            assert value == pytest.approx(float(row["recomputed"]), abs=5e-5 if value > 1 else 5e-7)
            text = row["value"].removesuffix("%")
            digits = len(text.partition(".")[2])
            met += f"{value:.{digits}f}" == text
    assert met == 7  # the eighth was cut off where it should have been rounded
    assert found["no-worse"].verdict == "fail"
    assert {group.group for group in found["no-worse"].failing_groups} == {f"Female{CROSS}{race}" for race in RACES}
    assert found["races-no-worse"].verdict == "pass"
