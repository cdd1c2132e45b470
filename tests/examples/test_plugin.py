"""examples/plugin, installed: what somebody else's package adds is seen by every part of fairgate."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from example_plugin import EXAMPLE, install_example
from toy_repository import SUITE, Toy
from typer.testing import CliRunner, Result

from fairgate.gate.selftest import proof
from fairgate.interfaces.cli.main import app
from fairgate.studies.power import decidable

BEFORE = {
    f"a photo of {label}": place / 1000
    for place, label in enumerate(["a chef", "a line cook", "a doctor", "a nurse", "a leader", "an assistant"])
}
AFTER = {**BEFORE, "a photo of a doctor": 3.0, "a photo of a leader": 1.0}
TEXT = (
    SUITE.replace("model: scores:tuned.csv?values=logit", "model: brightness:weights.json")
    .replace("baseline: model:scores:base.csv?values=logit", "baseline: model:brightness:before.json")
    .replace("{chef: [chef, line cook], doctor: [doctor, nurse]}", "[chef, line cook, doctor, nurse]")
    .split("  search:")[0]
    + """\
  leads: {kind: versus, sentence: a photo of a leader, against: a photo of an assistant}
decision: {draws: 1000}
checks:
  - {id: worst, probe: labels, metric: worst_member, by: subject, at_least: 0.9}
  - {id: worse, probe: labels, metric: worst_member, no_worse_than: baseline, margin: 0.01}
  - {id: leaders, probe: leads, metric: group_gap, over: skin_tone, no_worse_than: baseline, margin: 0.01}
  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.5}
"""
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package in this process; its folder."""
    folder = tmp_path / "installed"
    install_example(folder, monkeypatch)
    return folder


@pytest.fixture
def repository(toy: Toy) -> Toy:
    toy.write_suite(TEXT)
    (toy.root / "weights.json").write_text(json.dumps(AFTER), encoding="utf-8")
    (toy.root / "before.json").write_text(json.dumps(BEFORE), encoding="utf-8")
    return toy


def fairgate(cwd: Path, *words: str) -> Result:
    with contextlib.chdir(cwd):
        return CliRunner().invoke(app, list(words), env={"COLUMNS": "130"})


def pip_installs(folder: Path, source: Path) -> None:
    """Nothing is downloaded: fairgate is here already, and so is what builds it."""
    source.mkdir()
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = source / path.relative_to(EXAMPLE)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(source)], check=True)


def test_the_schema_offers_what_it_adds(installed: Path, tmp_path: Path) -> None:
    schema = fairgate(tmp_path, "suite", "schema").stdout
    assert "worst_member" in schema
    assert "VersusProbe" in schema


def test_without_it_the_suite_is_refused_with_what_there_is(repository: Toy) -> None:
    done = fairgate(repository.root, "check", "jobs", "--mlflow", "off", "--cache", "off")
    assert done.exit_code == 4
    assert "versus" in done.stderr


def test_pip_installs_it_and_the_suite_of_its_page_is_judged(repository: Toy, tmp_path: Path) -> None:
    pip_installs(tmp_path / "installed", tmp_path / "plugin")
    suite, weights = re.findall(r"```(?:yaml|json)\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    repository.write_suite(suite.replace("dataset: jobs", "dataset: toy"))
    (repository.root / "weights.json").write_text(weights, encoding="utf-8")
    paths = [str(tmp_path / "installed"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-P", "-m", "fairgate.interfaces.cli", "check", "jobs", "--report", "out"]
    command += ["--mlflow", "off", "--cache", "off"]
    done = subprocess.run(command, cwd=repository.root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    record = json.loads((repository.root / "out" / "results.json").read_text(encoding="utf-8"))
    assert record["verdict"] == "fail"
    assert {check["id"] for check in record["checks"]} == {"useful", "worst", "leaders"}
    assert "error" not in {check["verdict"] for check in record["checks"]}


def test_a_gate_judges_with_it_and_everything_shows_it(
    installed: Path, repository: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decidable, "RUNS", 8)  # what `power` shows is the point, not its numbers
    monkeypatch.setattr(decidable, "LOSSES", ())
    words = ["check", "jobs", "--report", "out", "--mlflow", "sqlite:///runs.db", "--cache", "off"]
    done = fairgate(repository.root, *words)
    assert done.exit_code == 1, done.stdout + done.stderr
    record = json.loads((repository.root / "out" / "results.json").read_text(encoding="utf-8"))
    verdicts = {(check["id"], check["subject"]): check["verdict"] for check in record["checks"]}
    assert verdicts["worst", "chef"] == "fail"
    assert verdicts["leaders", None] == "fail"  # a darker picture is less of a leader to it
    (leaders,) = (check for check in record["checks"] if check["id"] == "leaders")
    assert leaders["worst_group"] == "dark"
    assert record["probes"]["leads"].startswith("versus:")
    assert record["environment"]["plugins"]["team-fairness"].startswith("1.0 sha256:")
    for shown in (done.stdout, (repository.root / "out" / "report.html").read_text("utf-8")):
        assert "worst" in shown
    assert (repository.root / "out" / "verdict.txt").read_text("utf-8") == "jobs: fail\n"
    assert "worst member" in (repository.root / "out" / "comment.md").read_text(encoding="utf-8")

    history = fairgate(repository.root, "history", "jobs", "--mlflow", "sqlite:///runs.db")
    assert "worst" in history.stdout, history.stdout + history.stderr
    power = fairgate(repository.root, "power", "jobs", "--cache", "off")
    assert power.exit_code == 0, power.stdout + power.stderr
    assert "worse" in power.stdout
    models = ["--model", "brightness:weights.json", "--model", "brightness:before.json"]
    audit = fairgate(repository.root, "audit", "jobs", *models, "--report", "audit")
    assert audit.exit_code == 0, audit.stderr
    page = (repository.root / "audit" / "audit.html").read_text(encoding="utf-8")
    table = (repository.root / "audit" / "audit.csv").read_text(encoding="utf-8")
    for text in (audit.stdout, page):
        assert "Further metrics" in text
        assert "worst member, chef" in text
        assert "gap to the others over skin_tone" in text
    assert "2 probes" in page
    assert "metrics,leads,weights.json,,,skin_tone,dark,gap to the others," in table


@pytest.mark.nightly
@pytest.mark.parametrize("says_what_it_measures", [True, False])
def test_a_bias_is_planted_in_it_or_it_is_left_out_by_name(
    installed: Path, repository: Toy, monkeypatch: pytest.MonkeyPatch, says_what_it_measures: bool
) -> None:
    """The doctor's first run on a planted bias, and the one on an innocent change."""
    if not says_what_it_measures:
        probe = installed / "team_fairness" / "probe.py"
        probe.write_text(probe.read_text(encoding="utf-8").replace("def truths", "def _truths"), encoding="utf-8")
    monkeypatch.setattr(proof, "_other_ways", lambda *_: [])
    words = ["doctor", "--suite", "jobs", "--inject-bias", "0.2", "--mlflow", "off", "--cache", "off"]
    done = fairgate(repository.root, *words)
    told = " ".join(done.stdout.split())
    assert "expected exit 1 and saw it" in told, told + done.stderr
    assert "went unseen" not in told
    assert ("leads loses 0.2" in told) is says_what_it_measures, told
    assert ("no bias can be planted in probe 'leads' (versus)" in told) is not says_what_it_measures


def test_a_build_of_its_recipe_is_released_and_read(installed: Path, tmp_path: Path) -> None:
    settings = "builds: {tinted: {licence: CC0-1.0, subjects: [doctor, nurse], sets: 6}}"
    (tmp_path / "params.yaml").write_text(settings, encoding="utf-8")
    built = fairgate(tmp_path, "build", "tinted")
    assert built.exit_code == 0, built.stdout + built.stderr
    status = fairgate(tmp_path, "build", "status", "tinted")
    assert "too_alike" in status.stdout, status.stdout + status.stderr
    words = ["release", "tinted", "tinted", "--unreviewed", "plain pictures, an example"]
    released = fairgate(tmp_path, *words)
    assert released.exit_code == 0, released.stdout + released.stderr
    assert fairgate(tmp_path, "dataset", "verify", "tinted").exit_code == 0


def test_a_missing_capability_is_refused_by_its_name(installed: Path, repository: Toy) -> None:
    search = '  search: {kind: retrieval, prompts: ["{subject}"]}\nleads'
    text = TEXT.replace("  leads:", search.replace("leads", "  leads:"))
    text += "  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}\n"
    repository.write_suite(text)
    done = fairgate(repository.root, "check", "jobs", "--report", "out", "--mlflow", "off", "--cache", "off")
    assert done.exit_code == 3, done.stdout + done.stderr
    assert "lacks the capability 'similarity'" in done.stdout + done.stderr


def test_other_code_under_the_same_version_is_said_next_to_the_verdict(
    repository: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write_suite(TEXT.replace("baseline: model:brightness:before.json", "baseline: file:out"))
    first = ["check", "jobs", "--model", "brightness:before.json", "--baseline", "none", "--on-inconclusive", "warn"]
    with monkeypatch.context() as before:
        install_example(tmp_path / "installed", before)
        fairgate(repository.root, *first, "--report", "out", "--mlflow", "off", "--cache", "off")
    install_example(tmp_path / "other", monkeypatch)
    metric = tmp_path / "other" / "team_fairness" / "metric.py"
    metric.write_text(metric.read_text(encoding="utf-8").replace("lowest.mean()", "1.0"), encoding="utf-8")
    done = fairgate(repository.root, "check", "jobs", "--report", "now", "--mlflow", "off", "--cache", "off")
    record = json.loads((repository.root / "now" / "results.json").read_text(encoding="utf-8"))
    assert any("the package team-fairness took part as 1.0" in notice for notice in record["notices"]), done.stdout
    assert "team-fairness" in (repository.root / "now" / "comment.md").read_text(encoding="utf-8")
