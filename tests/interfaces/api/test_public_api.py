"""`import fairgate`: the gate and the audit from Python, as the commands run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

import fairgate
from fairgate.ground.errors import DatasetError, FairgateError, SuiteError
from fairgate.interfaces.cli.main import app

BASE, BIASED = (f"scores:{name}.csv?values=logit" for name in ("base", "biased"))


@pytest.fixture
def run(toy: Toy) -> fairgate.Run:
    return fairgate.check("jobs", model=BIASED, root=toy.root, cache="off")


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'pydantic', 'torch', 'pandas', 'mlflow', 'pyarrow', 'yaml', 'jinja2', 'typer'}"
    code = (
        f"import sys, fairgate; assert not {heavy} & set(sys.modules), sys.modules; print(dir(fairgate));"
        "fairgate.RunRecord; assert 'numpy' not in sys.modules;"
        "fairgate.check_arrays; assert 'scipy' not in sys.modules, 'it decides nothing yet'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'check'" in done.stdout
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        fairgate.chekc  # noqa: B018


def test_the_contracts_of_a_package_are_those_that_the_gate_checks() -> None:
    from fairgate import metrics as measures
    from fairgate import models, probes
    from fairgate.builds import recipes

    assert (fairgate.Metric, fairgate.Probe) == (measures.Metric, probes.Probe)
    assert (fairgate.Model, fairgate.ModelFamily, fairgate.Recipe) == (models.Model, models.ModelFamily, recipes.Recipe)
    for package, name in ((measures, "metric"), (models, "model"), (probes, "probe"), (recipes, "recipe")):
        assert getattr(fairgate, f"register_{name}") is package.register


def test_a_run_is_the_commands_and_leaves_no_file(toy: Toy, run: fairgate.Run) -> None:
    there = sorted(path for path in toy.root.rglob("*") if path.is_file())
    words = ["check", "jobs", "--model", BIASED, "--root", str(toy.root), "--cache", "off", "--mlflow", "off"]
    done = CliRunner().invoke(app, [*words, "--report", str(toy.root / "out")])
    assert done.exit_code == run.record.exit_code == 1
    by_command = json.loads((toy.root / "out" / "results.json").read_text(encoding="utf-8"))
    assert by_command["checks"] == json.loads(run.record.model_dump_json())["checks"]
    assert sorted(path for path in there if "out" not in path.parts) == there
    assert run.verdict == "fail"


def test_a_report_is_written_where_one_is_named(toy: Toy) -> None:
    fairgate.check("jobs", root=toy.root, cache="off", report=toy.root / "out")
    assert {"results.json", "report.html", "comment.md"} <= {path.name for path in (toy.root / "out").iterdir()}


def test_its_frame_has_a_row_per_check_and_per_group(run: fairgate.Run) -> None:
    frame = run.to_frame()
    checks = frame[frame.group == ""]
    assert checks.check.tolist() == [check.id for check in run.record.checks]
    assert len(frame) == len(checks) + sum(len(check.groups) for check in run.record.checks)
    worst = frame[(frame.check == "gaps") & (frame.subject == "doctor")].set_index("group")
    assert worst.verdict[""] == "fail"
    assert worst.verdict["dark × female"] == "fail"
    assert worst.drop("").delta.idxmin() == "dark × female"
    assert str(frame.p_adjusted.dtype) == "float64"  # what was not tested is NaN


def test_in_a_notebook_it_is_the_report_and_can_touch_nothing_outside(run: fairgate.Run) -> None:
    shown = run._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert shown.count("<") == 2
    assert 'sandbox="allow-scripts"' in shown
    assert "dark × female" in shown


def test_a_checkpoint_that_is_not_there_is_a_run_without_a_verdict(toy: Toy) -> None:
    run = fairgate.check("jobs", model="scores:nowhere.csv", root=toy.root, cache="off")
    assert (run.verdict, run.record.exit_code) == ("error", 3)


def test_what_is_wrong_with_a_question_is_raised(toy: Toy) -> None:
    with pytest.raises(SuiteError) as caught:
        fairgate.check("jbos", root=toy.root)
    assert "did you mean 'jobs'" in (caught.value.remedy or "")
    with pytest.raises(FairgateError) as caught:
        fairgate.check("jobs", root=toy.root, device="toaster")
    assert "cpu" in (caught.value.remedy or "")
    with pytest.raises(DatasetError):
        fairgate.open_dataset("toys", toy.root)


def test_a_comparison_is_the_audits(toy: Toy) -> None:
    found = fairgate.compare("jobs", [BASE, BIASED], root=toy.root, cache="off")
    table = toy.root / "out" / "audit.csv"
    words = ["audit", "jobs", "--model", BASE, "--model", BIASED, "--root", str(toy.root), "--cache", "off"]
    assert CliRunner().invoke(app, [*words, "--report", str(table.parent)]).exit_code == 0
    assert len(found.to_frame()) == len(table.read_text(encoding="utf-8").splitlines()) - 1
    assert set(found.to_frame().model.dropna()) >= {"base", "biased"}
    assert found._repr_html_().startswith("<iframe")


def test_suites_and_datasets_are_opened_by_name(toy: Toy) -> None:
    assert fairgate.load_suite("jobs", toy.root).suite.dataset == "toy"
    assert len(fairgate.open_dataset("toy", str(toy.root))) == 320
    assert Path(fairgate.__file__).name == "__init__.py"
