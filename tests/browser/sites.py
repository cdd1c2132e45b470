"""The pages that are opened in a browser, as their renderers make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from audit_toy import audit_of
from example_records import (
    example_checks,
    example_history,
    example_pictures,
    example_record,
    photographs_record,
    team_record,
    vicious_record,
)
from past import a_run, jobs
from toy_repository import SUITE, Toy, toy_repository

from fairgate.records import CheckResult
from fairgate.records.comparison import AuditRecord
from fairgate.records.history import History
from fairgate.reports import render_html
from fairgate.reports.comparison_files import render_csv, render_latex
from fairgate.reports.comparison_page import comparison_html as audit_page
from fairgate.reports.history_page import history_html as history_page
from fairgate.tracking import suite_history

NAMES = (
    *("failed", "passed", "error", "photographs", "team", "hostile team"),
    *("audit", "hostile audit", "history", "hostile history"),
)
"""Every page by name; those before `audit` are report.html."""
LONG = "a-checkpoint-with-a-name-that-nobody-would-want-to-type-twice-" * 2
HOSTILE = '=HYPERLINK("x")</script><img src=x onerror=alert(1)>%$&_#{}~^\\'


def write_sites(folder: Path) -> Mapping[str, Path]:
    """Every page in a folder of its own, as its command would leave it there."""
    toy = toy_repository(folder / "repository")
    found = toy_audit(toy)
    makers: dict[str, Callable[[], str]] = {
        "failed": lambda: render_html(example_record(_checks("error")), example_pictures),
        "passed": lambda: render_html(example_record(_checks("error", "fail", "inconclusive")), None),
        "error": lambda: render_html(example_record(), example_pictures),
        "photographs": lambda: render_html(photographs_record(), None),
        "team": lambda: render_html(team_record(), example_pictures, example_history(team_record())),
        "hostile team": lambda: render_html(vicious_record(), None, example_history(vicious_record())),
        "audit": lambda: audit_page(found),
        "hostile audit": lambda: audit_page(renamed(found)),
        "history": lambda: history_page(example_past("v2", "drawn squares")),
        "hostile history": lambda: history_page(example_past(HOSTILE, HOSTILE)),
    }
    paths = {}
    for name in NAMES:
        paths[name] = folder / name.replace(" ", "-") / "page.html"
        paths[name].parent.mkdir()
        paths[name].write_text(makers[name](), encoding="utf-8")
    for name, text in (("audit.csv", render_csv(found)), ("audit.tex", render_latex(found))):
        (paths["audit"].parent / name).write_text(text, encoding="utf-8")
    (paths["audit"].parent / "audit.json").write_text(found.model_dump_json(), encoding="utf-8")
    return paths


def _checks(*without: str) -> list[CheckResult]:
    return [check for check in example_checks() if check.verdict not in without]


def example_past(later: str, notice: str) -> History:
    """A fall at the third commit, and another release at the sixth."""
    values = [0.90, 0.905, 0.84, 0.84, 0.845]
    first = [jobs(n, 0.2 + 0.1 * (n > 2), 0.3) if n < 3 else a_run(n, value) for n, value in enumerate(values, 1)]
    more = [a_run(n, 0.7, dataset=f"faces/{later}", fingerprint="e" * 64, notice=notice) for n in (6, 7)]
    return suite_history(later if notice == HOSTILE else "jobs", [*first, *more])


def toy_audit(toy: Toy) -> AuditRecord:
    """Three models on every kind of probe."""
    words = '  words: {kind: association, template: "a photo of a {word}", words: [nurse, line cook, chef]}\n'
    trust = '  trust: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, nurse], '
    toy.write_suite(SUITE.replace("decision:", trust + "positive: doctor}\n" + words + "decision:"), "many")
    text = toy.suite.with_name("many.yaml").read_text(encoding="utf-8").replace("suite: jobs", "suite: many")
    toy.write_suite(text, "many")
    return audit_of(toy.root, "base", "tuned", "biased", suite="many")


def renamed(record: AuditRecord) -> AuditRecord:
    """The record with names that try to break out, and one that is far too long."""
    text = record.model_dump_json()
    for old, new in (("biased", HOSTILE), ("tuned", LONG)):
        quoted = new.replace("\\", "\\\\").replace('"', '\\"')
        text = text.replace(f'"{old}"', f'"{quoted}"')
    return AuditRecord.model_validate_json(text)
