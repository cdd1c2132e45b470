"""The main job on the demonstration data: what `make gate` does, and that the second time costs no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from warm_python import warm_python

from fairgate.interfaces.cli.main import app
from fairgate.portraits.world import planted_cells
from fairgate.records import RunRecord

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"

pytestmark = [
    pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`"),
    pytest.mark.xdist_group("embedded"),
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, embedded_cache: Path) -> Path:
    """The three reports of a demonstration."""
    folder = tmp_path_factory.mktemp("demo") / "reports"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("FAIRGATE_CACHE", str(embedded_cache))
        patch.setattr(sys, "executable", warm_python())
        patch.setenv("PYTEST_ADDOPTS", "-p no:hydra_pytest")
        result = CliRunner().invoke(app, ["demo", "--report", str(folder), "--mlflow", "off"])
    assert result.exit_code == 0, result.output
    assert "base and tuned passed, biased failed" in result.output
    assert (folder / "biased" / "report.html").as_uri() in result.output
    return folder


def read(folder: Path) -> RunRecord:
    return RunRecord.model_validate_json((folder / "results.json").read_bytes())


def test_the_biased_checkpoint_is_found_in_the_planted_cells_and_in_no_others(reports: Path) -> None:
    checks = {check.item: check for check in read(reports / "biased").checks}
    for subject in ("chef", "doctor", "firefighter", "mechanic", "pilot"):
        check = checks[f"no-intersectional-regression[{subject}]"]
        fell = {tuple(group.group.split(" × ")) for group in check.groups if group.verdict == "fail"}
        assert fell == planted_cells("biased", subject), subject
        assert check.verdict == ("fail" if fell else "pass")


def test_the_harmless_checkpoint_passes_every_check_of_every_shipped_suite(reports: Path, embedded_cache: Path) -> None:
    assert {check.verdict for check in read(reports / "tuned").checks} == {"pass"}
    words = ["check", "occupations_base", "--root", str(ROOT), "--mlflow", "off", "--cache", str(embedded_cache)]
    assert CliRunner().invoke(app, words).exit_code == 0


def test_every_report_says_that_the_embedded_world_is_a_test_instrument(reports: Path) -> None:
    for name in ("base", "tuned", "biased"):
        for page in ("report.html", "comment.md"):
            assert "test instrument" in (reports / name / page).read_text(encoding="utf-8")


def test_the_second_time_imports_no_torch_and_decides_the_same(
    reports: Path, tmp_path: Path, embedded_cache: Path
) -> None:
    words = [
        *("--fairness-suite", "occupations", "-q", "--fairness-mlflow", "off", f"--fairness-report={tmp_path}"),
        *("--fairness-model", "open_clip:local-dir:build/portraits/checkpoints/biased"),
        f"--fairness-baseline=file:{reports / 'base'}",
    ]
    code = f"import sys, pytest; code = pytest.main({words!r}); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "FAIRGATE_CACHE": str(embedded_cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert not set(done.stderr.split()) & {"torch", "open_clip", "transformers", "mlflow"}
    again, first = (json.loads((folder / "results.json").read_bytes()) for folder in (tmp_path, reports / "biased"))
    assert again["checks"] == first["checks"]


def test_a_demonstration_without_data_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--report", "reports", "--mlflow", "off"])
    assert result.exit_code == 4
    assert "dvc pull" in result.output
