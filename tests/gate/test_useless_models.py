"""A model cannot pass by becoming useless: blindness treats everybody alike, and is no pass."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_gate_verdicts import by_item, evaluate, scores
from toy_repository import PROMPTS, QUERIES, SUITE, Toy, members

from fairgate import gate
from fairgate.records import RunRecord
from fairgate.suites import resolve

COLUMNS = [*PROMPTS, *(query for queries in QUERIES.values() for query in queries)]


def write_blind(path: Path, answers: dict[str, float], *, noise: float = 0.0, sets: int = 40) -> None:
    """A table of scores that do not depend on the image, but for noise in the queries that names no subject."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["set_id", "member", *COLUMNS])
        for _, set_id, tone, gender in members(sets):
            own = [answers.get(name, 0.0) + (noise * rng.normal() if name not in PROMPTS else 0.0) for name in COLUMNS]
            writer.writerow([set_id, f"{tone}-{gender}", *own])


def record(toy: Toy, model: str, **options: str) -> RunRecord:
    return evaluate(toy, model=scores(model), **options).record


def test_a_checkpoint_that_answers_the_same_for_every_image_is_perfectly_fair_and_fails(toy: Toy) -> None:
    write_blind(toy.root / "blind.csv", {"a photo of a chef": 2.0, "a photo of a doctor": 2.0}, noise=0.1)
    result = record(toy, "blind")
    checks = by_item(result)
    assert checks["fairness"].value == 1.0
    assert checks["fairness"].verdict == "pass"
    assert checks["useful"].value == 1.0, "each subject's own labels hold one right answer: accuracy cannot see it"
    assert checks["finds"].value == pytest.approx(0.5, abs=0.1)
    assert checks["finds"].verdict == "fail"
    assert result.verdict == "fail"


def test_labels_that_tie_are_no_right_answer(toy: Toy) -> None:
    write_blind(toy.root / "blind.csv", {}, noise=0.1)
    with (toy.root / "blind.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    for row in rows:  # they tie on the images that they compete for, and are told apart on the others
        other = "a photo of a doctor" if row[0].startswith("chef") else "a photo of a chef"
        row[header.index(other)] = "1.0"
    with (toy.root / "blind.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    checks = by_item(record(toy, "blind"))
    assert checks["fairness"].value == 1.0
    assert checks["useful"].value == 0.0
    assert checks["useful"].verdict == "fail"


def test_queries_that_tell_no_image_from_another_are_an_error_and_find_nobody(toy: Toy) -> None:
    write_blind(toy.root / "blind.csv", {**dict.fromkeys(PROMPTS[::2], 2.0), "chef": 1.0})
    result = record(toy, "blind")
    checks = by_item(result)
    assert checks["finds"].value == 0.5, "everybody is a chef"
    assert checks["finds"].verdict == "fail"
    assert checks["skew[doctor]"].verdict == "error"
    assert "every image has the same similarity (0) with the query of 'doctor'" in checks["skew[doctor]"].reason
    assert checks["fairness"].verdict == "pass", "what can be measured is still measured"
    assert result.verdict == "fail"


def test_labels_and_queries_that_are_never_told_apart_give_no_verdict(toy: Toy) -> None:
    write_blind(toy.root / "blind.csv", {"chef": 1.0})
    labels = record(toy, "blind")
    assert "the labels 'chef' and 'line cook' as the same text" in labels.checks[0].reason
    write_blind(toy.root / "blind.csv", dict.fromkeys(PROMPTS[::2], 2.0))
    queries = record(toy, "blind")
    assert "the subjects 'chef' and 'doctor' as the same text" in queries.checks[0].reason
    assert labels.exit_code == queries.exit_code == 3


def test_recall_counts_images_whose_own_query_is_among_the_k_nearest(toy: Toy) -> None:
    toy.write_suite(
        SUITE + "  - {id: by-tone, probe: search, metric: recall_at_k, k: 1, over: skin_tone, at_least: 0.1}\n"
        "  - {id: kept, probe: search, metric: recall_at_k, k: 1, by: subject, no_worse_than: baseline, margin: 0.02}\n"
    )
    with (toy.root / "tuned.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    for row in rows:
        if row[0].startswith("doctor") and row[1] == "dark-male":
            row[-4:] = ["1.0", "1.0", "0.0", "0.0"]
    with (toy.root / "lost.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    checks = by_item(record(toy, "lost"))
    assert checks["finds"].value == pytest.approx(1 - 40 / 320, abs=0.01)
    assert checks["by-tone"].worst_group == "dark"
    assert checks["by-tone"].value == pytest.approx(0.75, abs=0.01)
    assert checks["kept[doctor]"].verdict == "fail"
    assert checks["kept[doctor]"].delta == pytest.approx(-0.25, abs=0.01)
    assert checks["kept[chef]"].verdict == "pass"
    assert checks["kept[chef]"].metric_with_k == "recall_at_1"


def test_a_baseline_from_before_ranks_is_read_and_refused_only_where_ranks_are_needed(toy: Toy) -> None:
    toy.write_suite(
        SUITE.replace("k: 1, at_least: 0.9", "k: 1, no_worse_than: baseline, margin: 0.05").replace(
            "metric: max_skew_at_k, k: 60, over: each, by: subject, at_most: 0.45",
            "metric: max_skew_at_k, k: 60, over: each, no_worse_than: baseline, margin: 0.4",
        )
    )
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "report": str(toy.root / "old"), "model": scores("base")}
    settings = resolve(prepared.loaded.suite, typed | {"baseline": "none"}, environment={})
    gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings)
    _forget_ranks(toy.root / "old", prepared)
    checks = by_item(evaluate(toy, baseline="file:old").record)
    assert checks["no-regression"].verdict == checks["skew"].verdict == checks["gaps[chef]"].verdict == "pass"
    assert checks["finds"].verdict == "error"
    assert "hold no ranks, which recall_at_k needs" in checks["finds"].reason
    assert "make the baseline again" in checks["finds"].reason


def _forget_ranks(folder: Path, prepared: gate.Prepared) -> None:
    """The record and the table as they were written before there were ranks."""
    from fairgate.probes import read_scores, scores_digest

    table = folder / "scores.parquet"
    pq.write_table(pq.read_table(table).drop_columns(["rank"]), table)
    text = (folder / "results.json").read_text(encoding="utf-8")
    record = RunRecord.model_validate_json(text)
    kept = scores_digest(read_scores(table, prepared.dataset.index))
    assert kept != record.scores_digest
    (folder / "results.json").write_text(text.replace(str(record.scores_digest), kept), encoding="utf-8")
