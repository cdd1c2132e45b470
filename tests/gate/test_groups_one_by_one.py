"""Groups are judged one by one: a group with enough images fails a check, whatever is missing elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from people_repository import Group, People, check_of, people_repository

from fairgate.records import CheckResult, Verdict
from fairgate.reports.results import contradictions
from fairgate.suites.suite_diff import stricter

TINY: Group = ("other", "Male")
SIZES = {
    ("Black", "Female"): 36,
    ("Black", "Male"): 60,
    ("White", "Female"): 200,
    ("White", "Male"): 200,
    ("other", "Female"): 40,
    TINY: 5,
}
ACCURACY = "  - {id: accuracy, probe: gender, metric: accuracy, over: [race, gender], at_least: 0.75}\n"
BAD = {("Black", "Female"): 0.55, ("Black", "Male"): 0.55}


@pytest.fixture
def people(tmp_path: Path) -> People:
    """Groups of 36, 40, 60, 200 and 200 images, and one of five."""
    return people_repository(tmp_path, SIZES)


def verdicts(check: CheckResult) -> dict[str, Verdict | None]:
    return {group.group: group.verdict for group in check.groups}


def test_two_groups_that_clearly_fail_are_not_hidden_by_one_of_five_images(people: People) -> None:
    people.write_suite(ACCURACY)
    people.scores("now", BAD)
    told = check_of(people.run("now", on_inconclusive="warn"), "accuracy")
    assert told.verdict == "fail"
    assert verdicts(told) == {
        "Black × Female": "fail",
        "Black × Male": "fail",
        "White × Female": "pass",
        "White × Male": "pass",
        "other × Female": "pass",
        "other × Male": "inconclusive",
    }
    assert [group.group for group in told.failing_groups] == ["Black × Female", "Black × Male"]
    assert "Black × Male" in told.reason
    assert "Black × Female" in told.reason
    assert "other × Male is in only 5 images" in told.reason
    assert "(groups.min_sets)" in told.reason
    assert (told.min_sets, told.worst_group) == (30, "Black × Male")
    assert told.value == pytest.approx(0.55, abs=0.01)


def test_the_pictures_of_a_failed_bound_are_of_the_group_that_failed(people: People) -> None:
    people.write_suite(ACCURACY)
    people.scores("now", {("White", "Male"): 0.9, ("Black", "Male"): 0.5})
    told = check_of(people.run("now", on_inconclusive="warn"), "accuracy")
    assert [group.group for group in told.failing_groups] == ["Black × Male"]
    shown = [member.group for worst in told.worst_sets for member in worst.members]
    assert shown == ["Black × Male"] * 6


def test_a_tiny_group_alone_decides_nothing_and_is_named(people: People) -> None:
    people.write_suite(ACCURACY)
    people.scores("now", {TINY: 0.0})
    told = check_of(people.run("now"), "accuracy")
    assert told.verdict == "inconclusive"
    assert told.value == 1.0  # of the groups that are large enough
    assert verdicts(told)["other × Male"] == "inconclusive"
    assert "other × Male is in only 5 images" in told.reason
    assert "other × Male" in [group.group for group in told.small_groups]


def test_where_every_group_is_too_small_nothing_is_judged(people: People) -> None:
    people.write_suite(ACCURACY, _with_min_sets(201))
    people.scores("now", {("Black", "Female"): 0.0})
    told = check_of(people.run("now"), "accuracy")
    assert told.verdict == "inconclusive"
    assert set(verdicts(told).values()) == {"inconclusive"}


def test_every_group_large_enough_and_good_is_a_pass(people: People) -> None:
    people.write_suite(ACCURACY.replace("[race, gender]", "gender"))
    people.scores("now", {TINY: 0.0})
    told = check_of(people.run("now"), "accuracy")
    assert told.verdict == "pass"
    assert verdicts(told) == {"Female": "pass", "Male": "pass"}


def test_an_interval_beyond_the_bound_is_not_hidden_either(people: People) -> None:
    people.write_suite(ACCURACY.replace("at_least: 0.75", "at_least: 0.75, decide: interval"))
    people.scores("now", {("Black", "Male"): 0.3, ("Black", "Female"): 0.7, TINY: 0.0})
    told = check_of(people.run("now"), "accuracy")
    assert told.verdict == "fail"
    assert verdicts(told)["Black × Male"] == "fail"
    assert verdicts(told)["Black × Female"] == "inconclusive"
    people.scores("better", {("Black", "Female"): 0.7, TINY: 0.0})
    better = check_of(people.run("better"), "accuracy")
    assert better.verdict == "inconclusive"
    assert better.failing_groups == []


def test_several_attributes_are_judged_group_by_group(people: People) -> None:
    people.write_suite(ACCURACY.replace("[race, gender]", "each"), _with_min_sets(50))
    people.scores("now", BAD | {TINY: 0.0})
    told = check_of(people.run("now"), "accuracy")
    assert told.verdict == "fail"
    assert [(group.attribute, group.group) for group in told.failing_groups] == [("race", "Black")]
    assert [(group.attribute, group.group) for group in told.groups][-2:] == [("gender", "Female"), ("gender", "Male")]
    assert [group.group for group in told.small_groups] == ["other"]


@pytest.mark.parametrize("metric", ["p_true", "group_gap"])
def test_every_metric_of_means_is_judged_so(people: People, metric: str) -> None:
    bound = {"p_true": 0.65, "group_gap": -0.05}[metric]
    people.write_suite(f"  - {{id: means, probe: gender, metric: {metric}, over: [race, gender], at_least: {bound}}}\n")
    people.scores("now", BAD | {TINY: 0.0})
    told = check_of(people.run("now"), "means")
    assert told.verdict == "fail"
    assert {group.group for group in told.failing_groups} == {"Black × Female", "Black × Male"}


def test_the_gap_of_single_images_is_not_moved_by_a_tiny_group(people: People) -> None:
    people.write_suite("  - {id: gap, probe: gender, metric: group_gap, over: [race, gender], at_least: -0.2}\n")
    people.scores("good", {})
    people.scores("poor", {TINY: 0.0})
    good, poor = (check_of(people.run(name), "gap") for name in ("good", "poor"))
    values = [{one.group: one.value for one in told.groups if one.n_images >= 30} for told in (good, poor)]
    assert values[0] == pytest.approx(values[1])


SKEW = "  - {id: skew, probe: search, metric: max_skew_at_k, k: 100, over: [race, gender], at_most: 0.3}\n"


def test_a_tiny_groups_own_skew_does_not_decide_and_another_groups_does(people: People) -> None:
    people.write_suite(SKEW)
    people.scores("tiny", {}, liked={TINY: 9.0})
    told = check_of(people.run("tiny"), "skew")
    assert told.verdict == "inconclusive"
    values = {group.group: group.value for group in told.groups if group.n_images}
    assert values["other × Male"] is not None
    assert values["other × Male"] > 0.3
    assert told.value == max(value for name, value in values.items() if name != "other × Male" and value is not None)
    people.scores("biased", {}, liked={TINY: 9.0, ("Black", "Male"): 2.0})
    biased = check_of(people.run("biased"), "skew")
    assert biased.verdict == "fail"
    assert [group.group for group in biased.failing_groups] == ["Black × Male"]


def test_min_skew_of_a_tiny_group_that_is_not_shown_does_not_decide(people: People) -> None:
    people.write_suite(SKEW.replace("max_skew", "min_skew").replace("at_most: 0.3", "at_least: -1"))
    people.scores("absent", {}, liked={TINY: -9.0})
    told = check_of(people.run("absent"), "skew")
    assert told.verdict == "inconclusive"
    assert told.status == "ok"
    people.scores("biased", {}, liked={TINY: -9.0, ("Black", "Male"): -9.0})
    assert check_of(people.run("biased"), "skew").verdict == "fail"


@pytest.mark.parametrize(
    ("metric", "bound"), [("ndkl_at_k", "at_most: 0.5"), ("normalized_entropy_at_k", "at_least: 0.5")]
)
def test_a_divergence_is_one_number_that_a_tiny_group_leaves_undecided(people: People, metric: str, bound: str) -> None:
    people.write_suite(
        f"  - {{id: crossed, probe: search, metric: {metric}, k: 100, over: [race, gender], {bound}}}\n"
        f"  - {{id: gender, probe: search, metric: {metric}, k: 100, over: gender, {bound}}}\n"
        f"  - {{id: each, probe: search, metric: {metric}, k: 100, over: each, {bound}}}\n",
        _with_min_sets(50),
    )
    skewed = {("Black", "Male"): 3.0, ("White", "Male"): 3.0}
    people.scores("biased", {}, liked=skewed)
    record = people.run("biased")
    crossed, gender, each = (check_of(record, name) for name in ("crossed", "gender", "each"))
    assert crossed.verdict == "inconclusive"
    assert gender.verdict == "fail"
    assert each.verdict == "fail"  # by gender, whose groups are all large enough; race has a tiny group
    assert each.value == gender.value
    people.scores("fair", {})
    assert check_of(people.run("fair"), "each").verdict == "inconclusive"
    assert check_of(people.run("fair"), "gender").verdict == "pass"


def test_bias_between_two_groups_needs_both(people: People) -> None:
    bias = "  - {{id: {0}, probe: search, metric: bias_at_k, k: 100, over: {0}, at_most: 0.3{1}}}\n"
    race = bias.format("race", ", first: White, second: other").replace("0.3", "0.95")
    people.write_suite(bias.format("gender", "") + race, _with_min_sets(50))
    people.scores("biased", {}, liked={group: 3.0 for group in SIZES if group[1] == "Male"})
    record = people.run("biased")
    assert check_of(record, "gender").verdict == "fail"
    assert [group.group for group in check_of(record, "gender").failing_groups] == ["Male"]
    told = check_of(record, "race")
    assert told.verdict == "inconclusive"
    assert verdicts(told) == {"White": "inconclusive", "other": "inconclusive"}
    assert [group.group for group in told.small_groups] == ["other"]


def test_c_asc_is_judged_group_by_group_by_its_size(people: People) -> None:
    people.write_suite("  - {id: asc, probe: search, metric: c_asc, over: [race, gender], at_most: 0.6}\n")
    people.scores("tiny", {}, liked={TINY: 9.0})
    assert check_of(people.run("tiny"), "asc").verdict == "inconclusive"
    people.scores("biased", {}, liked={("Black", "Female"): -2.0, ("Black", "Male"): 2.0, TINY: 9.0})
    told = check_of(people.run("biased"), "asc")
    assert told.verdict == "fail"
    assert {group.group for group in told.failing_groups} == {"Black × Female", "Black × Male"}


@pytest.mark.parametrize("metric", ["max_skew_at_k", "min_skew_at_k", "bias_at_k", "ndkl_at_k", "c_asc"])
def test_records_of_such_runs_agree_with_themselves(people: People, metric: str) -> None:
    k = "" if metric == "c_asc" else "k: 100, "
    bound = "at_least: -9" if metric == "min_skew_at_k" else "at_most: 0.9"
    over = "gender" if metric == "bias_at_k" else "each"
    people.write_suite(f"{ACCURACY}  - {{id: ranks, probe: search, metric: {metric}, {k}over: {over}, {bound}}}\n")
    people.scores("now", BAD)
    assert list(contradictions(people.run("now"))) == []


def _with_min_sets(number: int) -> str:
    from people_repository import SUITE

    return SUITE.replace("min_sets: 30", f"min_sets: {number}")


def test_subjects_with_few_sets_are_not_judged_and_say_so(tmp_path: Path) -> None:
    from toy_repository import SUITE as JOBS
    from toy_repository import toy_repository

    from fairgate import gate
    from fairgate.suites import resolve

    toy = toy_repository(tmp_path, sets=12)
    toy.write_suite(JOBS.replace("k: 60", "k: 12").replace("at_most: 0.45", "at_most: 0.9"))
    prepared = gate.prepare("jobs", toy.root)
    settings = resolve(prepared.loaded.suite, {"mlflow": "off", "cache": "off"}, environment={})
    record = gate.evaluate(prepared, settings, command="pytest").record
    few = [check for check in record.checks if check.subject is not None]
    assert {check.verdict for check in few} == {"inconclusive"}
    assert {check.min_sets for check in few} == {30}
    assert all("only 12 sets; the suite judges from 30" in check.reason for check in few)


def test_a_larger_min_sets_of_a_change_hides_no_failing_group(people: People) -> None:
    people.scores("now", BAD)
    people.write_suite(ACCURACY)
    before = people.run("now").checks
    people.write_suite(ACCURACY, _with_min_sets(50))
    here = people.run("now").checks
    assert [group.group for group in here[1].failing_groups] == ["Black × Male"]
    _, told = stricter([("this change", here), ("merge base", before)])
    assert told.decided_by == "merge base"
    assert [group.group for group in told.failing_groups] == ["Black × Female", "Black × Male"]
    _, other = stricter([("this change", before), ("merge base", here)])
    assert [group.group for group in other.failing_groups] == ["Black × Female", "Black × Male"]


def test_a_row_compares_one_group_with_itself_and_counts_its_images(people: People) -> None:
    """Black women are the worst now and were not before: their own number is next to it, not that of who was."""
    as_before = "  - {id: as-before, probe: gender, metric: accuracy, no_worse_than: baseline, margin: 0.5}\n"
    people.write_suite(ACCURACY + as_before)
    people.scores("then", {("White", "Male"): 0.6})
    people.scores("now", {("Black", "Female"): 0.55})
    told = check_of(people.run("now", baseline="then"), "accuracy")
    assert told.worst_group == "Black × Female"
    own = next(group for group in told.groups if group.group == told.worst_group)
    assert (told.value, told.baseline) == (own.value, own.baseline)
    assert told.delta == pytest.approx((own.value or 0.0) - (own.baseline or 0.0))
    assert min(group.baseline or 0.0 for group in told.groups) < (told.baseline or 0.0)
    assert (told.units, told.n_sets) == (36, sum(SIZES.values()))
