"""Studies put planted biases in their order: part of docs/evidence/planted_ranks.csv, on fewer photographs."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.planted_ranks import SHARES, STRENGTHS, contexts

TABLE = Path(__file__).parents[3] / "docs/evidence/planted_ranks.csv"


def test_contexts_words_and_searches_rise_with_what_is_planted() -> None:
    ranked = list(contexts(SHARES[1::2], STRENGTHS[::2], photographs=160))
    assert len(ranked) == 3
    assert min(each.correlation for each in ranked) >= 0.9


def test_every_paper_has_a_plant_whose_order_comes_back() -> None:
    with TABLE.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["paper"] for row in rows} == {"1", "2", "3", "4", "5"}
    assert min(float(row["rank correlation"]) for row in rows) >= 0.9
