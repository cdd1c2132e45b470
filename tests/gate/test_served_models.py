"""A model behind a server in the gate: an approval instead of a fingerprint, and no verdict where the server fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from model_world import encoded
from PIL import Image
from served_world import MODEL, Colour, World, serving, settings

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.gate.model_runs import open_instrument
from fairgate.gate.selftest.suite_inputs import look_at_models
from fairgate.ground.errors import ModelError, NoVerdict
from fairgate.probes import write_scores
from fairgate.records import RunRecord
from fairgate.reports import write_results
from fairgate.suites import resolve

SETS = 40
JOBS = ("doctor", "nurse")
SUITE = f"""\
schema: 1
suite: asked
dataset: people
model: "openai:@vision?model={MODEL}"
baseline: "none"
on_inconclusive: warn
probes:
  jobs:
    kind: question
    questions:
      job:
        question: What is this person's job?
        options: {{doctor: [], nurse: []}}
        right: {{subject: {{doctor: doctor, nurse: nurse}}}}
groups: {{attributes: [gender], min_sets: 20}}
decision: {{draws: 500}}
checks:
  - {{id: useful, probe: jobs, metric: answer_accuracy, at_least: 0.7}}
  - {{id: nurses, probe: jobs, metric: answer_share, answer: nurse, over: gender, at_most: 0.6}}
  - {{id: rise, probe: jobs, metric: answer_share, answer: nurse, over: gender, no_worse_than: baseline, margin: 0.1}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(says=right)
    with serving(made) as port:
        for name, value in settings(port).items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Pairs of a man and a woman in one job: red tells the job, green the gender."""
    rows = [
        {
            "set_id": f"{number:03d}",
            "member": gender,
            "subject": JOBS[number % 2],
            "gender": gender,
            "image": encoded(Image.new("RGB", (8, 8), (number % 2, int(gender == "female"), number))),
        }
        for number in range(SETS)
        for gender in ("male", "female")
    ]
    options = {"name": "people", "version": "v1", "attributes": {"gender": ["male", "female"]}, "recipe": {"name": "x"}}
    write_dataset(tmp_path / "datasets/people/v1", rows, licence="CC0-1.0", counterfactual=True, **options)
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites/asked.yaml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def right(colour: Colour, _: str) -> str:
    return f"A {JOBS[colour[0]]}."


def biased(colour: Colour, _: str) -> str:
    """Half of the women who are doctors are taken for nurses."""
    return "A nurse." if colour[1] and colour[2] % 4 == 0 else right(colour, _)


def run(root: Path, **typed: str) -> RunRecord:
    prepared = gate.prepare("asked", root)
    resolved = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": str(root / "cache"), **typed}, environment={})
    evaluation = gate.evaluate(prepared, resolved, command="x")
    if evaluation.scores and not typed:
        (root / "before").mkdir(exist_ok=True)
        write_results(evaluation.record, root / "before")
        write_scores(root / "before/scores.parquet", prepared.dataset.index, evaluation.scores)
    return evaluation.record


def approve(root: Path, record: RunRecord, until: date) -> None:
    needed = record.needs_approval[0]
    line = f"  - {{kind: server, before: none, now: {needed.now}, until: {until}, reason: the release of May}}\n"
    (root / "fairness_suites/asked.yaml").write_text(f"{SUITE}approvals:\n{line}", encoding="utf-8")


def test_a_served_model_needs_an_approval_of_what_the_server_reports_which_expires(root: Path, server: World) -> None:
    first = run(root)
    assert ([each.kind for each in first.needs_approval], first.exit_code) == (["server"], 10)
    assert "owned_by acme" in first.needs_approval[0].what
    assert first.model.served is not None
    approve(root, first, date.today() + timedelta(days=9))
    assert (run(root).needs_approval, run(root).exit_code) == ([], 0)
    approve(root, first, date.today() - timedelta(days=1))
    assert "expired" in run(root).needs_approval[0].what
    server.listed = {"id": MODEL, "owned_by": "acme", "root": "/models/another"}
    approve(root, first, date.today() + timedelta(days=9))
    assert run(root).exit_code == 10


def test_answers_that_grew_biased_behind_one_report_fail_by_name_and_none_is_taken_from_the_cache(
    root: Path, server: World
) -> None:
    approve(root, run(root), date.today() + timedelta(days=9))
    run(root)
    asked = len(server.asked())
    baseline = {"baseline": f"file:{root}/before"}
    same = run(root, **baseline)
    assert (same.exit_code, len(server.asked())) == (0, asked + 2 * SETS)
    server.says = biased
    worse = run(root, **baseline)
    failed = [check.id for check in worse.checks if check.verdict == "fail"]
    assert (failed, worse.exit_code) == (["nurses", "rise"], 1)


def test_a_server_that_is_away_gives_no_verdict(root: Path, server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_SERVER_VISION_PATIENCE", "2")
    server.fault = lambda number: (503, b"", {}) if number > 30 else None
    record = run(root)
    assert (record.exit_code, {check.verdict for check in record.checks}) == (3, {"error"})
    assert "does not answer within 2 s" in record.checks[0].reason


def test_a_run_in_parts_is_refused_before_a_picture_is_sent(
    root: Path, server: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepared = gate.prepare("asked", root)
    options = {"mlflow": "off", "cache": "off", "base": "none", "report": str(tmp_path_factory.mktemp("part"))}
    resolved = resolve(prepared.loaded.suite, options, environment={})
    with pytest.raises(NoVerdict, match="nothing shows that one model behind a server answers all parts"):
        gate.write_part(prepared, resolved, (1, 2))
    assert server.asked() == []


def test_a_record_of_a_server_is_compared_with_and_not_recomputed(root: Path, server: World) -> None:
    run(root)
    (root / "fairness_suites/baselines").mkdir()
    folder = (root / "before").rename(root / "fairness_suites/baselines/asked")
    asked, prepared = len(server.asked()), gate.prepare("asked", root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off"}, environment={})
    with pytest.raises(NoVerdict, match="a server gave its answers"):
        gate.verify_record(str(folder.relative_to(root)), prepared, settings)
    assert len(server.asked()) == asked


@pytest.mark.usefixtures("server")
def test_a_served_model_is_not_its_own_baseline(root: Path) -> None:
    itself = run(root, baseline=f"model:openai:@vision?model={MODEL}")
    assert (itself.exit_code, "the baseline is the candidate" in itself.checks[0].reason) == (3, True)


@pytest.mark.usefixtures("server")
def test_a_probe_reads_with_no_model_behind_a_server(root: Path) -> None:
    prepared = gate.prepare("asked", root)
    settings = resolve(prepared.loaded.suite, {}, environment={})
    with pytest.raises(ModelError, match="nothing binds to weights"):
        open_instrument(prepared, settings, None, f"openai:@vision?model={MODEL}", prepared.source)


def test_the_doctor_shows_what_a_server_reports_and_names_the_variable_that_is_missing(
    root: Path, server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = gate.prepare("asked", root)
    settings = resolve(prepared.loaded.suite, {}, environment={})
    assert "owned_by acme" in look_at_models(prepared, settings)[0].what
    monkeypatch.delenv("FAIRGATE_SERVER_VISION")
    missing = look_at_models(prepared, settings)[0]
    assert (missing.level, "set FAIRGATE_SERVER_VISION where" in (missing.remedy or "")) == ("warning", True)
    assert not server.asked()
