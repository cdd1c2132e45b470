"""`fairgate audit` on tables of scores, and on the embedded world, where the planted bias is known."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from toy_repository import Toy
from typer.testing import CliRunner

from fairgate.cli.main import app
from fairgate.portraits.world import PLANTS, planted_cells
from fairgate.records.comparison import AuditRecord, ClassificationAudit

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"
MODELS = ["base", "tuned", "biased", "whackamole"]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"CI": "", "COLUMNS": "140"})
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


def test_csv_and_latex_go_where_they_are_asked(toy: Toy) -> None:
    table, paper = toy.root / "out" / "a.csv", toy.root / "out" / "a.tex"
    words = ["--csv", str(table), "--latex", str(paper), "--reference", "dark", "--margin", "0.2", "--k", "10"]
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
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditRecord, str]:
    """Four checkpoints of the embedded world, compared; and what the terminal said."""
    folder = tmp_path_factory.mktemp("embedded")
    addresses = [f"open_clip:local-dir:build/portraits/checkpoints/{name}" for name in MODELS]
    words = [word for address in addresses for word in ("--model", address)]
    code, output = run("audit", "occupations", "--root", str(ROOT), "--report", str(folder), *words)
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
