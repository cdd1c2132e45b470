"""examples/plugin, installed: a metric, a probe and a model of somebody else's, seen by every part of fairgate."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_repository import SUITE, Toy

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
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


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip put it in. Nothing is downloaded: fairgate is here already, and so is what builds it."""
    folder, source = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("source") / "plugin"
    source.mkdir()
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = source / path.relative_to(EXAMPLE)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(source)], check=True)
    return folder


@pytest.fixture
def repository(toy: Toy) -> Toy:
    toy.write_suite(TEXT)
    (toy.root / "weights.json").write_text(json.dumps(AFTER), encoding="utf-8")
    (toy.root / "before.json").write_text(json.dumps(BEFORE), encoding="utf-8")
    return toy


def fairgate(installed: Path | None, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(installed or ""), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-P", "-m", "fairgate.interfaces.cli", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_schema_offers_what_it_adds(installed: Path, tmp_path: Path) -> None:
    schema = fairgate(installed, tmp_path, "suite", "schema").stdout
    assert "worst_member" in schema
    assert "VersusProbe" in schema


def test_without_it_the_suite_is_refused_with_what_there_is(repository: Toy) -> None:
    done = fairgate(None, repository.root, "check", "jobs", "--mlflow", "off", "--cache", "off")
    assert done.returncode == 4
    assert "versus" in done.stderr


def test_the_suite_of_its_page_is_judged(installed: Path, repository: Toy) -> None:
    suite, weights = re.findall(r"```(?:yaml|json)\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    repository.write_suite(suite.replace("dataset: jobs", "dataset: toy"))
    (repository.root / "weights.json").write_text(weights, encoding="utf-8")
    done = fairgate(installed, repository.root, "check", "jobs", "--report", "out", "--mlflow", "off", "--cache", "off")
    assert done.returncode == 1, done.stdout + done.stderr
    record = json.loads((repository.root / "out" / "results.json").read_text(encoding="utf-8"))
    assert record["verdict"] == "fail"
    assert {check["id"] for check in record["checks"]} == {"useful", "worst", "leaders"}
    assert "error" not in {check["verdict"] for check in record["checks"]}


def test_a_gate_judges_with_it_and_everything_shows_it(installed: Path, repository: Toy) -> None:
    words = ["check", "jobs", "--report", "out", "--mlflow", "sqlite:///runs.db", "--cache", "off"]
    done = fairgate(installed, repository.root, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    record = json.loads((repository.root / "out" / "results.json").read_text(encoding="utf-8"))
    verdicts = {(check["id"], check["subject"]): check["verdict"] for check in record["checks"]}
    assert verdicts["worst", "chef"] == "fail"
    assert verdicts["leaders", None] == "fail"  # a darker picture is less of a leader to it
    (leaders,) = (check for check in record["checks"] if check["id"] == "leaders")
    assert leaders["worst_group"] == "dark"
    assert record["probes"]["leads"].startswith("versus:")
    assert record["environment"]["plugins"]["team-fairness"].startswith("1.0 sha256:")
    for shown in (done.stdout, *((repository.root / "out" / page).read_text("utf-8") for page in ("report.html",))):
        assert "worst" in shown
    assert "worst member" in (repository.root / "out" / "comment.md").read_text(encoding="utf-8")

    history = fairgate(installed, repository.root, "history", "jobs", "--mlflow", "sqlite:///runs.db")
    assert "worst" in history.stdout, history.stdout + history.stderr
    power = fairgate(installed, repository.root, "power", "jobs", "--cache", "off")
    assert power.returncode == 0, power.stdout + power.stderr
    assert "worse" in power.stdout
    models = ["--model", "brightness:weights.json", "--model", "brightness:before.json"]
    audit = fairgate(installed, repository.root, "audit", "jobs", *models, "--report", "audit")
    assert audit.returncode == 0, audit.stderr
    page = (repository.root / "audit" / "audit.html").read_text(encoding="utf-8")
    table = (repository.root / "audit" / "audit.csv").read_text(encoding="utf-8")
    for text in (audit.stdout, page):
        assert "Further metrics" in text
        assert "worst member, chef" in text
        assert "gap to the others over skin_tone" in text
    assert "2 probes" in page
    assert "metrics,leads,weights.json,,,skin_tone,dark,gap to the others," in table


QUICK = (
    "import fairgate.gate.selftest.proof as p; p._other_ways = lambda *_: []; "
    "from fairgate.interfaces.cli.main import app; app()"
)
"""The doctor's first run on a planted bias and the one on an innocent change, without further ways of running it."""


@pytest.mark.nightly
@pytest.mark.parametrize("says_what_it_measures", [True, False])
def test_a_bias_is_planted_in_it_or_it_is_left_out_by_name(
    installed: Path, repository: Toy, tmp_path: Path, says_what_it_measures: bool
) -> None:
    package = installed
    if not says_what_it_measures:
        package = tmp_path / "other"
        shutil.copytree(installed, package)
        probe = package / "team_fairness" / "probe.py"
        probe.write_text(probe.read_text(encoding="utf-8").replace("def truths", "def _truths"), encoding="utf-8")
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    words = ["doctor", "--suite", "jobs", "--inject-bias", "0.2", "--mlflow", "off", "--cache", "off"]
    command = [sys.executable, "-P", "-c", QUICK, *words]
    done = subprocess.run(command, cwd=repository.root, env=environment, capture_output=True, text=True, check=False)
    told = " ".join(done.stdout.split())
    assert "expected exit 1 and saw it" in told, told + done.stderr
    assert "went unseen" not in told
    assert ("leads loses 0.2" in told) is says_what_it_measures, told
    assert ("no bias can be planted in probe 'leads' (versus)" in told) is not says_what_it_measures


def test_a_build_of_its_recipe_is_released_and_read(installed: Path, tmp_path: Path) -> None:
    settings = "builds: {tinted: {licence: CC0-1.0, subjects: [doctor, nurse], sets: 6}}"
    (tmp_path / "params.yaml").write_text(settings, encoding="utf-8")
    built = fairgate(installed, tmp_path, "build", "tinted")
    assert built.returncode == 0, built.stdout + built.stderr
    status = fairgate(installed, tmp_path, "build", "status", "tinted")
    assert "too_alike" in status.stdout, status.stdout + status.stderr
    words = ["release", "tinted", "tinted", "--unreviewed", "plain pictures, an example"]
    released = fairgate(installed, tmp_path, *words)
    assert released.returncode == 0, released.stdout + released.stderr
    assert fairgate(installed, tmp_path, "dataset", "verify", "tinted").returncode == 0


def test_a_missing_capability_is_refused_by_its_name(installed: Path, repository: Toy) -> None:
    search = '  search: {kind: retrieval, prompts: ["{subject}"]}\nleads'
    text = TEXT.replace("  leads:", search.replace("leads", "  leads:"))
    text += "  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}\n"
    repository.write_suite(text)
    done = fairgate(installed, repository.root, "check", "jobs", "--report", "out", "--mlflow", "off", "--cache", "off")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "lacks the capability 'similarity'" in done.stdout + done.stderr


def test_other_code_under_the_same_version_is_said_next_to_the_verdict(
    installed: Path, repository: Toy, tmp_path: Path
) -> None:
    repository.write_suite(TEXT.replace("baseline: model:brightness:before.json", "baseline: file:out"))
    first = ["check", "jobs", "--model", "brightness:before.json", "--baseline", "none", "--on-inconclusive", "warn"]
    fairgate(installed, repository.root, *first, "--report", "out", "--mlflow", "off", "--cache", "off")
    other = tmp_path / "other"
    for path in installed.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = other / path.relative_to(installed)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    metric = other / "team_fairness" / "metric.py"
    metric.write_text(metric.read_text(encoding="utf-8").replace("lowest.mean()", "1.0"), encoding="utf-8")
    done = fairgate(other, repository.root, "check", "jobs", "--report", "now", "--mlflow", "off", "--cache", "off")
    record = json.loads((repository.root / "now" / "results.json").read_text(encoding="utf-8"))
    assert any("the package team-fairness took part as 1.0" in one for one in record["notices"]), done.stdout
    assert "team-fairness" in (repository.root / "now" / "comment.md").read_text(encoding="utf-8")
