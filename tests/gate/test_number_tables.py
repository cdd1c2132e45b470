"""`numbers:` tables in the gate: means and effect sizes by group, judged end to end; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from imported_photographs import import_images

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.records import CheckResult
from fairgate.suites import resolve

IMAGES = 300
SUITE = """\
schema: 1
suite: rated
dataset: people
model: "numbers:now.jsonl?id=key"
baseline: "model:numbers:before.jsonl?id=key"
probes:
  rating: {kind: number, column: rating}
decision: {draws: 500}
checks:
  - {id: useful, probe: rating, metric: number_agreement, no_worse_than: baseline, margin: 0.2}
  - {id: apart, probe: rating, metric: effect_size, over: gender, no_worse_than: baseline, margin: 0.2}
  - {id: bounded, probe: rating, metric: effect_size, over: gender, at_most: 0.3}
  - {id: chance, probe: rating, metric: effect_p, over: gender, at_least: 0.05}
  - {id: means, probe: rating, metric: mean_number, over: gender, no_worse_than: baseline, margin: 0.1}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rows = [f"{n:03d}.jpg,{('male', 'female')[n % 2]}" for n in range(IMAGES)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,gender", *rows]), encoding="utf-8")
    groups = {"gender": ["male", "female"]}
    root = tmp_path / "datasets"
    import_images(tmp_path / "labels.csv", None, "people", attributes=groups, subject="person", root=root)
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites/rated.yaml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def rated(root: Path, name: str, *, seed: int, lost: float = 0.0, changed: Mapping[int, object] | None = None) -> None:
    """Ratings of every image: one of a man and a woman, noise of `seed`, and what women have `lost`."""
    own, noise = np.random.default_rng(0).normal(size=IMAGES // 2), np.random.default_rng(seed).normal(size=IMAGES)
    ratings = np.repeat(own, 2) + 0.1 * noise - lost * (np.arange(IMAGES) % 2)
    rows = [{"key": f"photos/{n:03d}.jpg", "rating": rating} for n, rating in enumerate(ratings.tolist())]
    for n, rating in (changed or {}).items():
        rows[n]["rating"] = rating
    (root / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def judged(root: Path) -> dict[str, CheckResult]:
    prepared = gate.prepare("rated", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    return {check.id: check for check in gate.evaluate(prepared, settings).record.checks}


def test_a_harmless_change_passes_and_a_group_that_loses_fails_in_every_number(root: Path) -> None:
    rated(root, "before.jsonl", seed=1)
    rated(root, "now.jsonl", seed=2)
    assert {id_: check.verdict for id_, check in judged(root).items()} == dict.fromkeys(
        ["useful", "apart", "bounded", "chance", "means"], "pass"
    )
    rated(root, "now.jsonl", seed=2, lost=0.8)
    checks = judged(root)
    assert [checks[id_].verdict for id_ in ("apart", "bounded", "chance", "means")] == ["fail"] * 4
    assert checks["means"].worst_group == "female"
    assert checks["chance"].value == pytest.approx(1 / 2000)
    assert checks["chance"].interval == "no interval: a p-value is about these images alone"
    (root / "now.jsonl").write_text("".join(f'{{"key": "{n:03d}.jpg", "rating": 1}}\n' for n in range(IMAGES)))
    checks = judged(root)
    assert (checks["useful"].verdict, checks["useful"].value) == ("fail", pytest.approx(0.0))
    assert checks["apart"].verdict == "error"


def test_numbers_that_are_missing_are_no_verdict(root: Path) -> None:
    rated(root, "before.jsonl", seed=1)
    rated(root, "now.jsonl", seed=2, changed={7: None})
    assert "NaN or infinite for 1 image: '007.jpg'" in judged(root)["useful"].reason
    rated(root, "now.jsonl", seed=2, changed={7: "0.3"})
    assert "does not hold numbers (such as" in judged(root)["useful"].reason
    rated(root, "now.jsonl", seed=2)
    lines = (root / "now.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (root / "now.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    checks = judged(root)
    assert {check.verdict for check in checks.values()} == {"error"}
    assert "lacks 1 of the dataset's images" in checks["useful"].reason


@pytest.mark.parametrize("scale", [1e155, 1e-160])
def test_numbers_whose_squares_overflow_hide_no_effect(root: Path, scale: float) -> None:
    rated(root, "before.jsonl", seed=1)
    rated(root, "now.jsonl", seed=2, lost=0.8)
    rows = map(json.loads, (root / "now.jsonl").read_text(encoding="utf-8").splitlines())
    text = "".join(json.dumps({**row, "rating": row["rating"] * scale}) + "\n" for row in rows)
    (root / "now.jsonl").write_text(text, encoding="utf-8")
    checks = judged(root)
    assert {checks[id_].verdict for id_ in ("apart", "bounded", "chance")} == {"error"}
    if scale > 1:
        assert "column 'rating' is larger than 1e+100 in size for 300 images" in checks["useful"].reason


def test_a_p_value_is_compared_with_no_baseline(root: Path) -> None:
    compared = "effect_p, over: gender, no_worse_than: baseline, margin: 0.1"
    text = SUITE.replace("effect_p, over: gender, at_least: 0.05", compared)
    (root / "fairness_suites/rated.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError, match="says nothing of a change") as caught:
        gate.prepare("rated", root)
    assert "`at_least`" in str(caught.value.remedy)
