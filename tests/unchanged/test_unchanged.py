"""What committed baselines, kept records and shipped data rest on is what it was (held.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import held
import pytest

from fairgate.data import open_dataset
from fairgate.probes import read_scores, scores_digest
from fairgate.reports import read_results

THEN = json.loads(held.HELD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("suite", THEN["questions"])
def test_a_shipped_suite_asks_what_it_asked(suite: str) -> None:
    assert held.questions(suite) == THEN["questions"][suite]


def test_the_digest_of_answers_is_what_it_was() -> None:
    assert held.answers() == THEN["answers"]


def test_named_streams_draw_what_they_drew() -> None:
    assert held.streams() == THEN["streams"]


def test_the_committed_baseline_is_read_and_its_scores_are_its_own() -> None:
    folder = held.ROOT / "fairness_suites" / "baselines" / "occupations"
    record = read_results(folder / "results.json")
    assert record.probes == THEN["questions"]["occupations"]
    index = open_dataset("occupations", held.ROOT / "datasets").index
    assert scores_digest(read_scores(folder / "scores.parquet", index)) == record.scores_digest


def test_a_gate_run_measures_what_it_measured() -> None:
    """Sums of numbers near 1 in another order differ by some 1e-16 each: 1e-9 leaves room for thousands of them."""
    now, then = dict(leaves(held.toy_record())), dict(leaves(THEN["toy record"]))
    assert then.keys() <= now.keys()  # a record may grow
    for place, value in then.items():
        expected = pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        assert now[place] == expected, place


def test_every_build_holds_what_it_held() -> None:
    assert held.builds() == THEN["builds"]


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no others, by its place."""
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, f"{place}/{key}")
    else:
        yield place, value
