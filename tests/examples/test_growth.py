"""Each thing that the example package adds is one file and one entry point, and every part of fairgate knows it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from example_plugin import EXAMPLE, install_example
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner, Result

from fairgate import gate
from fairgate.builds.recipes import open_recipe
from fairgate.interfaces.cli.main import app
from fairgate.metrics import METRICS
from fairgate.probes import PROBES
from fairgate.reports import read_results, render_comment, render_html, terminal_table, write_results
from fairgate.suites import resolve

SETS = 40
MORE = """\
  - {id: worst, probe: labels, metric: worst_member, at_least: 0.9}
  - {id: leaders, probe: leads, metric: group_gap, over: tone, at_least: -0.1}
"""
PROBE = "  leads: {kind: versus, sentence: a photo of a leader, against: a photo of an assistant}\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the package installed, pictures to import and the weights of a model."""
    install_example(tmp_path / "installed", monkeypatch)
    root = tmp_path / "repository"
    for subject, hue in (("doctor", 0), ("nurse", 90)):
        folder = root / "pictures" / subject
        folder.mkdir(parents=True)
        for number in range(SETS):
            Image.new("RGB", (4, 4), (240, number, hue)).save(folder / f"{number}_light.png")
            Image.new("RGB", (4, 4), (40, number, hue)).save(folder / f"{number}_dark.png")
    weights = {"a photo of a doctor": 1.0, "a photo of a leader": 9.0}
    (root / "weights.json").write_text(json.dumps(weights), encoding="utf-8")
    monkeypatch.chdir(root)
    return root


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_from_a_published_dataset_to_the_reports(repository: Path) -> None:
    got = run("dataset", "get", "jobs_in_tones", "--from", "pictures", "--accept-licence")
    assert got.exit_code == 0, got.output
    new = ("suite", "new", "jobs", "--dataset", "jobs_in_tones", "--model", "brightness:weights.json")
    written = run(*new, "--no-measured", "--baseline", "none")
    assert written.exit_code == 0, written.output

    suite = repository / "fairness_suites" / "jobs.yaml"
    text = suite.read_text(encoding="utf-8")
    suite.write_text(text.replace("probes:\n", f"probes:\n{PROBE}") + MORE, encoding="utf-8")
    prepared = gate.prepare("jobs", repository)
    assert {"worst", "leaders"} <= {planned.check.id for planned in prepared.planned}
    record = gate.evaluate(
        prepared, resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={}), command="check"
    ).record
    verdicts = {check.id: check.verdict for check in record.checks}
    assert (verdicts["worst"], verdicts["leaders"]) == ("fail", "fail")
    assert record.environment.plugins is not None
    assert record.environment.plugins["team-fairness"].startswith("1.0 sha256:")

    assert read_results(write_results(record, repository / "out")) == record
    console = Console(record=True, width=200)
    console.print(terminal_table(record))
    for shown in (console.export_text(), render_comment(record), render_html(record, None)):
        assert "leaders" in shown
    assert "worst member" in render_comment(record)
    done = run("report", "render", "out", "--out", "again")
    assert done.exit_code == 0, done.output
    assert (repository / "again" / "verdict.txt").read_text(encoding="utf-8") == "jobs: fail\n"


@pytest.mark.usefixtures("repository")
def test_the_schema_of_suites_offers_them() -> None:
    schema = json.loads(run("suite", "schema").stdout)
    assert "worst_member" in schema["$defs"]["Check"]["properties"]["metric"]["enum"]
    assert "VersusProbe" in schema["$defs"]
    assert METRICS["worst_member"].spec.tempered
    assert PROBES["versus"].needs == "log_probabilities"


@pytest.mark.usefixtures("repository")
def test_a_recipe_is_opened_with_its_settings() -> None:
    recipe = open_recipe("tinted", {"licence": "CC0-1.0", "subjects": ["doctor"], "sets": 3})
    assert recipe.subjects() == ["doctor"]


def test_each_is_one_file_and_one_entry_point() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [value for entries in project["entry-points"].values() for value in entries.values()]
    modules = sorted(value.partition(":")[0].rpartition(".")[2] for value in named)
    assert modules == sorted(path.stem for path in (EXAMPLE / "team_fairness").glob("*.py"))
    for path in (EXAMPLE / "team_fairness").glob("*.py"):
        assert "from team_fairness" not in path.read_text(encoding="utf-8"), "a file needs no other one of its package"


def test_the_page_on_extending_has_the_diff_of_the_output() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "use" / "extending.md").read_text(encoding="utf-8")
    diff = page.partition("```diff")[2].partition("```")[0]
    added = {line.strip()[1:] for line in diff.splitlines() if line.strip().startswith("+") and "+++" not in line}
    written = {
        line
        for name in ("pyproject.toml", "team_fairness/output.py")
        for line in (EXAMPLE / name).read_text(encoding="utf-8").splitlines()
    }
    assert added
    assert added <= written
