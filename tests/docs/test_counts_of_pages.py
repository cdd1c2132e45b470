"""Counts that a page's first lines state are those of the tables next to it."""

from __future__ import annotations

import csv
from collections import Counter

from documents import ROOT

EVIDENCE = ROOT / "docs" / "evidence"
TRUST = (EVIDENCE / "trust.md").read_text(encoding="utf-8")


def rows(name: str) -> list[dict[str, str]]:
    with (EVIDENCE / name).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_variants_of_model_files_are_as_many_as_in_the_table() -> None:
    table = rows("differential.csv")
    equal, refused, designed, different = (
        sum(int(row[name]) for row in table) for name in ("equal", "refused", "by design", "different")
    )
    assert f"**{equal:,} variants of model files give the library's own numbers, {refused} are refused" in TRUST
    every = equal + refused + designed + different
    assert f"Of {every:,} variants in {len(table)} kinds of files" in TRUST
    assert f"{equal:,} are equal, {refused} refused, {designed} differ by design" in TRUST
    assert different == 0


def test_published_layouts_are_as_many_as_in_the_table() -> None:
    outcomes = Counter(row["outcome"] for row in rows("layouts.csv"))
    page = (EVIDENCE / "models.md").read_text(encoding="utf-8")
    counted = f"Of {outcomes.total()} published layouts, {outcomes['equal']} are judged with the library's numbers, "
    assert f"{counted}{outcomes['refused']} are refused" in page
