"""`fairgate audit` on tables of scores, and on the demonstration data, where the planted bias is known."""

from __future__ import annotations

import csv
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from nightly import EVERYTHING
from toy_repository import Toy, toy_repository
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.portraits.world import PLANTS, planted_cells
from fairgate.records.comparison import AuditCollection, AuditRecord, ClassificationAudit

ROOT = Path(__file__).parents[3]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"
MODELS = ["base", "tuned", "biased", *(["whackamole"] if EVERYTHING else [])]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"CI": "", "COLUMNS": "1000"})
    return result.exit_code, result.output


def models(*names: str) -> list[str]:
    return [word for name in names for word in ("--model", f"scores:{name}.csv?values=logit")]


def test_an_audit_prints_its_tables_and_writes_its_files(toy: Toy) -> None:
    report, root = toy.root / "report", str(toy.root)
    code, output = run(
        "audit", "jobs", "--root", root, "--cache", "off", "--report", str(report), *models("base", "biased")
    )
    assert code == 0
    assert "base → biased" in output
    assert "70% are taken for “nurse”" in output
    assert "note: drawn squares" in output
    assert sorted(path.name for path in report.iterdir()) == ["audit.csv", "audit.html", "audit.json", "audit.tex"]
    linked = set(re.findall(r'href="(?!#)([^"]*)"', (report / "audit.html").read_text(encoding="utf-8")))
    assert linked == {"audit.csv", "audit.json", "audit.tex"}
    record = AuditRecord.model_validate_json((report / "audit.json").read_bytes())
    assert [model.name for model in record.models] == ["base", "biased"]
    assert record.command.startswith("fairgate audit jobs --model 'scores:base.csv?values=logit'")


def test_csv_and_latex_have_what_was_asked_for(toy: Toy) -> None:
    table, paper = toy.root / "out" / "audit.csv", toy.root / "out" / "audit.tex"
    words = ["--report", str(toy.root / "out"), "--reference", "dark", "--margin", "0.2", "--k", "10"]
    code, output = run("audit", "jobs", "--root", str(toy.root), "--cache", "off", *models("base", "biased"), *words)
    assert code == 0
    assert "--reference dark --margin 0.2 --k 10" in output
    assert "alike within 0.200" in output
    with table.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["compared_with"] for row in rows if row["over"] == "skin_tone" and row["table"] == "effects"} == {
        "dark"
    }
    assert {row["quantity"] for row in rows if row["table"] == "skew"} == {"MaxSkew@10"}
    assert "\\toprule" in paper.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (models("base", "base"), "compared with itself"),
        ([*models("base"), "--reference", "drak"], "did you mean 'dark'"),
        (["--model", "nowhere:x"], "nowhere"),
    ],
)
def test_what_cannot_be_audited_ends_with_4(toy: Toy, words: list[str], message: str) -> None:
    code, output = run("audit", "jobs", "--root", str(toy.root), "--cache", "off", *words)
    assert code == 4
    assert message in output


def test_an_unknown_suite_ends_with_4(toy: Toy) -> None:
    code, output = run("audit", "jbos", "--root", str(toy.root), *models("base"))
    assert code == 4
    assert "did you mean 'jobs'" in output


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, embedded_cache: Path) -> tuple[AuditRecord, str]:
    """Checkpoints of the demonstration data, compared; and what the terminal said."""
    folder = tmp_path_factory.mktemp("embedded")
    addresses = [f"open_clip:local-dir:build/portraits/checkpoints/{name}" for name in MODELS]
    words = [word for address in addresses for word in ("--model", address)]
    words += ["--report", str(folder), "--cache", str(embedded_cache)]
    code, output = run("audit", "occupations", "--root", str(ROOT), *words)
    assert code == 0, output
    for name in ("audit.html", "audit.csv", "audit.tex", "audit.json"):
        assert "test instrument" in (folder / name).read_text(encoding="utf-8")
    return AuditRecord.model_validate_json((folder / "audit.json").read_bytes()), output


embedded_only = [
    pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`"),
    pytest.mark.xdist_group("embedded"),
]


@pytest.mark.usefixtures("embedded")
class TestEmbeddedWorld:
    """What is planted is found, and nothing else is."""

    pytestmark = embedded_only

    def probe(self, embedded: tuple[AuditRecord, str]) -> ClassificationAudit:
        (found,) = [one for one in embedded[0].probes if isinstance(one, ClassificationAudit)]
        return found

    def test_planted_groups_are_taken_for_the_neighbour_and_no_others(self, embedded: tuple[AuditRecord, str]) -> None:
        taken = self.probe(embedded).taken
        neighbour = {plant.subject: plant.neighbour for plant in PLANTS}
        assert {one.model for one in taken} == {"biased"}
        assert {one.predicted for one in taken if one.subject == "doctor"} == {"nurse"}
        for subject in ("chef", "doctor", "firefighter", "mechanic", "pilot"):
            groups = {tuple(one.group.split(" × ")) for one in taken if one.subject == subject}
            assert groups == planted_cells("biased", subject)
        assert all(one.predicted == neighbour[one.subject] and one.count > 0.8 * one.total for one in taken)

    def test_effects_are_negative_there_and_nowhere_else(self, embedded: tuple[AuditRecord, str]) -> None:
        probe = self.probe(embedded)
        rows = [row for row in probe.effects if row.outcome == "correct" and row.over == "skin_tone × gender"]
        fell = {(row.model, row.subject, row.group) for row in rows if row.effect < -0.5 and row.p_adjusted < 1e-6}
        planted = {
            ("biased", subject, " × ".join(cell))
            for subject in ("doctor", "pilot")
            for cell in planted_cells("biased", subject)
        }
        assert fell == planted
        quiet = [row for row in rows if row.subject and (row.model, row.subject, row.group) not in planted]
        assert max(abs(row.effect) for row in quiet) == 0

    def test_both_tests_see_the_planted_subjects_and_base_and_tuned_are_alike(
        self, embedded: tuple[AuditRecord, str]
    ) -> None:
        pairs = {(pair.first, pair.second, pair.subject): pair for pair in self.probe(embedded).pairs}
        for subject in ("doctor", "pilot"):
            pair = pairs["base", "biased", subject]
            assert pair.p_mood_adjusted < 1e-6
            assert pair.p_paired < 0.001
            assert (pair.conclusion, pair.agreement) == ("first_fairer", "agree")
        harmless = [pair for key, pair in pairs.items() if key[:2] == ("base", "tuned")]
        assert {pair.conclusion for pair in harmless} == {"alike"}
        assert {pair.accuracy_delta for pair in harmless} == {0.0}

    def test_over_all_subjects_the_median_praises_the_biased_model_and_the_audit_says_so(
        self, embedded: tuple[AuditRecord, str]
    ) -> None:
        record, output = embedded
        (pair,) = [p for p in self.probe(embedded).pairs if (p.first, p.second, p.subject) == ("base", "biased", None)]
        assert pair.delta > 0
        assert pair.p_mood_adjusted < 0.01
        assert (pair.conclusion, pair.agreement) == ("first_fairer", "opposite")
        assert "although F_M, a median, says the opposite" in output
        assert record.dataset.notice is not None
        assert "test instrument" in output


SEARCH = """\
schema: 1
suite: searches
dataset: toy
model: scores:tuned.csv?values=cosine
probes:
  search: {kind: retrieval, prompts: ["{subject}", "a picture of {a_subject}"]}
checks:
  - {id: skew, probe: search, metric: max_skew_at_k, k: 8, over: each, by: subject, at_most: 0.69}
  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}
"""


@pytest.fixture
def two_suites(toy: Toy) -> Toy:
    """`jobs`, which needs labels and searches, and `searches`."""
    toy.write_suite(SEARCH, "searches")
    return toy


CLASSIFIER = f"diffusion:{ROOT / 'build/portraits/classifiers/biased'}"
"""It weighs labels, and has no vectors to search by."""


def test_several_suites_come_on_one_page_with_a_page_each(two_suites: Toy) -> None:
    root, report = str(two_suites.root), two_suites.root / "report"
    words = ["--root", root, "--cache", "off", "--report", str(report), *models("base", "biased")]
    code, output = run("audit", "jobs", "searches", *words)
    assert code == 0, output
    page = (report / "audits.html").read_text(encoding="utf-8")
    assert set(re.findall(r'href="(?!#)([^"]*)"', page)) == {
        *("jobs/audit.html", "searches/audit.html", "audits.csv", "audits.tex", "audits.json")
    }
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for suite in ("jobs", "searches"):
        names = {path.name for path in (report / suite).iterdir()}
        assert names == {"audit.csv", "audit.html", "audit.json", "audit.tex"}
    with (report / "audits.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["suite"] for row in rows} == {"jobs", "searches"}
    found = AuditCollection.model_validate_json((report / "audits.json").read_bytes())
    assert [one.suite for one in found.audits] == ["jobs", "searches"]
    assert found.command.startswith("fairgate audit jobs searches --model")
    labels = re.findall(r"\\label\{(.*?)\}", (report / "audits.tex").read_text(encoding="utf-8"))
    assert labels
    assert len(labels) == len(set(labels))


def test_a_model_that_lacks_what_a_probe_needs_is_left_out_by_name_and_the_others_are_compared(toy: Toy) -> None:
    words = ["--root", str(toy.root), "--cache", "off", "--report", str(toy.root / "report")]
    named = [*models("base", "tuned"), "--model", CLASSIFIER]
    code, output = run("audit", "jobs", *words, *named)
    assert code == 0, output
    assert f"Not measured: {CLASSIFIER}: the model" in output
    assert "lacks the capability 'similarity'" in output
    record = AuditRecord.model_validate_json((toy.root / "report" / "audit.json").read_bytes())
    assert [one.name for one in record.models] == ["base", "tuned"]
    assert [one.model for one in record.refused] == [CLASSIFIER]
    assert "Not measured" in (toy.root / "report" / "audit.html").read_text(encoding="utf-8")


LABELS = """\
schema: 1
suite: labels
dataset: toy
model: scores:tuned.csv?values=logit
probes:
  labels: {kind: zero_shot_classification, template: "{a_label}", labels: [chef, doctor]}
checks:
  - {id: useful, probe: labels, metric: accuracy, at_least: 0.9}
"""


def test_where_no_model_can_answer_a_suite_is_left_out_and_alone_it_is_an_error(tmp_path: Path) -> None:
    small = toy_repository(tmp_path, sets=2)
    small.write_suite(SEARCH, "searches")
    small.write_suite(LABELS, "labels")
    words = ["--root", str(small.root), "--cache", "off", "--model", CLASSIFIER + "?samples=1"]
    code, output = run("audit", "searches", "labels", *words)
    assert code == 0, output
    assert "searches: no model could be measured: the model" in output
    code, output = run("audit", "searches", *words)
    assert code == 4
    assert "lacks the capability 'similarity'" in output


def test_a_suite_named_twice_is_refused(toy: Toy) -> None:
    code, output = run("audit", "jobs", "jobs", "--root", str(toy.root), *models("base"))
    assert code == 4
    assert "suite 'jobs' was named twice" in output


def test_an_audit_that_was_interrupted_goes_on_where_it_was(
    two_suites: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def embedded(what: str, done: int, total: int) -> None:
        if done == 0:
            seen.append(what)
        if "biased" in what and not tmp_path.joinpath("go").exists():
            raise KeyboardInterrupt

    monkeypatch.setattr("fairgate.interfaces.cli.studies.progress_line", lambda: nullcontext(embedded))
    words = ["audit", "searches", "--root", str(two_suites.root), "--cache", str(tmp_path / "cache")]
    words += [word for name in ("tuned", "biased") for word in ("--model", f"open_clip:local-dir:{CHECKPOINTS / name}")]
    code, _ = run(*words)
    assert code == 130
    assert any("tuned" in what for what in seen)
    seen.clear()
    tmp_path.joinpath("go").touch()
    code, output = run(*words)
    assert code == 0, output
    assert not any("tuned" in what for what in seen)


@pytest.mark.nightly
def test_the_workers_of_ray_measure_what_this_process_measures(two_suites: Toy) -> None:
    pytest.importorskip("ray")
    root = two_suites.root
    words = ["audit", "jobs", "searches", "--root", str(root), "--cache", "off", *models("base", "biased")]
    csvs = []
    for engine in ([], ["--engine", "ray", "--workers", "2"]):
        code, output = run(*words, *engine, "--report", str(root / "found"))
        assert code == 0, output
        csvs.append((root / "found" / "audits.csv").read_text(encoding="utf-8"))
    assert csvs[0] == csvs[1]
