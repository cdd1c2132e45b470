"""Regressions are judged group by group: five images hide no other group's loss, and widen no interval."""

from __future__ import annotations

from pathlib import Path

import pytest
from people_repository import People, check_of, people_repository
from test_groups_one_by_one import BAD, SIZES, TINY, verdicts


@pytest.fixture
def people(tmp_path: Path) -> People:
    """Groups of 36, 40, 60, 200 and 200 images, and one of five."""
    return people_repository(tmp_path, SIZES)


REGRESSION = (
    "  - {id: regression, probe: gender, metric: METRIC, over: [race, gender], no_worse_than: baseline, margin: 0.05}\n"
)


@pytest.mark.parametrize("metric", ["accuracy", "p_true", "group_gap"])
def test_groups_that_clearly_fell_are_not_hidden_by_one_of_five_images(people: People, metric: str) -> None:
    people.write_suite(REGRESSION.replace("METRIC", metric))
    people.scores("base", {})
    people.scores("now", BAD)
    told = check_of(people.run("now", "base", on_inconclusive="warn"), "regression")
    assert told.verdict == "fail"
    assert {group.group for group in told.failing_groups} == {"Black × Female", "Black × Male"}
    assert verdicts(told)["other × Male"] == "inconclusive"
    assert all(name in told.reason for name in ("Black × Female", "Black × Male", "other × Male is in only 5 images"))


@pytest.mark.parametrize("metric", ["accuracy", "p_true", "group_gap"])
def test_a_group_of_five_that_fell_decides_nothing_and_widens_no_interval(people: People, metric: str) -> None:
    people.write_suite(REGRESSION.replace("METRIC", metric).replace("margin: 0.05", "margin: 0.15"))
    people.scores("base", {})
    people.scores("now", {TINY: 0.0})
    told = check_of(people.run("now", "base"), "regression")
    assert told.verdict == "inconclusive"
    assert [group.group for group in told.undecided_groups] == ["other × Male"]
    for group in told.groups[:-1]:
        assert group.verdict == "pass"
        assert group.delta_lo is not None
        assert group.delta_lo > -0.15


@pytest.mark.parametrize("metric", ["max_skew_at_k", "c_asc"])
def test_a_regression_of_one_number_is_taken_over_groups_that_are_large_enough(people: People, metric: str) -> None:
    k = "" if metric == "c_asc" else "k: 100, "
    people.write_suite(
        f"  - {{id: ranks, probe: search, metric: {metric}, {k}over: [race, gender], no_worse_than: baseline, "
        "margin: 0.2}\n"
    )
    people.scores("base", {})
    people.scores("tiny", {}, liked={TINY: 9.0})
    people.scores("biased", {}, liked={TINY: 9.0, ("Black", "Male"): 3.0})
    assert check_of(people.run("tiny", "base"), "ranks").verdict == "inconclusive"
    assert check_of(people.run("biased", "base"), "ranks").verdict == "fail"


@pytest.mark.parametrize("size", [1, 2])
def test_a_group_of_one_or_two_images_hides_no_loss_either(tmp_path: Path, size: int) -> None:
    people = people_repository(tmp_path, {**SIZES, TINY: size})
    people.write_suite(REGRESSION.replace("METRIC", "p_true"))
    people.scores("base", {})
    people.scores("now", BAD)
    told = check_of(people.run("now", "base", on_inconclusive="warn"), "regression")
    assert told.verdict == "fail"
    assert {group.group for group in told.failing_groups} == {"Black × Female", "Black × Male"}
    assert "other × Male is in only" in told.reason
