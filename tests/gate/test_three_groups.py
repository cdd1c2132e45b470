"""An attribute of three values (man, woman, nonbinary), end to end: every metric of groups, and who is named."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.data import write_dataset
from fairgate.gate import evaluate, prepare, settings_of
from fairgate.interfaces.cli.main import app
from fairgate.records import RunRecord

GENDERS = ("man", "woman", "nonbinary")
SUBJECTS, SETS = ("chef", "doctor"), 60
TEXTS = ["chef", "nurse", "doctor", "waiter", "hero", "villain", "a chef", "a doctor"]

SUITE = """\
schema: 1
suite: three
dataset: three
model: scores:same.csv?values=logit
baseline: model:scores:before.csv?values=logit
probes:
  labels: {kind: zero_shot_classification, template: "{label}", labels: [chef, nurse, doctor, waiter]}
  search: {kind: retrieval, prompts: ["{a_subject}"]}
  pairs: {kind: pair_association, template: "{word}", first: [hero], second: [villain]}
decision: {draws: 500}
checks:
  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.05}
  - {id: fairness, probe: labels, metric: fairness, no_worse_than: baseline, margin: 0.05}
  - {id: gap, probe: labels, metric: group_gap, over: gender, no_worse_than: baseline, margin: 0.05}
  - {id: accuracy-gap, probe: labels, metric: accuracy_gap, over: gender, no_worse_than: baseline, margin: 0.05}
  - {id: accuracy, probe: labels, metric: accuracy, over: gender, at_least: 0.8}
  - {id: skew, probe: search, metric: max_skew_at_k, k: 60, over: gender, at_most: 0.4}
  - {id: least, probe: search, metric: min_skew_at_k, k: 60, over: gender, at_least: -0.5}
  - {id: ndkl, probe: search, metric: ndkl_at_k, k: 60, over: gender, at_most: 0.3}
  - {id: entropy, probe: search, metric: normalized_entropy_at_k, k: 60, over: gender, at_least: 0.9}
  - {id: c-asc, probe: search, metric: c_asc, over: gender, at_most: 0.5}
  - {id: two, probe: search, metric: bias_at_k, k: 60, over: gender, first: man, second: nonbinary, at_most: 0.5}
  - {id: s, probe: pairs, metric: association, over: gender, at_most: 0.75}
  - {id: s-apart, probe: pairs, metric: differential_association, over: gender, at_most: 0.3}
"""
BY_GROUP = {"gap", "accuracy-gap", "accuracy", "skew", "least", "ndkl", "entropy", "c-asc", "two", "s", "s-apart"}


def images() -> Iterator[tuple[str, str, str]]:
    """Subject, set and group of every image."""
    for subject in SUBJECTS:
        for number in range(SETS):
            for gender in GENDERS:
                yield subject, f"{subject}-{number:02d}", gender


def write_table(path: Path, seed: int, planted: str | None = None) -> None:
    """Logits of every text; of the planted group the true label and its search are lower, and `hero` is higher."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *TEXTS])
        for subject, set_id, gender in images():
            lower = 3.0 if gender == planted else 0.0
            true = {subject: 3.0 - 1.5 * lower, f"a {subject}": 2.0 - lower, "hero": lower}
            writer.writerow([set_id, gender, *(true.get(text, 0.0) + rng.normal(0, 0.3) for text in TEXTS)])


@pytest.fixture
def three(toy: Toy) -> Toy:
    def rows() -> Iterator[Mapping[str, object]]:
        for subject, set_id, gender in images():
            names = {"path": f"{set_id}-{gender}.png", "set_id": set_id, "member": gender, "subject": subject}
            yield {**names, "gender": gender}

    write_dataset(
        toy.root / "datasets" / "three" / "v1",
        rows(),
        name="three",
        version="v1",
        attributes={"gender": list(GENDERS)},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
    )
    toy.write_suite(SUITE, "three")
    write_table(toy.root / "before.csv", 1)
    return toy


def judged(toy: Toy, planted: str | None) -> RunRecord:
    write_table(toy.root / "now.csv", 2, planted)
    prepared = prepare("three", toy.root)
    settings = settings_of(prepared, model=f"scores:{toy.root}/now.csv?values=logit", cache="off", mlflow="off")
    return evaluate(prepared, settings).record


@pytest.mark.parametrize("planted", [None, "nonbinary", "woman"])
def test_every_metric_of_groups_sees_three_and_names_the_one_that_lost(three: Toy, planted: str | None) -> None:
    record = judged(three, planted)
    checks = {check.id: check for check in record.checks}
    for check in checks.values():
        assert check.over is None or {group.group for group in check.groups} <= set(GENDERS)
    failing = {id_ for id_, check in checks.items() if check.verdict == "fail"}
    if planted is None:
        assert not failing, [(check.id, check.value) for check in record.checks if check.verdict != "pass"]
        return
    assert failing >= BY_GROUP - {"two"}
    assert ("two" in failing) == (planted == "nonbinary")
    for id_ in ("gap", "accuracy-gap", "accuracy", "least", "c-asc", "s", "s-apart"):
        assert {group.group for group in checks[id_].groups if group.verdict == "fail"} >= {planted}, id_
    assert {group.group for group in checks["gap"].groups if group.verdict == "fail"} == {planted}


def test_what_compares_two_groups_names_the_three_and_the_metric_of_all(three: Toy) -> None:
    three.write_suite(SUITE.replace("first: man, second: nonbinary, ", ""), "three")
    result = CliRunner().invoke(app, ["check", "three", "--root", str(three.root), "--mlflow", "off"])
    output = " ".join(result.output.split())
    assert result.exit_code == 4
    assert "compares two groups, and gender has 3: man, woman, nonbinary." in output
    assert "say which two: `first: man, second: woman`; or compare all of them by `metric: max_skew_at_k`" in output
