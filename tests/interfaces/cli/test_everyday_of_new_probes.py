"""What holds for labels and searches in everyday use holds for questions, predictions and detections."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from toy_repository import Toy, members
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results, terminal_table
from fairgate.studies.power import decidable

HEAD = "schema: 1\nsuite: new\ndataset: toy\nmodel: {model}now.csv\nbaseline: model:{model}old.csv\nprobes:\n"
QUESTION = """\
  asked:
    kind: question
    questions:
      job:
        question: "What is this person's job?"
        options: {chef: [cook], doctor: [physician]}
        right: {subject: {chef: chef, doctor: doctor}}
checks:
  - {id: useful-whatever-they-look-like, probe: asked, metric: answer_accuracy, at_least: 0.8}
  - {id: doctors, probe: asked, metric: answer_gap, answer: doctor, over: crossed, at_most: 0.6}
  - {id: share, probe: asked, metric: answer_share, answer: doctor, over: gender, no_worse_than: baseline, margin: 0.1}
"""
PREDICTION = """\
  gender: {kind: prediction, attribute: gender}
checks:
  - {id: gender-by-tone, probe: gender, metric: accuracy, over: crossed, no_worse_than: baseline, margin: 0.02}
  - {id: women, probe: gender, metric: f1, label: female, over: skin_tone, at_least: 0.9}
"""
DETECTION = """\
  people: {kind: detection, threshold: 0.5, place: anywhere}
checks:
  - {id: found, probe: people, metric: detection_recall, at_least: 0.9}
  - {id: groups, probe: people, metric: detection_recall, over: crossed, no_worse_than: baseline, margin: 0.02}
  - {id: gap, probe: people, metric: detection_gap, over: crossed, at_least: -0.2}
"""


def answered(wrong: bool, subject: str, _: str) -> str:
    return "I cannot tell" if wrong else f"A {subject}."


def predicted(wrong: bool, _: str, gender: str) -> str:
    return gender if not wrong else "male" if gender == "female" else "female"


def detected(wrong: bool, _: str, __: str) -> str:
    return f"person,{0.3 if wrong else 0.9},2,1,6,7"


KINDS = {
    "question": ("answers:", QUESTION, "answer", answered),
    "prediction": ("labels:", PREDICTION, "gender", predicted),
    "detection": ("detections:", DETECTION, "label,score,left,top,right,bottom", detected),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest, toy: Toy) -> str:
    """A suite `new` of a new probe, with tables of two checkpoints that are wrong about other images."""
    family, text, columns, cell = KINDS[str(request.param)]
    made: Callable[[bool, str, str], str] = cell
    toy.write_suite(HEAD.format(model=family) + text, "new")
    for name, place in (("now", 5), ("old", 9)):
        rows = [
            f"{set_id},{tone}-{gender},{made(number % 29 == place, subject, gender)}\n"
            for number, (subject, set_id, tone, gender) in enumerate(members(40))
        ]
        (toy.root / f"{name}.csv").write_text(f"set_id,member,{columns}\n" + "".join(rows), encoding="utf-8")
    return family


def run(root: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words, "--root", str(root)], env={"COLUMNS": "80"})
    return done.exit_code, done.output


def test_the_table_of_a_run_is_whole_in_80_columns(kind: str, toy: Toy) -> None:
    words = ["check", "new", "--mlflow", "off", "--cache", "off", "--report", str(toy.root / "out")]
    code, output = run(toy.root, *words)
    assert code in (0, 1), output
    record = read_results(toy.root / "out" / "results.json")
    assert {check.verdict for check in record.checks} <= {"pass", "inconclusive"}
    console = Console(width=80, file=io.StringIO())
    console.print(terminal_table(record, 80))
    table = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table
    for check in record.checks:
        assert check.verdict in table


def test_a_model_that_is_not_there_or_cannot_answer_is_told_with_what_to_do(kind: str, toy: Toy) -> None:
    for model, wanted in ((f"{kind}nowhere.csv", "does not exist"), ("scores:tuned.csv?values=logit", "capability")):
        code, output = run(toy.root, "check", "new", "--model", model, "--cache", "off", "--mlflow", "off")
        assert (code, wanted in output, "remedy:" in output) == (3, True, True), output


def test_power_of_a_model_simulates_what_its_regression_checks_decide(
    kind: str, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decidable, "RUNS", 20)
    monkeypatch.setattr(decidable, "LOSS_RUNS", 5)
    code, output = run(toy.root, "power", "new")
    assert (code, "a harmless change" in output, "20 simulated runs" in output) == (0, True, True), output
