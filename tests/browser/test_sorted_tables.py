"""The tables of audit.html in a browser: sorted by mouse and keyboard, handed out whole, whole without the script."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from audit_toy import classification, ranked
from sites import HOSTILE, LONG, renamed
from tex_reader import tables_of
from windows import opened, unfold

from fairgate.records.comparison import AuditRecord
from fairgate.reports.comparison_files import render_csv, render_latex
from fairgate.reports.comparison_page import comparison_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.xdist_group("browser")

MODELS = "[id='models.labels']"
PAIRS = "[id='pairs.labels']"


@pytest.fixture(scope="module")
def record(pages: Mapping[str, Path]) -> AuditRecord:
    """What `audit` shows."""
    return AuditRecord.model_validate_json((pages["audit"].parent / "audit.json").read_bytes())


def names(page: Page, table: str) -> list[str]:
    """The first cells of a table's rows, in the order shown."""
    return [text.strip() for text in page.locator(f"{table} tbody tr:not(.group) > th").all_text_contents()]


def head(page: Page, table: str, name: str) -> Locator:
    """The button in a column's head."""
    return page.locator(f"{table} thead button").filter(has_text=re.compile(f"^{re.escape(name)}"))


def downloaded(page: Page, table: str, kind: str) -> str:
    """What a table's button hands out."""
    button = page.locator(f".scroll:has({table}) + .export button", has_text=kind)
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename == table[5:-2] + {"CSV": ".csv", "LaTeX": ".tex"}[kind]
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_a_click_sorts_down_then_up_and_then_as_it_was(
    browser: Browser, pages: Mapping[str, Path], record: AuditRecord
) -> None:
    accuracy = {row.model: row.accuracy for row in classification(record).fairness if row.subject is None}
    assert len(set(accuracy.values())) > 1
    with opened(browser, pages["audit"]) as page:
        before, button = names(page, MODELS), head(page, MODELS, "accuracy")
        shown = []
        for way in ("descending", "ascending", None):
            button.click()
            assert button.locator("..").get_attribute("aria-sort") == way
            shown.append(names(page, MODELS))
        assert [accuracy[model] for model in shown[0]] == sorted(accuracy.values(), reverse=True)
        assert [accuracy[model] for model in shown[1]] == sorted(accuracy.values())
        assert shown[2] == before


def test_the_keyboard_sorts_and_one_column_at_a_time(browser: Browser, pages: Mapping[str, Path]) -> None:
    with opened(browser, pages["audit"]) as page:
        head(page, MODELS, "model").focus()
        page.keyboard.press("Enter")
        assert names(page, MODELS) == ["base", "biased", "tuned"]
        page.keyboard.press("Space")
        assert names(page, MODELS) == ["tuned", "biased", "base"]
        head(page, MODELS, "F_M").press("Enter")
        assert page.locator(f"{MODELS} [aria-sort]").count() == 1
        assert page.locator(f"{PAIRS} [aria-sort]").count() == 0
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "accuracy"


def test_numbers_sort_as_numbers_and_what_is_missing_stands_last(
    browser: Browser, record: AuditRecord, tmp_path: Path
) -> None:
    probe = ranked(record)
    subjects = ["2 missing", "10 endless", "0.002", "-1", "9", "10"]
    values = [None, math.inf, 0.002, -1.0, 9.0, 10.0]
    one = next(row for row in probe.skews if row.model == "base")
    rows = [
        one.model_copy(update={"subject": subject, "value": value, "model": model.name})
        for subject, value in zip(subjects, values, strict=True)
        for model in record.models
    ]
    changed = probe.model_copy(update={"skews": rows, "within": []})
    path = tmp_path / "page.html"
    path.write_text(comparison_html(record.model_copy(update={"probes": [changed]})), encoding="utf-8")
    table = f"[id='skews.search.{one.over}.{one.k}']"
    with opened(browser, path) as page:
        unfold(page)
        head(page, table, "base").click()
        assert names(page, table) == ["10 endless", "10", "9", "0.002", "-1", "2 missing"]
        head(page, table, "base").click()
        assert names(page, table) == ["-1", "0.002", "9", "10", "10 endless", "2 missing"]
        head(page, table, "subject").click()
        assert names(page, table)[-3:] == ["9", "10", "10 endless"]
        column = [row["base"] for row in csv.DictReader(io.StringIO(downloaded(page, table, "CSV")))]
        assert sorted(column) == sorted(["", "inf", "0.002", "-1.0", "9.0", "10.0"])


def test_groups_of_a_forest_plot_stay_together(browser: Browser, pages: Mapping[str, Path]) -> None:
    table = "[id='effects.labels.p_true.skin_tone-x-gender']"
    with opened(browser, pages["audit"]) as page:
        unfold(page)
        groups = page.locator(f"{table} tbody").count()
        assert groups == 3
        head(page, table, "effect").click()
        head(page, table, "effect").click()
        first = page.locator(f"{table} tbody").first
        assert first.locator("tr").first.inner_text() == "dark × female"
        assert first.locator("tr").nth(1).inner_text().startswith("biased")
        values = [float(row.get_attribute("data-value") or "") for row in first.locator("td[data-lo]").all()]
        assert values == sorted(values)


def test_every_table_is_handed_out_with_the_digits_of_the_record(
    browser: Browser, pages: Mapping[str, Path], record: AuditRecord
) -> None:
    everything = list(csv.DictReader(io.StringIO(render_csv(record))))
    known = {row[key] for row in everything for key in ("value", "lo", "hi", "p_adjusted", "null_median", "null_p95")}
    with opened(browser, pages["audit"]) as page:
        unfold(page)
        tables = [one.get_attribute("id") for one in page.locator("table[data-title]").all()]
        assert len(tables) == len(set(tables)) > 20
        assert page.locator(".export").count() == len(tables)
        rows = list(csv.DictReader(io.StringIO(downloaded(page, MODELS, "CSV"))))
        of = {row.model: row for row in classification(record).fairness if row.subject is None}
        for row in rows:
            found = of[row["model"]]
            assert [float(row[key]) for key in ("F_M", "F_M, lo", "F_M, hi")] == [found.fairness, found.lo, found.hi]
            assert float(row["accuracy"]) == found.accuracy
            assert row["notice"] == "drawn squares"
        pair, *_ = csv.DictReader(io.StringIO(downloaded(page, PAIRS, "CSV")))
        assert {value for key, value in pair.items() if key not in ("models", "set by set", "notice")} <= known
        (taken,) = csv.DictReader(io.StringIO(downloaded(page, "[id='taken.labels.doctor']", "CSV")))
        assert (taken["biased"], taken["biased, share"], taken["base"]) == ("nurse", "0.7", "")
        (skew,) = tables_of(downloaded(page, "[id='skew.search.gender.60']", "LaTeX"))
        assert skew.header == ("model", "mean", "median", "fair ranker, median (95\\%)", "beyond 95\\% (of)")
        assert {row[-1] for row in skew.rows} <= {f"{beyond} (2)" for beyond in (0, 1, 2)}
        (models,) = tables_of(downloaded(page, MODELS, "LaTeX"))
        assert models.label == "tab:models.labels"
        assert models.caption == "Fairness and accuracy of every model, probe labels. drawn squares"
        printed = {row[0]: row[1] for row in tables_of(render_latex(record))[0].rows}
        assert {row[0]: row[1] for row in models.rows} == printed


def test_a_table_is_handed_out_in_the_order_shown(browser: Browser, pages: Mapping[str, Path]) -> None:
    with opened(browser, pages["audit"]) as page:
        head(page, MODELS, "model").click()
        rows = csv.DictReader(io.StringIO(downloaded(page, MODELS, "CSV")))
        assert [row["model"] for row in rows] == ["base", "biased", "tuned"]


def test_hostile_names_are_no_markup_no_formula_and_no_command(
    browser: Browser, pages: Mapping[str, Path], record: AuditRecord
) -> None:
    with opened(browser, pages["hostile audit"]) as page:
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        rows = list(csv.DictReader(io.StringIO(downloaded(page, MODELS, "CSV"))))
        assert {row["model"] for row in rows} == {"base", LONG, f"'{HOSTILE}"}
        (table,) = tables_of(downloaded(page, MODELS, "LaTeX"))
    printed = {row[0] for row in tables_of(render_latex(renamed(record)))[0].rows}
    assert {row[0] for row in table.rows} == printed


def test_the_page_is_whole_without_its_script(browser: Browser, pages: Mapping[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["audit"].as_uri())
    assert page.locator("button").count() == 0
    assert names(page, MODELS) == ["base", "tuned", "biased"]
    for name in ("audit.csv", "audit.tex", "audit.json"):
        link = page.locator(f"#files ~ p a[href='{name}']")
        assert link.count() == 1
        assert (pages["audit"].parent / name).is_file()
    context.close()
