"""An audit as page, table, CSV and LaTeX: everything in it, nothing fetched, the notice always there."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from itertools import combinations

import pytest
from audit_toy import OFF, audit_of, classification, ranked, uri
from rich.console import Console
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.ground.errors import StatisticsError
from fairgate.metrics import METRICS
from fairgate.records.comparison import AuditRecord
from fairgate.reports.comparison_files import audit_lines, audit_tables, render_csv, render_latex
from fairgate.reports.comparison_page import comparison_html
from fairgate.studies.comparison import AuditOptions
from fairgate.studies.comparison.run import short_names
from fairgate.suites import resolve


def renamed(record: AuditRecord, old: str, new: str) -> AuditRecord:
    """The record with another name for a model everywhere."""
    return AuditRecord.model_validate_json(record.model_dump_json().replace(f'"{old}"', f'"{new}"'))


def printed(record: AuditRecord, width: int = 120) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for table in audit_tables(record, width):
        console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join([file.getvalue(), *audit_lines(record)])


def test_the_record_comes_back_from_its_file(toy_audit: AuditRecord) -> None:
    text = toy_audit.model_dump_json()
    again = AuditRecord.model_validate_json(text)
    assert again.model_dump_json() == text
    assert comparison_html(again) == comparison_html(toy_audit)
    assert printed(again) == printed(toy_audit)


def test_a_terminal_of_eighty_columns_has_every_number_whole(toy_audit: AuditRecord) -> None:
    narrow, wide = (printed(toy_audit, width).partition("\n•")[0] for width in (80, 200))
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert set(re.findall(r"[−+]?\d\.\d{3}", wide)) == set(re.findall(r"[−+]?\d\.\d{3}", narrow))


def test_every_output_shows_the_notice(toy_audit: AuditRecord) -> None:
    assert toy_audit.dataset.notice == "drawn squares"
    page = comparison_html(toy_audit)
    sections = page.count("<section") - 3  # what stands out, the method and the command show no figures of their own
    assert page.count("drawn squares") >= 1 + sections
    assert "note: drawn squares" in printed(toy_audit)
    rows = list(csv.DictReader(io.StringIO(render_csv(toy_audit))))
    assert {row["notice"] for row in rows} == {"drawn squares"}
    assert render_latex(toy_audit).count("drawn squares") == render_latex(toy_audit).count("\\begin{table}") == 7


def test_the_page_fetches_nothing_and_admits_only_its_own_style_and_script(toy_audit: AuditRecord) -> None:
    page = comparison_html(toy_audit)
    (css,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (js,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    assert f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'" in page
    assert not re.search(r"""(?i)\son[a-z]+=["']|style="|javascript:""", page)
    assert set(re.findall(r'(?:src|href)="(?!#)([^"]*)"', page)) == {"audit.csv", "audit.tex", "audit.json"}


def test_names_in_the_page_are_escaped_and_anchors_lead_somewhere(toy_audit: AuditRecord) -> None:
    page = comparison_html(renamed(toy_audit, "biased", "<b>[red]bold"))
    assert "<b>" not in page
    assert "&lt;b&gt;[red]bold" in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert anchors
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))


def test_the_page_shows_effects_confusions_and_chance(toy_audit: AuditRecord) -> None:
    page = comparison_html(toy_audit)
    for text in (
        "Who is taken for whom",
        "“nurse”",
        "right answers by skin_tone × gender",
        "fair ranker",
    ):
        assert text in page
    assert page.count("✱") > 2


def test_implicit_associations_and_words_stand_in_every_output(toy: Toy) -> None:
    words = '  words: {kind: association, template: "a photo of a {word}", words: [nurse, line cook, chef]}\n'
    trust = '  trust: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, nurse], '
    toy.write_suite(SUITE.replace("decision:", trust + "positive: doctor}\n" + words + "decision:"))
    record = audit_of(toy.root, "base", "biased", options=AuditOptions(k=20))
    page, text = comparison_html(record), printed(record)
    for shown in (page, text):
        assert "P(“doctor”)" in shown
        assert "words" in shown
    assert "every word, for which all images compete" in page
    assert "highest less lowest" in page
    assert "within sets" in page
    rows = list(csv.DictReader(io.StringIO(render_csv(record))))
    assert {row["quantity"] for row in rows if row["table"] == "implicit"} == {
        *("mean P(positive label)", "P(positive label) within sets", "highest less lowest"),
    }
    assert {row["subject"] for row in rows if row["table"] == "skew" and row["probe"] == "words"} == {
        *("nurse", "line cook", "chef"),
    }
    assert "P(“doctor”) by skin\\_tone $\\times$ gender, probe trust" in render_latex(record)
    assert page.count("drawn squares") >= 1 + page.count("<section") - 3


def test_refusals_stand_in_every_output(toy: Toy) -> None:
    toy.write_suite(SUITE)
    record = audit_of(toy.root, "base", options=AuditOptions(k=161))
    assert "No MaxSkew@161 of chef over gender" in comparison_html(record)
    assert "No MaxSkew@161 of chef over gender" in printed(record)
    assert not [row for row in csv.DictReader(io.StringIO(render_csv(record))) if row["table"] == "skew"]
    assert record == AuditRecord.model_validate_json(record.model_dump_json())


def test_an_audit_of_many_models_and_subjects_keeps_to_what_can_be_read(toy_audit: AuditRecord) -> None:
    probe, search = classification(toy_audit), ranked(toy_audit)
    names = [f"checkpoint-{at:02d}" for at in range(40)]
    subjects = [None, *(f"occupation {at}" for at in range(60))]
    pair, row, effect, skew = probe.pairs[0], probe.fairness[0], probe.effects[0], search.skews[0]
    many = probe.model_copy(
        update={
            "fairness": [row.model_copy(update={"model": m, "subject": s}) for m in names for s in subjects],
            "pairs": [
                pair.model_copy(update={"first": a, "second": b, "subject": s})
                for s in subjects
                for a, b in combinations(names, 2)
            ],
            "effects": [effect.model_copy(update={"model": m, "subject": s}) for m in names for s in subjects],
        }
    )
    wide = search.model_copy(
        update={
            "skews": [
                skew.model_copy(update={"model": m, "subject": f"word {at}"}) for m in names for at in range(250)
            ],
            "summaries": [search.summaries[0].model_copy(update={"model": m}) for m in names],
        }
    )
    models = [toy_audit.models[0].model_copy(update={"name": name}) for name in names]
    page = comparison_html(toy_audit.model_copy(update={"probes": [many, wide], "models": models}))
    assert len(page.encode()) < 5_000_000
    assert "and 60 more subjects in audit.csv" in page
    assert "and 50 more in audit.csv" in page


def test_a_page_of_few_models_and_no_mistakes_renders(toy_audit: AuditRecord) -> None:
    probe = classification(toy_audit)
    bare = probe.model_copy(update={"pairs": [], "taken": [], "effects": [], "refusals": []})
    page = comparison_html(toy_audit.model_copy(update={"probes": [bare], "models": toy_audit.models[:1]}))
    assert "Model against model" not in page
    assert "taken for whom" not in page


def test_the_terminal_takes_names_as_they_are(toy_audit: AuditRecord) -> None:
    text = printed(renamed(toy_audit, "biased", "run[bold]7"))
    assert "run[bold]7" in text
    assert "base → tuned" in text
    assert "alike within 0.030" in text
    assert "70% are taken for “nurse”" in text


def test_the_csv_holds_every_number_once(toy_audit: AuditRecord) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(toy_audit))))
    found = classification(toy_audit)
    tables = {name: [row for row in rows if row["table"] == name] for name in {row["table"] for row in rows}}
    assert len(tables["models"]) == 2 * len(found.fairness) + 3  # F_M and accuracy, and R@1 of each model
    assert len(tables["pairs"]) == 3 * len(found.pairs)
    assert len(tables["effects"]) == len(found.effects)
    (nurse,) = tables["taken for"]
    assert (nurse["group"], nurse["quantity"], float(nurse["value"])) == ("dark × female", "nurse", 0.7)
    fairness = [
        r for r in tables["models"] if r["quantity"] == "fairness" and r["model"] == "base" and not r["subject"]
    ]
    assert float(fairness[0]["value"]) == found.fairness[0].fairness


def test_text_in_the_csv_is_no_formula(toy_audit: AuditRecord) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(renamed(toy_audit, "biased", "=HYPERLINK(1)")))))
    assert {row["model"] for row in rows} >= {"'=HYPERLINK(1)"}
    assert "=HYPERLINK(1)" not in {row["model"] for row in rows}


def test_latex_is_escaped_and_balanced(toy_audit: AuditRecord) -> None:
    text = render_latex(renamed(toy_audit, "biased", "v1_50% & \\\\input{x}"))
    assert "v1\\_50\\% \\& \\textbackslash{}input\\{x\\}" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}")
    assert "skin\\_tone $\\times$ gender" in text


@pytest.mark.parametrize(
    ("uris", "names"),
    [
        (["open_clip:local-dir:runs/base", "open_clip:local-dir:runs/tuned"], ["base", "tuned"]),
        (["hf:a/final", "hf:b/final", "hf:c"], ["a/final", "b/final", "c"]),
        (["scores:x.csv?values=logit", "scores:y.parquet?values=cosine"], ["x", "y"]),
        (
            ["scores:x.csv?values=logit", "scores:x.csv?values=cosine"],
            ["scores:x.csv?values=logit", "scores:x.csv?values=cosine"],
        ),
        (["open_clip:ViT-B-32@laion2b"], ["ViT-B-32@laion2b"]),
        ([], []),
    ],
)
def test_models_are_called_by_what_tells_them_apart(uris: list[str], names: list[str]) -> None:
    assert short_names(uris) == names


FURTHER = (
    SUITE
    + """\
  - {id: order, probe: search, metric: ndkl_at_k, k: 60, over: gender, by: subject, at_most: 0.5}
  - {id: order-too, probe: search, metric: ndkl_at_k, k: 60, over: gender, by: subject, at_most: 0.4}
  - {id: first, probe: search, metric: bias_at_k, k: 60, over: gender, first: male, second: female, at_most: 0.5}
  - {id: second, probe: search, metric: bias_at_k, k: 60, over: gender, first: female, second: male, at_most: 0.5}
"""
)


def test_metrics_without_a_table_of_their_own_have_one_together(toy: Toy) -> None:
    toy.write_suite(FURTHER)
    record = audit_of(toy.root, "base", "biased")
    (further,) = record.metrics
    assert (further.name, further.refusals) == ("search", [])
    assert [(row.metric, row.k, row.subject, row.check) for row in further.rows if row.model == "biased"] == [
        ("ndkl_at_k", 60, "chef", "order"),
        ("ndkl_at_k", 60, "doctor", "order"),
        ("bias_at_k", 60, None, "first"),
        ("bias_at_k", 60, None, "second"),
    ]
    prepared = gate.prepare("jobs", toy.root)
    for row in further.rows:
        settings = resolve(prepared.loaded.suite, {**OFF, "model": uri(row.model)})
        checks = gate.evaluate(prepared, settings, command="fairgate check").record.checks
        (check,) = (one for one in checks if (one.id, one.subject) == (row.check, row.subject))
        assert (check.value, check.lo, check.hi, check.n_sets) == (row.value, row.lo, row.hi, row.n_sets)
    again = AuditRecord.model_validate_json(record.model_dump_json())
    for text in (printed(again), comparison_html(again), render_latex(again)):
        for name in ("NDKL@60, doctor over gender", "over gender (first)", "over gender (second)"):
            assert name in text
    rows = [row for row in csv.DictReader(io.StringIO(render_csv(again))) if row["table"] == "metrics"]
    assert len(rows) == len(further.rows)
    assert {row["notice"] for row in rows} == {"drawn squares"}


def test_a_metric_that_cannot_be_measured_is_listed_with_the_reason(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StatisticsError("no two sets differ.", where="here", remedy="bring more sets")

    toy.write_suite(FURTHER)
    monkeypatch.setattr(type(METRICS["ndkl_at_k"]), "measure", refuse)
    record = audit_of(toy.root, "base", "biased")
    assert {one.what for one in record.metrics[0].refusals} == {"ndkl_at_60"}
    for text in (printed(record), comparison_html(record)):
        assert "No ndkl_at_60 of base (chef, doctor), biased (chef, doctor): no two sets differ." in text


def test_a_suite_whose_metrics_all_have_tables_has_no_further_ones(toy_audit: AuditRecord) -> None:
    assert toy_audit.metrics == []
    assert "Further metrics" not in comparison_html(toy_audit)
