"""A regression of P(true) is one at either of two label temperatures, whatever kind of probe or table it comes from."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from toy_repository import LABELS, SUITE, Toy, toy_repository

from fairgate import gate
from fairgate.gate.selftest.suite_inputs import look_at_suite
from fairgate.ground.errors import BaselineError
from fairgate.interfaces.pytest_plugin.fixture import Fairness
from fairgate.records import RunRecord
from fairgate.reports import read_results
from fairgate.suites import advice, resolve

PROMPTS = [f"a photo of a {label}" for labels in LABELS.values() for label in labels]
SURE = "  - {id: sure, probe: labels, metric: p_true, no_worse_than: baseline, margin: 0.02}\n"
LABELLED = "".join(
    line
    for line in SUITE.splitlines(keepends=True)
    if not any(word in line for word in ("search", "retrieval", "prompts"))
).replace("labels: {chef: [chef, line cook], doctor: [doctor, nurse]}", "labels: [chef, line cook, doctor, nurse]")
"""Without the search, whose columns are no probabilities."""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return toy_repository(tmp_path_factory.mktemp("temperature"))


def rewritten(toy: Toy, name: str, change: Callable[[np.ndarray], np.ndarray]) -> str:
    """A copy of a table with other numbers for the labels' prompts; its name."""
    with (toy.root / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = list(csv.reader(handle))
    at = [header.index(prompt) for prompt in PROMPTS]
    numbers = change(np.array([[float(row[column]) for column in at] for row in rows]))
    for row, values in zip(rows, numbers, strict=True):
        for column, value in zip(at, values, strict=True):
            row[column] = repr(float(value))
    path = toy.root / f"{name}-rewritten.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    return path.name


def judged(toy: Toy, table: str, text: str = SUITE, *, baseline: str = "base.csv", values: str = "logit") -> RunRecord:
    toy.write_suite(text)
    prepared = gate.prepare("jobs", toy.root)
    typed = {"model": f"scores:{table}?values={values}", "mlflow": "off", "cache": "off"}
    typed["baseline"] = f"model:scores:{baseline}?values={values}"
    return gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record


def test_a_records_entropies_are_those_of_its_answers_and_are_read_back(toy: Toy, tmp_path: Path) -> None:
    record = judged(toy, "tuned.csv")
    assert record.answer_entropy.keys() == {"labels"}
    assert all(0.2 < entropy < np.log(2) for entropy in record.answer_entropy["labels"].values())
    file = tmp_path / "results.json"
    file.write_text(record.model_dump_json(), encoding="utf-8")
    assert read_results(file).answer_entropy == record.answer_entropy
    for forged in ("-0.1", "NaN", '"much"'):
        text = record.model_dump_json().replace(
            '"chef":' + repr(record.answer_entropy["labels"]["chef"]), f'"chef":{forged}'
        )
        assert forged in text
        file.write_text(text, encoding="utf-8")
        with pytest.raises(BaselineError):
            read_results(file)


def test_a_notice_says_what_the_temperature_alone_moves(toy: Toy) -> None:
    assert judged(toy, "tuned.csv", SUITE + SURE).notices == []
    hidden = judged(toy, rewritten(toy, "biased", lambda logits: 0.01 * logits))
    (notice,) = hidden.notices
    assert "to 0.693 nats" in notice
    assert "fairness-by-job[doctor] from" in notice
    assert "(wanted at least 0.850)" in notice
    (notice,) = judged(toy, rewritten(toy, "tuned", lambda logits: 0.5 * logits), SUITE + SURE).notices
    assert "That alone moves sure from 0.8" in notice


def test_probabilities_have_a_temperature_as_logits_do(toy: Toy) -> None:
    def probabilities(factor: float) -> Callable[[np.ndarray], np.ndarray]:
        def change(logits: np.ndarray) -> np.ndarray:
            weights = np.exp(factor * logits)
            return np.asarray(weights / weights.sum(axis=1, keepdims=True))

        return change

    base = rewritten(toy, "base", probabilities(1.0))
    hidden = judged(toy, rewritten(toy, "biased", probabilities(0.01)), LABELLED, baseline=base, values="probability")
    (gap,) = [check for check in hidden.checks if check.item == "gaps[doctor]"]
    assert (gap.verdict, gap.only_tempered, gap.worst_group) == ("fail", True, "dark × female")


def test_the_probability_of_a_positive_label_has_one_too(toy: Toy) -> None:
    implicit = SUITE.replace(
        "    labels: {chef: [chef, line cook], doctor: [doctor, nurse]}",
        "    labels: [doctor, nurse]\n    positive: doctor",
    ).replace("  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.05}\n", "")
    hidden = judged(toy, rewritten(toy, "biased", lambda logits: 0.01 * logits), implicit)
    (gap,) = [check for check in hidden.checks if check.item == "gaps[doctor]"]
    assert (gap.verdict, gap.only_tempered, gap.worst_group) == ("fail", True, "dark × female")


def test_an_anchor_has_a_temperature_of_its_own(toy: Toy) -> None:
    """The baseline is flat already; what was lost since the anchor shows at the anchor's temperature."""
    flat = rewritten(toy, "base", lambda logits: 0.01 * logits)
    anchored = SUITE.replace("decision:", "anchor: model:scores:base.csv?values=logit\ndecision:")
    record = judged(toy, rewritten(toy, "biased", lambda logits: 0.01 * logits), anchored, baseline=flat)
    verdicts = {check.item: check for check in record.checks}
    assert (verdicts["gaps[doctor]"].verdict, verdicts["gaps[doctor]"].only_tempered) == ("pass", False)
    gap = verdicts["gaps@anchor[doctor]"]
    assert (gap.verdict, gap.only_tempered) == ("fail", True)
    assert gap.reason.startswith("at the anchor's label temperature, since the anchor, dark × female 0.001 ahead")
    assert any("(anchor)" in notice for notice in record.notices)


def test_answers_that_have_the_baselines_entropy_at_no_temperature_are_never_a_pass(toy: Toy) -> None:
    """A model that tells doctor and nurse apart in hardly anybody has no gaps at any temperature."""

    def alike(logits: np.ndarray) -> np.ndarray:
        return np.where(
            np.arange(len(logits))[:, None] < len(logits) - 1, logits * np.array([1.0, 1.0, 0.0, 0.0]), logits
        )

    blind = rewritten(toy, "tuned", alike)
    record = judged(toy, blind)
    verdicts = {check.item: check.verdict for check in record.checks}
    assert (verdicts["gaps[chef]"], verdicts["gaps[doctor]"], verdicts["no-regression"]) == (
        "pass",
        "inconclusive",
        "inconclusive",
    )
    assert any(
        "no temperature gives the answers the baseline's mean entropy for doctor" in one for one in record.notices
    )


def test_the_fixture_decides_at_both_temperatures(toy: Toy) -> None:
    table = rewritten(toy, "biased", lambda logits: 0.01 * logits)
    toy.write_suite(SUITE)
    prepared = gate.prepare("jobs", toy.root)
    for model, passes in (("tuned.csv", True), (table, False)):
        typed = {"model": f"scores:{model}?values=logit", "mlflow": "off", "cache": "off"}
        fixture = Fairness(prepared, resolve(prepared.loaded.suite, typed, environment={}))
        if passes:
            fixture.assert_no_intersectional_regression(over=("skin_tone", "gender"), margin=0.04)
            continue
        with pytest.raises(AssertionError, match=r"dark × female 0\.001 ahead .*at the baseline's label temperature"):
            fixture.assert_no_intersectional_regression(over=("skin_tone", "gender"), margin=0.04)


def test_a_bound_that_a_temperature_can_meet_is_warned_of_and_never_refused(toy: Toy) -> None:
    toy.write_suite(SUITE)
    prepared = gate.prepare("jobs", toy.root)
    (found,) = advice(prepared.loaded)
    assert "'fairness', 'fairness-by-job'" in found.problem
    assert found.where == "fairness_suites/jobs.yaml:16"
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    evaluation = gate.evaluate(prepared, settings, command="x")
    assert evaluation.record.verdict == "pass"
    assert any("by its label temperature alone" in message for message in evaluation.messages)
    (warned,) = [one for one in look_at_suite(prepared, settings, date(2026, 11, 22)) if one.level == "warning"]
    assert "metric: p_true, no_worse_than: baseline" in (warned.remedy or "")
    assert "id: p-true-labels-no-worse" in (warned.remedy or "")
    toy.write_suite(SUITE + SURE)
    assert advice(gate.prepare("jobs", toy.root).loaded) == []
    toy.write_suite(SUITE + SURE.replace("{id: ", "{tier: watch, id: "))
    assert len(advice(gate.prepare("jobs", toy.root).loaded)) == 1
    toy.write_suite(SUITE.replace("baseline: model:scores:base.csv?values=logit", "baseline: none"))
    (found,) = advice(gate.prepare("jobs", toy.root).loaded)
    assert found.remedy == "add `- {id: p-true-labels-floor, probe: labels, metric: p_true, at_least: 0.50}`"


def shares(samples: int, sharpness: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    """Logits of labels as shares of so many sampled answers; `sharpness` is an inverse temperature."""

    def of(logits: np.ndarray) -> np.ndarray:
        weights = np.exp(sharpness * logits)
        drawn = np.random.default_rng(0).multinomial(samples, weights / weights.sum(axis=1, keepdims=True))
        return np.asarray(drawn / samples)

    return of


def test_tables_of_frequencies_are_compared_once_since_they_have_no_temperature(toy: Toy) -> None:
    """A model that is less certain of its answers: as probabilities that is a temperature, as frequencies a change."""
    sharp = rewritten(toy, "base", shares(20))
    flat = rewritten(toy, "tuned", shares(20, sharpness=0.2))
    for values, tempered in (("probability", True), ("frequency", False)):
        record = judged(toy, flat, LABELLED + SURE, baseline=sharp, values=values)
        told = any("label temperature" in notice for notice in record.notices)
        assert told == tempered, values
        assert record.model.frequencies == (not tempered)
        verdicts = {check.item: check.verdict for check in record.checks}
        assert verdicts["sure"] == "fail", "a loss of P(true) itself shows in both"


def test_frequencies_against_a_model_with_a_temperature_are_still_compared_at_both(toy: Toy) -> None:
    sharp, flat = rewritten(toy, "base", shares(20)), rewritten(toy, "tuned", shares(20, sharpness=0.2))
    for now, before in (("frequency", "probability"), ("probability", "frequency")):
        toy.write_suite(LABELLED)
        prepared = gate.prepare("jobs", toy.root)
        typed = {"model": f"scores:{flat}?values={now}", "baseline": f"model:scores:{sharp}?values={before}"}
        settings = resolve(prepared.loaded.suite, {**typed, "mlflow": "off", "cache": "off"}, environment={})
        record = gate.evaluate(prepared, settings, command="x").record
        assert any("label temperature" in notice for notice in record.notices), now


def test_no_temperature_is_warned_of_where_there_is_none(toy: Toy) -> None:
    toy.write_suite(SUITE)
    loaded = gate.prepare("jobs", toy.root).loaded
    assert advice(loaded, "scores:base.csv?values=probability")
    assert advice(loaded, "scores:base.csv?values=frequency") == []
