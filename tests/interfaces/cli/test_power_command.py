"""`fairgate power`: the table in a terminal, the files, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records.study import PowerRecord


def run(toy: Toy, *words: str) -> tuple[int, str]:
    arguments = ["power", *words, "--root", str(toy.root), "--cache", "off"]
    result = CliRunner().invoke(app, arguments, env={"CI": "", "COLUMNS": "140"})
    return result.exit_code, result.output


def test_power_prints_its_table_and_writes_its_files(toy: Toy) -> None:
    report = toy.root / "report"
    code, output = run(toy, "jobs", "--wanted", "0.05", "--odds", "0.9", "--report", str(report))
    assert code == 0
    assert "gaps[doctor]" in output
    assert "visible now" in output
    assert "fails the gate in 90% of runs" in output
    assert "--wanted 0.05 --odds 0.9" in output
    assert "note: drawn squares" in output
    record = PowerRecord.model_validate_json((report / "power.json").read_bytes())
    assert {check.wanted for check in record.checks} == {0.05}
    assert "drawn squares" in (report / "power.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["jobs", "--baseline", "none"], "only one was named"),
        (["jobs", "--wanted", "-1"], "the wished regression is -1"),
        (["jbos"], "did you mean 'jobs'"),
        (["jobs", "--baseline", "model:scores:tuned.csv?values=logit"], "it does not differ from itself"),
    ],
)
def test_what_cannot_be_told_ends_with_4(toy: Toy, words: list[str], message: str) -> None:
    code, output = run(toy, *words)
    assert code == 4
    assert message in output


def test_help_imports_neither_models_nor_statistics() -> None:
    code = "import sys; from fairgate.interfaces.cli.main import app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {
        "torch",
        "scipy",
        "numpy",
        "pyarrow",
        "mlflow",
        "fairgate.studies.comparison.run",
        "fairgate.studies.power.run",
    }
