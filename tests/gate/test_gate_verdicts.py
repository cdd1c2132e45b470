"""The gate finds the bias that was planted, at its place, and nothing where none was."""

from __future__ import annotations

import numpy as np
import pytest
from toy_repository import SUITE, Toy, write_scores_table

from fairgate import gate
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve


def run(toy: Toy, **options: str) -> RunRecord:
    return evaluate(toy, **options).record


def evaluate(toy: Toy, **options: str) -> gate.Evaluation:
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off"} | {key.replace("_", "-"): value for key, value in options.items()}
    return gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="pytest")


def scores(name: str) -> str:
    return f"scores:{name}.csv?values=logit"


def by_item(record: RunRecord) -> dict[str, CheckResult]:
    return {check.item: check for check in record.checks}


def test_a_harmless_candidate_passes_every_check(toy: Toy) -> None:
    record = run(toy)
    assert record.verdict == "pass"
    assert record.ok
    assert {check.verdict for check in record.checks} == {"pass"}
    assert record.coverage.complete
    assert record.coverage.prompts == 8
    assert record.baseline is not None
    assert record.dataset.notice == "drawn squares"


def test_a_planted_bias_is_found_in_its_cell_and_in_no_other(toy: Toy) -> None:
    record = run(toy, model=scores("biased"))
    assert record.verdict == "fail"
    checks = by_item(record)
    gap = checks["gaps[doctor]"]
    assert gap.verdict == "fail"
    assert gap.worst_group == "dark × female"
    assert [group.group for group in gap.groups if group.verdict == "fail"] == ["dark × female"]
    assert "its set-mates before and 0.354 behind now" in gap.reason
    assert checks["gaps[chef]"].verdict == "pass"
    assert checks["fairness-by-job[doctor]"].verdict == "fail"
    assert checks["fairness-by-job[chef]"].verdict == "pass"


def test_the_measured_gap_follows_the_planted_strength(toy: Toy) -> None:
    gaps = []
    for strength in (0.0, 0.5, 1.0, 2.0):
        write_scores_table(toy.root / "x.csv", 40, seed=9, planted={("doctor", "dark", "female"): strength})
        gaps.append(by_item(run(toy, model=scores("x")))["gaps[doctor]"].delta)
    assert abs(gaps[0] or 0) < 0.01
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] is not None
    assert gaps[-1] < -0.2


def test_a_failing_check_shows_its_worst_sets_with_every_member(toy: Toy) -> None:
    gap = by_item(run(toy, model=scores("biased")))["gaps[doctor]"]
    worst = gap.worst_sets[0]
    assert worst.subject == "doctor"
    assert [member.group for member in worst.members] == [
        "light × male",
        "light × female",
        "dark × male",
        "dark × female",
    ]
    lowest = min(worst.members, key=lambda member: member.value or 0)
    assert lowest.group == "dark × female"
    assert lowest.predicted == "nurse"


def test_who_is_taken_for_whom_is_counted_per_group(toy: Toy) -> None:
    taken = [one for one in run(toy, model=scores("biased")).confusions if one.subject == "doctor"]
    assert [(one.group, one.predicted, one.total) for one in taken] == [("dark × female", "nurse", 40)]


def test_without_a_baseline_a_regression_check_is_inconclusive_and_never_a_pass(toy: Toy) -> None:
    record = run(toy, baseline="none")
    assert record.verdict == "inconclusive"
    assert not record.ok
    assert by_item(record)["gaps[doctor]"].verdict == "inconclusive"
    assert "--fairness-baseline" in by_item(record)["gaps[doctor]"].reason
    assert run(toy, baseline="none", on_inconclusive="warn").ok


def test_too_few_sets_are_inconclusive(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("decision:", "groups: {min_sets: 41}\ndecision:"))
    checks = by_item(run(toy))
    assert checks["fairness"].verdict == "pass"
    assert checks["fairness-by-job[doctor]"].verdict == "inconclusive"
    assert "only 40 sets" in checks["fairness-by-job[doctor]"].reason


def test_a_margin_that_the_interval_straddles_is_inconclusive_and_says_how_many_sets_would_do(toy: Toy) -> None:
    toy.write_suite(
        SUITE.replace(
            "over: crossed, by: subject, no_worse_than: baseline, margin: 0.04",
            "over: crossed, by: subject, no_worse_than: baseline, margin: 0.0",
        )
    )
    gap = by_item(run(toy))["gaps[chef]"]
    assert gap.verdict == "inconclusive"
    assert "reaches over the margin" in gap.reason


def test_deciding_on_the_interval_asks_for_all_of_it(toy: Toy) -> None:
    value = by_item(run(toy))["fairness"]
    assert value.value is not None
    for bound, verdict in ((value.value, "inconclusive"), (0.9, "pass"), (0.9999, "fail")):
        toy.write_suite(
            SUITE.replace(
                "metric: fairness, at_least: 0.9}", f"metric: fairness, at_least: {bound}, decide: interval}}"
            )
        )
        assert by_item(run(toy))["fairness"].verdict == verdict


def test_a_skewed_ranking_fails_and_shows_what_chance_alone_would_give(toy: Toy) -> None:
    text = (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()
    header, body = text[0], [line.split(",") for line in text[1:]]
    for line in body:
        if line[1].startswith("light") and line[0].startswith("doctor"):
            line[-2:] = [str(float(value) + 3) for value in line[-2:]]
    (toy.root / "skewed.csv").write_text("\n".join([header, *(",".join(line) for line in body)]), encoding="utf-8")
    checks = by_item(run(toy, model=scores("skewed")))
    skew = checks["skew[doctor]"]
    assert skew.verdict == "fail"
    assert skew.value == pytest.approx(np.log(2))
    assert skew.worst_group == "light"
    assert skew.null_median is not None
    assert skew.null_p95 is not None
    assert 0 < skew.null_median < skew.null_p95 < 0.45
    assert {group.group: group.status for group in skew.groups}["dark"] == "infinite"
    assert checks["skew[chef]"].verdict == "pass"


def test_other_ranking_metrics_and_accuracy_over_groups_are_measured(toy: Toy) -> None:
    toy.write_suite(
        SUITE
        + "  - {id: min, probe: search, metric: min_skew_at_k, k: 60, over: gender, at_least: -5}\n"
        + "  - {id: ndkl, probe: search, metric: ndkl_at_k, k: 60, over: gender, by: subject, at_most: 1}\n"
        + "  - {id: both, probe: search, metric: max_skew_at_k, k: 60, over: gender, no_worse_than: baseline, "
        "margin: 0.5}\n"
        + "  - {id: worst, probe: labels, metric: accuracy, over: crossed, at_least: 0.9}\n"
        + "  - {id: gap, probe: labels, metric: group_gap, over: each, at_least: -0.1}\n"
    )
    checks = by_item(run(toy))
    assert {check.verdict for check in checks.values()} == {"pass"}
    assert checks["min"].value is not None
    assert checks["min"].value <= 0
    assert checks["ndkl[chef]"].value is not None
    assert checks["ndkl[chef]"].value > 0
    assert [group.group for group in checks["gap"].groups] == ["light", "dark", "male", "female"]
    biased = by_item(run(toy, model=scores("biased")))
    assert biased["worst"].verdict == "fail"
    assert biased["worst"].worst_group == "dark × female"


def test_the_same_run_twice_gives_the_same_record(toy: Toy) -> None:
    first, second = run(toy).model_dump(), run(toy).model_dump()
    for clock in ("created_at", "seconds"):
        del first[clock], second[clock]
    assert first == second


@pytest.mark.parametrize(
    ("options", "reason", "remedy"),
    [
        ({"model": "scores:none.csv?values=logit"}, "none.csv", "did you mean 'tuned.csv'"),
        ({"model": "scores:tuned.csv"}, "scale", "values="),
        ({"model": "scores:base.csv?values=logit"}, "the baseline is the candidate", "from before the change"),
        ({"baseline": "mlflow:latest"}, "MLflow is off", "--fairness-mlflow"),
        ({"baseline": "nothing"}, "is not a baseline", "write git:REF"),
        ({"baseline": "file:nowhere"}, "lacks results.json", "fairgate baseline update"),
    ],
)
def test_what_stands_in_the_way_makes_an_error_and_never_a_pass(
    toy: Toy, options: dict[str, str], reason: str, remedy: str
) -> None:
    record = run(toy, **options)
    assert record.verdict == "error"
    assert not record.ok
    assert {check.verdict for check in record.checks} == {"error"}
    assert reason in record.checks[0].reason
    assert remedy in record.checks[0].reason
    assert all(check.value is None and check.status == "absent" for check in record.checks)


def test_two_checkpoints_with_identical_scores_are_an_error(toy: Toy) -> None:
    base = (toy.root / "base.csv").read_text(encoding="utf-8")
    (toy.root / "copy.csv").write_text(base + "\n", encoding="utf-8")
    record = run(toy, model=scores("copy"))
    assert record.verdict == "error"
    assert "gave identical scores" in record.checks[0].reason


def test_a_changed_shard_is_an_error_that_names_it(toy: Toy) -> None:
    (shard,) = (toy.root / "datasets" / "toy" / "v1").glob("*.parquet")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    record = run(toy)
    assert record.verdict == "error"
    assert shard.name in record.checks[0].reason


def test_a_missing_image_in_the_scores_is_an_error_that_names_it(toy: Toy) -> None:
    lines = (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()
    (toy.root / "short.csv").write_text("\n".join(lines[:-1]), encoding="utf-8")
    record = run(toy, model=scores("short"))
    assert record.verdict == "error"
    assert "doctor-039" in record.checks[0].reason


def test_a_truth_that_is_an_attribute_is_classified_by_its_words(toy: Toy) -> None:
    toy.write_suite(
        SUITE.split("probes:")[0]
        + """\
probes:
  gender:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: [chef, doctor]
    truth: gender
    words: {male: chef, female: doctor}
checks:
  - {id: accuracy, probe: gender, metric: accuracy, over: gender, at_least: 0}
"""
    )
    check = by_item(run(toy))["accuracy"]
    assert [group.group for group in check.groups] == ["male", "female"]
    assert check.value == pytest.approx(0.5, abs=0.01)
