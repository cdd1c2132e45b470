"""Rank metrics of a suite are those of `fairgate.formulas.metrics`, with intervals or a reason, and ties told."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_gate_verdicts import by_item, evaluate, scores
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.formulas.metrics import (
    bias_at_k,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    normalized_entropy_at_k,
    skew_tie_range,
)
from fairgate.records import CheckResult
from fairgate.reports import render_comment, terminal_summary
from fairgate.suites import resolve

EXACT: dict[str, tuple[Callable[..., Any], str, float]] = {
    "max_skew_at_k": (max_skew_at_k, "at_most", 5),
    "min_skew_at_k": (min_skew_at_k, "at_least", -5),
    "ndkl_at_k": (ndkl_at_k, "at_most", 5),
    "normalized_entropy_at_k": (normalized_entropy_at_k, "at_least", 0.1),
}


def similarity(toy: Toy, model: str = "tuned") -> tuple[Any, Any]:
    """What the probe `search` answers, and the dataset's index."""
    prepared = gate.prepare("jobs", toy.root)
    typed = {"mlflow": "off", "cache": "off", "model": scores(model)}
    scored = gate.score(prepared, resolve(prepared.loaded.suite, typed, environment={}))
    return scored.scores["search"].value, prepared.dataset.index


@pytest.mark.parametrize("metric", list(EXACT))
def test_a_value_is_the_mean_over_subjects_and_the_worst_groupings(toy: Toy, metric: str) -> None:
    exact, rule, bound = EXACT[metric]
    value, index = similarity(toy)
    toy.write_suite(
        SUITE + f"  - {{id: all, probe: search, metric: {metric}, k: 30, over: each, {rule}: {bound}}}\n"
        f"  - {{id: one, probe: search, metric: {metric}, k: 30, over: crossed, by: subject, {rule}: {bound}}}\n"
    )
    checks = by_item(evaluate(toy).record)

    def of(subject: str, over: tuple[str, ...]) -> float:
        here = index.subject == subject
        codes, names = index.codes(over)
        return float(exact(value[here][None], np.asarray(codes)[here], 30, groups=len(names))[0])

    means = [np.mean([of(job, (over,)) for job in ("chef", "doctor")]) for over in ("skin_tone", "gender")]
    worst = min if rule == "at_least" else max
    assert checks["all"].value == pytest.approx(worst(means))
    assert checks["one[doctor]"].value == pytest.approx(of("doctor", ("skin_tone", "gender")))
    for check in (checks["all"], checks["one[doctor]"]):
        assert check.lo is not None, check.interval
        assert check.hi is not None
        assert check.value is not None
        assert check.lo <= check.value <= check.hi
        assert "bootstrap of sets" in str(check.interval)
        assert "percentile" not in str(check.interval), "percentiles of an extreme do not cover"


def test_bias_at_k_compares_the_groups_that_are_named_and_is_held_to_its_size(toy: Toy) -> None:
    value, index = similarity(toy)
    crossed = "over: [skin_tone, gender], first: dark × female, second: light × male"
    toy.write_suite(
        SUITE + "  - {id: gender, probe: search, metric: bias_at_k, k: 31, over: gender, by: subject, at_most: 0.9}\n"
        f"  - {{id: named, probe: search, metric: bias_at_k, k: 60, {crossed}, by: subject, at_most: 0.9}}\n"
    )
    checks = by_item(evaluate(toy).record)
    here = index.subject == "doctor"
    genders = np.asarray(index.codes("gender")[0])[here]
    signed = float(bias_at_k(value[here][None], genders, 31, groups=2)[0])
    found = checks["gender[doctor]"]
    assert signed != 0
    assert found.value == pytest.approx(abs(signed))
    assert {group.group: group.value for group in found.groups} == pytest.approx({"male": signed, "female": -signed})
    assert found.worst_group == ("male" if signed > 0 else "female")
    codes = np.asarray(index.codes(("skin_tone", "gender"))[0])[here]
    named = float(bias_at_k(value[here][None], codes, 60, groups=4, first=3, second=0)[0])
    assert checks["named[doctor]"].value == pytest.approx(abs(named))
    assert [group.group for group in checks["named[doctor]"].groups] == ["dark × female", "light × male"]
    for check in (found, checks["named[doctor]"]):
        assert check.lo is not None
        assert check.hi is not None
        assert 0 <= check.lo <= (check.value or 0.0) <= check.hi <= 1


def coarse(toy: Toy) -> None:
    """`coarse.csv`: queries in steps so wide that many images tie."""
    with (toy.root / "tuned.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    for row in rows:
        row[-4:] = [str(round(float(value) / 0.2) * 0.2) for value in row[-4:]]
    with (toy.root / "coarse.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])


def test_equal_scores_at_the_cut_are_told_with_what_their_order_can_do(toy: Toy) -> None:
    coarse(toy)
    toy.write_suite(
        SUITE + "  - {id: ndkl, probe: search, metric: ndkl_at_k, k: 60, over: gender, by: subject, at_most: 1}\n"
        "  - {id: bias, probe: search, metric: bias_at_k, k: 60, over: gender, by: subject, at_most: 1}\n"
        "  - {id: even, probe: search, metric: normalized_entropy_at_k, k: 60, over: gender, by: subject, "
        "at_least: 0}\n"
        "  - {id: least, probe: search, metric: min_skew_at_k, k: 60, over: gender, by: subject, at_least: -9}\n"
    )
    record = evaluate(toy, model=scores("coarse")).record
    checks = by_item(record)
    value, index = similarity(toy, "coarse")
    here = index.subject == "doctor"
    ranges = [
        skew_tie_range(value[here][None], np.asarray(index.codes(over)[0])[here], 60, groups=2, extreme="max")
        for over in ("skin_tone", "gender")
    ]
    skew = checks["skew[doctor]"]
    assert skew.tie_at_k is True
    assert skew.tie_lo == pytest.approx(max(float(one.lowest[0]) for one in ranges))
    assert skew.tie_hi == pytest.approx(max(float(one.highest[0]) for one in ranges))
    for item in ("skew", "bias", "even", "least"):
        check = checks[f"{item}[doctor]"]
        assert check.tie_at_k is True
        assert check.tie_lo is not None
        assert check.tie_hi is not None
        assert check.tie_lo - 1e-12 <= (check.value or 0.0) <= check.tie_hi + 1e-12
        assert check.tie_lo < check.tie_hi
    assert checks["ndkl[doctor]"].tie_at_k is True
    assert checks["ndkl[doctor]"].tie_lo is None
    assert any("skew[chef]: equal scores at the cut" in line for line in terminal_summary(record))
    assert "equal scores at the cut" in render_comment(record)


def test_without_equal_scores_nothing_is_told_of_them(toy: Toy) -> None:
    record = evaluate(toy).record
    assert by_item(record)["skew[chef]"].tie_at_k is False
    assert by_item(record)["finds"].tie_at_k is None
    assert not any("equal scores" in line for line in terminal_summary(record))


def intervals(toy: Toy, model: str, check: str) -> CheckResult:
    toy.write_suite(SUITE + f"  - {{id: x, {check}}}\n")
    return by_item(evaluate(toy, model=scores(model)).record)["x"]


def test_a_group_that_is_never_shown_leaves_min_skew_without_an_interval_and_undecided(toy: Toy) -> None:
    with (toy.root / "tuned.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    for row in rows:
        if row[1] == "dark-female":
            row[-4:] = [str(float(value) - 5) for value in row[-4:]]
    with (toy.root / "unseen.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    rule = "probe: search, metric: min_skew_at_k, k: 60, over: crossed, at_least: -3"
    found = intervals(toy, "unseen", rule)
    assert (found.status, found.verdict, found.lo, found.hi) == ("infinite", "fail", None, None)
    assert found.interval == "no interval: no image of dark × female is in the top 60: its share is unseen"
    asked = intervals(toy, "unseen", f"{rule}, decide: interval")
    assert asked.verdict == "inconclusive"
    assert "its share is unseen" in asked.reason
    seen = intervals(toy, "tuned", f"{rule}, decide: interval")
    assert seen.verdict == "pass"
    assert seen.hi is not None
    assert seen.hi <= 0


def test_the_worst_groups_accuracy_has_binomial_limits_even_where_all_are_right(toy: Toy) -> None:
    found = intervals(toy, "tuned", "probe: labels, metric: accuracy, over: crossed, at_least: 0.5")
    assert found.value == 1.0
    assert found.lo is not None
    assert 0.9 < found.lo < 1.0
    assert found.interval == "95% bootstrap of sets, limits of the worst group"


def test_mean_p_true_sees_what_accuracy_no_longer_does(toy: Toy) -> None:
    rule = "probe: labels, over: gender, no_worse_than: baseline, margin: 0.02"
    assert intervals(toy, "biased", f"metric: p_true, {rule}").worst_group == "female"
    assert intervals(toy, "biased", f"metric: p_true, {rule}").verdict == "fail"
    assert intervals(toy, "tuned", f"metric: p_true, {rule}").verdict == "pass"
