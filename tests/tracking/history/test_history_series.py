from __future__ import annotations

import math

import pytest
from past import FAIRNESS, MARGIN, SKEW, a_run, jobs

from fairgate.ground.errors import SettingsError
from fairgate.records.history import PastRun, Question, Series
from fairgate.tracking import suite_history


def fairness(*runs: PastRun) -> Series:
    (series,) = suite_history("jobs", runs).series
    return series


def test_a_number_moves_where_it_changes_by_more_than_both_intervals_allow() -> None:
    series = fairness(a_run(1, 0.90), a_run(2, 0.912), a_run(3, 0.88), a_run(4, 0.88))
    (move,) = series.moves
    assert (move.before.run.height, move.after.run.height) == (2, 3)
    assert move.delta == pytest.approx(-0.032)
    assert move.allowed == pytest.approx(math.hypot(0.01, 0.01))
    assert move.unseen == 0


@pytest.mark.parametrize(("change", "moved"), [(0.0141, False), (0.0142, True), (-0.0141, False), (-0.0142, True)])
def test_the_limit_is_the_root_of_the_summed_squares(change: float, moved: bool) -> None:
    assert bool(fairness(a_run(1, 0.9), a_run(2, 0.9 + change)).moves) is moved


def test_the_halves_that_count_are_those_that_face_each_other() -> None:
    lopsided = {"fairness/all/lo": 0.80, "fairness/all/hi": 0.91}
    rising = fairness(a_run(1, 0.90, more=lopsided), a_run(2, 0.92))
    falling = fairness(a_run(1, 0.90, more=lopsided), a_run(2, 0.88))
    assert len(rising.moves) == 1
    assert falling.moves == ()


def test_equal_numbers_without_an_interval_do_not_move_and_rounding_does_not_either() -> None:
    exact = [a_run(number, value, half=0.0) for number, value in [(1, 0.9), (2, 0.9), (3, 0.9 + 1e-15)]]
    assert fairness(*exact).moves == ()
    assert len(fairness(*exact, a_run(4, 0.901, half=0.0)).moves) == 1


def test_without_an_interval_nothing_is_claimed() -> None:
    bare = a_run(2, 0.1)
    del bare.metrics["fairness/all/lo"], bare.metrics["fairness/all/hi"]  # type: ignore[attr-defined]
    assert fairness(a_run(1, 0.9), bare, a_run(3, 0.9)).moves == ()


def test_runs_on_another_dataset_or_with_another_question_are_never_joined() -> None:
    other = Question("fairness", "higher", "at_least", None, "another")
    series = fairness(
        a_run(1, 0.9),
        a_run(2, 0.5, dataset="faces/v2", fingerprint="e" * 64),
        a_run(3, 0.5, dataset="faces/v2", fingerprint="d" * 64),
        a_run(4, 0.2, dataset="faces/v2", fingerprint="d" * 64, asked={"fairness": other}),
        a_run(5, 0.2, dataset="faces/v2", fingerprint="d" * 64, asked={"fairness": other}),
    )
    assert series.moves == ()
    assert [len(stretch) for stretch in series.stretches] == [1, 1, 1, 2]
    cuts = [point.cut for point in series.points if point.cut]
    assert cuts[0] == "dataset faces/v1 became faces/v2"
    assert cuts[1] == "the content of dataset faces/v2 changed"
    assert "question" in cuts[2]


def test_commits_that_no_run_measured_are_counted_where_commits_give_the_order() -> None:
    (move,) = fairness(a_run(3, 0.9), a_run(7, 0.5)).moves
    assert move.unseen == 3
    (unknown,) = fairness(a_run(3, 0.9), a_run(7, 0.5, height=None)).moves
    assert unknown.unseen is None


def test_small_steps_that_add_up_are_a_drift() -> None:
    falling = [a_run(number, 0.9 - 0.005 * number) for number in range(1, 8)]
    series = fairness(*falling)
    assert series.moves == ()
    assert series.drift is not None
    assert series.drift.delta == pytest.approx(-0.03)
    assert fairness(a_run(1, 0.9), a_run(2, 0.905), a_run(3, 0.9)).drift is None


def test_a_drift_does_not_cross_a_cut() -> None:
    falling = [a_run(number, 0.9 - 0.005 * number) for number in range(1, 5)]
    later = [a_run(n, 0.9 - 0.005 * n, dataset="faces/v2", fingerprint="e" * 64) for n in range(5, 8)]
    assert fairness(*falling, *later).drift is None


def test_a_run_that_lacks_a_number_is_passed_over() -> None:
    absent = a_run(2)
    del absent.metrics["fairness/all"]  # type: ignore[attr-defined]
    series = fairness(a_run(1, 0.9), absent, a_run(3, 0.5))
    assert [point.place for point in series.points] == [0, 2]
    assert len(series.moves) == 1


def test_items_are_chosen_by_check_item_and_subject() -> None:
    runs = [jobs(1, 0.3, 0.4), jobs(2, 0.3, 0.4)]

    def items(**asked: str) -> list[str]:
        return [series.item for series in suite_history("jobs", runs, **asked).series]

    assert items() == ["fairness", "skew[chef]", "skew[doctor]"]
    assert items(check="skew") == ["skew[chef]", "skew[doctor]"]
    assert items(check="skew[doctor]") == items(subject="doctor") == ["skew[doctor]"]
    assert items(check="skew", subject="chef") == ["skew[chef]"]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"check": "skw"}, "did you mean 'skew'?"),
        ({"subject": "docter"}, "did you mean 'doctor'?"),
        ({"check": "skew", "subject": "x"}, "checks: fairness, skew"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(asked: dict[str, str], hint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        suite_history("jobs", [jobs(1, 0.3, 0.4)], **asked)
    assert hint in (raised.value.remedy or "")


def test_no_run_is_no_history() -> None:
    with pytest.raises(SettingsError, match="no finished run"):
        suite_history("jobs", [])


def test_of_two_checks_of_one_number_the_one_with_a_bound_is_told() -> None:
    margin = Question("fairness", "higher", "no_worse_than", None, "q1")
    run = a_run(1, more={"a-margin/all": 0.9, "a-margin/doctor": 0.8}, asked={"a-margin": margin})
    found = suite_history("jobs", [run])
    assert [series.item for series in found.series] == ["a-margin[doctor]", "fairness"]
    assert found.repeats == ("a-margin",)
    assert [series.item for series in suite_history("jobs", [run], check="a-margin").series] == [
        "a-margin",
        "a-margin[doctor]",
    ]


def test_the_anchor_repeats_the_number_and_is_told_only_when_asked_for() -> None:
    run = a_run(1, more={"slow-anchor/all": 0.5}, asked={"slow-anchor": MARGIN})
    found = suite_history("jobs", [run])
    assert [series.item for series in found.series] == ["fairness"]
    assert found.repeats == ("slow@anchor",)
    (asked,) = suite_history("jobs", [run], check="slow@anchor").series
    assert (asked.item, asked.question.held) == ("slow@anchor", False)


def test_a_check_that_is_gone_keeps_its_history() -> None:
    history = suite_history("jobs", [jobs(1, 0.3, 0.4), a_run(2)])
    assert {series.item: len(series.points) for series in history.series} == {
        "fairness": 2,
        "skew[chef]": 1,
        "skew[doctor]": 1,
    }
    assert (FAIRNESS.digest, SKEW.digest) == ("q1", "q2")


@pytest.mark.parametrize(("rule", "joined"), [("no_worse_than", False), ("at_least", True)])
def test_a_comparison_that_another_group_settles_is_not_joined_and_a_bound_follows_the_worst_group(
    rule: str, joined: bool
) -> None:
    """Male 0.094 and White 0.508 before, the same now: a move of 0.4 would be none of either group's."""
    groups = {"fairness/all/group/Male": 0.094, "fairness/all/group/White": 0.508}
    asked = {"fairness": Question("fairness", "higher", rule, "baseline", "q")}
    before, now = (a_run(at, value, more=groups, asked=asked) for at, value in ((1, 0.094), (2, 0.508)))
    series = fairness(before, now)
    assert len(series.moves) == (1 if joined else 0)
    told = series.points[1].regrouped
    assert told == (None if joined else "now of White (0.508 → 0.508), before of Male (0.094 → 0.094)")


@pytest.mark.parametrize("limits", [True, False])
def test_of_a_comparison_that_another_group_settles_the_same_group_moves(limits: bool) -> None:
    """White fell by 0.4 and became the group that settles it: it is White's own number that moved."""
    asked = {"fairness": Question("fairness", "higher", "no_worse_than", "baseline", "q")}
    runs = []
    for at, male, white in ((1, 0.1, 0.2), (2, 0.11, -0.2)):
        groups = {"fairness/all/group/Male": male, "fairness/all/group/White": white}
        if limits:
            groups |= {"fairness/all/group/White/lo": white - 0.02, "fairness/all/group/White/hi": white + 0.02}
        runs.append(a_run(at, min(male, white), more=groups, asked=asked))
    series = fairness(*runs)
    assert series.points[1].regrouped == "now of White (0.200 → −0.200), before of Male (0.100 → 0.110)"
    moved = [(move.after.group, round(move.delta, 9), round(move.allowed, 4)) for move in series.moves]
    assert moved == ([("White", -0.4, round(math.hypot(0.02, 0.01), 4))] if limits else [])
    assert bool(series.unjudged) is not limits
