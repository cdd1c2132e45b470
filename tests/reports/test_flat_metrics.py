"""metrics.json: a run's numbers by name, as `dvc metrics diff` reads them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from example_records import example_record, failed_computation, fairness_check, skew_check, team_record, waived

from fairgate.records import RunRecord
from fairgate.reports import flat_metrics, render_metrics


def test_every_check_gives_its_value_by_its_item() -> None:
    found = flat_metrics(team_record())
    assert found["fairness"] == 0.912
    assert found["skew[nurse]"] == 0.78
    assert found["no-intersectional-regression@anchor[doctor]"] == found["no-intersectional-regression[doctor]"]


def test_waived_checks_are_counted_as_waived_and_as_nothing_else() -> None:
    found = flat_metrics(team_record())
    counts = {name: value for name, value in found.items() if name.startswith("gate.")}
    assert counts == {
        "gate.fail": 4,
        "gate.error": 0,
        "gate.inconclusive": 0,
        "gate.waived": 1,
        "gate.watched": 0,
        "gate.pass": 11,
    }


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_was_not_measured_or_is_infinite_has_no_entry(value: float | None) -> None:
    found = flat_metrics(
        example_record([fairness_check(None, 0.9).model_copy(update={"value": value}), failed_computation()])
    )
    assert set(found) == {f"gate.{place}" for place in ("pass", "fail", "inconclusive", "error", "waived", "watched")}


def test_the_file_is_flat_json() -> None:
    record = example_record([fairness_check(None, 0.9)])
    assert json.loads(render_metrics(record)) == flat_metrics(record)


def _git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


def _dvc(root: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *words], cwd=root, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def _committed(root: Path, record: RunRecord, message: str) -> None:
    (root / "metrics.json").write_text(render_metrics(record), encoding="utf-8")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", message)


def test_dvc_shows_what_moved_between_two_commits(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    analytics = false\n", encoding="utf-8")
    (tmp_path / "dvc.yaml").write_text("metrics: [metrics.json]\n", encoding="utf-8")
    _committed(tmp_path, example_record([fairness_check("doctor", 0.9), skew_check("nurse", 0.5)]), "before")
    _committed(tmp_path, example_record([fairness_check("doctor", 0.8), waived(skew_check("nurse", 0.75))]), "now")
    moved = json.loads(_dvc(tmp_path, "metrics", "diff", "HEAD~1", "HEAD", "--json"))["metrics.json"]
    assert moved["fairness[doctor]"]["diff"] == pytest.approx(-0.1)
    assert moved["skew[nurse]"] == {"old": 0.5, "new": 0.75, "diff": 0.25}
    assert moved["gate.waived"]["diff"] == 1
    assert moved["gate.pass"]["diff"] == -2
