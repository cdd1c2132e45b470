"""`fairgate power`: the table in a terminal, the file, and what it refuses."""

from __future__ import annotations

import pytest
from toy_repository import SUITE, Toy
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.records import PowerRecord
from fairgate.studies.power import decidable


def run(toy: Toy, *words: str) -> tuple[int, str]:
    arguments = ["power", *words, "--root", str(toy.root), "--cache", "off"]
    result = CliRunner().invoke(app, arguments, env={"CI": "", "COLUMNS": "140"})
    return result.exit_code, result.output


def test_power_prints_its_table_and_writes_its_file(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decidable, "RUNS", 20)
    monkeypatch.setattr(decidable, "LOSSES", (0.1,))
    monkeypatch.setattr(decidable, "LOSS_RUNS", 5)
    toy.write_suite(SUITE.replace("margin: 0.04", "margin: 0.004"))
    report = toy.root / "report"
    code, output = run(toy, "jobs", "--like", "scores:base.csv?values=logit", "--report", str(report))
    assert code == 0
    assert "fails a loss of" in output
    assert "warning: 'gaps' passes a harmless change only" in output
    assert "--like 'scores:base.csv?values=logit'" in output
    assert "note: drawn squares" in output
    record = PowerRecord.model_validate_json((report / "power.json").read_bytes())
    assert f"{record.together:.0%} of the time" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [(["jbos"], "did you mean 'jobs'"), (["jobs", "--like", "scores:absent.csv"], "absent.csv")],
)
def test_what_cannot_be_told_ends_with_4(toy: Toy, words: list[str], message: str) -> None:
    code, output = run(toy, *words)
    assert code == 4
    assert message in output
