"""What an audit hands to other tools: numbers come back as they were, and no text does anything there."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from audit_toy import audit_of, classification, implicit, ranked
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tex_reader import tables_of
from toy_repository import SUITE, Toy, toy_repository

from fairgate.records.comparison import AuditRecord
from fairgate.records.schemas import schema_file, schema_of, schema_text
from fairgate.reports.comparison_files import render_csv, render_latex
from fairgate.reports.comparison_page import comparison_html, overview
from fairgate.reports.data_table import table_id

HOSTILE = [
    *("=1+1", "+1", "-1", "@SUM(A1)", "＝1", "a,b", 'say "no"', "a\r\n=1+1", "\t=1", "'quoted'", ""),
    *("[x]", "*", "\\\\", "\\input{/etc/passwd}", "}{", "$x$", "50% & more", "a_b^c~d", "<script>alert(1)</script>"),
    *("</script><script>alert(1)</script>", '" onclick="alert(1)', "{{ 7 * 7 }}", "--><b>", "\x1b[31m\u202egnp"),
]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> AuditRecord:
    """Three models on every kind of probe."""
    toy: Toy = toy_repository(tmp_path_factory.mktemp("exported"))
    words = '  words: {kind: association, template: "a photo of a {word}", words: [nurse, line cook, chef]}\n'
    trust = '  trust: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, nurse], '
    toy.write_suite(SUITE.replace("decision:", trust + "positive: doctor}\n" + words + "decision:"))
    return audit_of(toy.root, "base", "tuned", "biased")


def rows_of(record: AuditRecord, **where: str) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(render_csv(record)))
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def numbers(row: dict[str, str], *names: str) -> list[float | None]:
    return [float(row[name]) if row[name] else None for name in names]


def named(record: AuditRecord, name: str) -> AuditRecord:
    """The record with a name for the first model, and for a dataset's notice, everywhere."""
    data = json.loads(record.model_dump_json())

    def change(value: object) -> object:
        if isinstance(value, dict):
            return {key: change(member) for key, member in value.items()}
        if isinstance(value, list):
            return [change(member) for member in value]
        return name if value in ("base", "drawn squares") else value

    return AuditRecord.model_validate(change(data))


def test_every_number_comes_back_from_the_csv_to_the_last_digit(record: AuditRecord) -> None:
    probe = classification(record)
    models = rows_of(record, table="models", probe="labels")
    for row in probe.fairness:
        at = {"model": row.model, "subject": row.subject or ""}
        (fairness,), (accuracy,) = (
            [one for one in models if one["quantity"] == name and at.items() <= one.items()]
            for name in ("fairness", "accuracy")
        )
        assert numbers(fairness, "value", "lo", "hi") == [row.fairness, row.lo, row.hi]
        assert numbers(accuracy, "value", "lo", "hi") == [row.accuracy, row.accuracy_lo, row.accuracy_hi]
    for pair in probe.pairs:
        at = {"table": "pairs", "model": pair.second, "compared_with": pair.first, "subject": pair.subject or ""}
        delta, spread, accuracy = rows_of(record, **at)
        assert numbers(delta, "value", "p", "p_adjusted") == [pair.delta, pair.p_mood, pair.p_mood_adjusted]
        assert numbers(spread, "value", "lo", "hi") == [pair.spread_delta, pair.spread_lo, pair.spread_hi]
        assert numbers(accuracy, "value", "p_adjusted") == [pair.accuracy_delta, pair.p_accuracy]
    effects = rows_of(record, table="effects", probe="labels")
    for effect, row in zip(probe.effects, effects, strict=True):
        assert numbers(row, "value", "lo", "hi", "p") == [effect.effect, effect.lo, effect.hi, effect.p]
    skews = rows_of(record, table="skew", probe="search")
    for skew, row in zip(ranked(record).skews, skews, strict=True):
        assert numbers(row, "value", "null_median", "null_p95") == [skew.value, skew.null_median, skew.null_p95]
    means = rows_of(record, table="implicit", quantity="mean P(positive label)")
    found = implicit(record)
    assert [numbers(row, "value", "lo", "hi") for row in means] == [[row.mean, row.lo, row.hi] for row in found.groups]
    spreads = rows_of(record, table="implicit", quantity="highest less lowest")
    assert [numbers(row, "value", "lo", "hi") for row in spreads] == [
        [row.value, row.lo, row.hi] for row in found.spreads
    ]


def test_latex_tables_hold_the_numbers_with_three_decimals(record: AuditRecord) -> None:
    tables = {table.label.removeprefix("tab:"): table for table in tables_of(render_latex(record))}
    groupings = ("skin_tone", "gender", "skin_tone-x-gender")
    assert set(tables) == {
        *("models.labels", "subjects.labels", "pairs.labels", "recall.search"),
        *(f"implicit.trust.{grouping}" for grouping in groupings),
        *(f"skew.{probe}.{grouping}.{k}" for probe, k in (("search", 60), ("words", 4)) for grouping in groupings),
    }
    accuracy = {row.model: row.accuracy for row in classification(record).fairness if row.subject is None}
    for model, _, printed in tables["models.labels"].rows:
        assert printed.startswith(f"{accuracy[model]:.3f} [")
    summaries = [one for one in ranked(record).summaries if one.over == "gender"]
    for row, (model, mean, _, chance, beyond) in zip(summaries, tables["skew.search.gender.60"].rows, strict=True):
        assert (model, mean) == (row.model, f"{row.mean:.3f} [{row.lo:.3f}, {row.hi:.3f}]")
        assert chance == f"{row.null_median:.3f} ({row.null_p95:.3f})"
        assert beyond == f"{row.beyond} ({row.subjects})"
    assert all(table.caption.endswith(". drawn squares") for table in tables.values())


def test_labels_in_latex_are_ids_in_the_page(record: AuditRecord) -> None:
    page = comparison_html(record)
    labels = [table.label.removeprefix("tab:") for table in tables_of(render_latex(record))]
    assert labels
    assert all(f'id="{label}" data-title=' in page for label in labels)


def safe_everywhere(record: AuditRecord, name: str) -> None:
    """A name that is in every output and does nothing in any."""
    renamed = named(record, name)
    assert len(tables_of(render_latex(renamed))) == len(list(overview(renamed)))
    text = render_csv(renamed)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(text.splitlines()) - 1
    words = ("table", "probe", "model", "compared_with", "subject", "group", "quantity", "detail", "notice")
    assert not [row for row in rows for key in words if row[key].startswith(tuple("=+-@＝＋－＠\t\r"))]
    assert None not in rows[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_in_csv_and_latex(record: AuditRecord, name: str) -> None:
    safe_everywhere(record, name)


@settings(max_examples=40, deadline=None)
@given(name=st.text(max_size=30))
def test_any_name_is_text_in_csv_and_latex(record: AuditRecord, name: str) -> None:
    safe_everywhere(record, name)


class Structure(HTMLParser):
    """The tags of a page with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(tag, name) for name, _ in attrs} | {(tag, "")}


@pytest.fixture(scope="module")
def harmless_structure(record: AuditRecord) -> Structure:
    """Of the page with its own names."""
    return Structure(comparison_html(record))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_in_the_page(record: AuditRecord, harmless_structure: Structure, name: str) -> None:
    page = comparison_html(named(record, name))
    assert Structure(page).found <= harmless_structure.found
    assert page.count("<script") == 1
    assert not set(page) & set("\u202e\x1b\r\t")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("pairs", "a", "b"), ("pairs", "a.b")),
        (("pairs", "a b"), ("pairs", "a-b")),
        (("pairs", "a×b"), ("pairs", "a × b")),
        (("pairs", "é"), ("pairs", "è")),
        (("pairs", "x" * 80), ("pairs", "x" * 81)),
    ],
)
def test_different_questions_have_tables_of_different_names(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    assert table_id(*first) != table_id(*second)
    for parts in (first, second):
        assert set(table_id(*parts)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def test_the_shipped_schema_is_the_one_that_the_record_defines() -> None:
    assert schema_file("audit").read_text(encoding="utf-8") == schema_text("audit"), "run `make generate`"
    assert schema_of("audit")["$id"] == "urn:fairgate:audit:1"


def test_a_written_record_keeps_the_schema_and_a_broken_one_does_not(record: AuditRecord, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text(record.model_dump_json(), encoding="utf-8")
    written = json.loads(path.read_text(encoding="utf-8"))
    schema = Draft202012Validator(schema_of("audit"))
    assert schema.is_valid(written)
    (wrong,) = schema.iter_errors(written | {"n_sets": "80"})
    assert (wrong.json_path, wrong.validator) == ("$.n_sets", "type")
    (unknown,) = schema.iter_errors(written | {"extra": 1})
    assert (unknown.json_path, unknown.validator) == ("$", "additionalProperties")
