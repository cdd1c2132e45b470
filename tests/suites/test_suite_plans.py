"""A suite meets its dataset: every check on every subject, or a reason why not."""

from __future__ import annotations

import pytest
from toy_repository import SUITE, Toy, rows

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.errors import DatasetError, SuiteError


def test_checks_by_subject_become_one_item_per_subject_in_order(toy: Toy) -> None:
    items = [one.item for one in gate.prepare("jobs", toy.root).planned]
    assert items == [
        "fairness",
        "fairness-by-job[chef]",
        "fairness-by-job[doctor]",
        "skew[chef]",
        "skew[doctor]",
        "no-regression",
        "gaps[chef]",
        "gaps[doctor]",
        "useful",
        "finds",
    ]


def test_each_and_crossed_follow_what_the_dataset_records(toy: Toy) -> None:
    planned = {one.item: one for one in gate.prepare("jobs", toy.root).planned}
    assert planned["skew[chef]"].groupings == (("skin_tone",), ("gender",))
    assert planned["gaps[chef]"].groupings == (("skin_tone", "gender"),)
    assert planned["gaps[chef]"].over == "skin_tone × gender"


def test_groups_attributes_narrow_what_each_means(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("decision:", "groups: {attributes: [gender]}\ndecision:"))
    planned = {one.item: one for one in gate.prepare("jobs", toy.root).planned}
    assert planned["skew[chef]"].groupings == planned["gaps[chef]"].groupings == (("gender",),)


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ("over: crossed", "over: gendre", "groups by 'gendre'", "did you mean 'gender'? recorded attributes"),
        ("over: crossed", "over: [gender, gender]", "names an attribute twice", "name each once"),
        ("decision:", "groups: {attributes: [race]}\ndecision:", "looks at 'race'", "recorded attributes"),
        ("doctor: [doctor, nurse]", "docter: [doctor, nurse]", "has labels for", "did you mean 'doctor'"),
        ("doctor: [doctor, nurse]", "doctor: [physician, nurse]", "never be right for 'doctor'", "`words`"),
        ("labels: {chef", "truth: race\n    labels: {chef", "takes as truth 'race'", "recorded attributes"),
        ("k: 60", "k: 161", "which has 160 images", "below 160"),
        ("at_most: 0.45", "at_most: 0.01", "perfectly fair ranker", "raise the bound"),
    ],
)
def test_what_does_not_fit_the_dataset_is_refused(toy: Toy, old: str, new: str, problem: str, remedy: str) -> None:
    assert old in SUITE
    toy.write_suite(SUITE.replace(old, new))
    with pytest.raises(SuiteError) as caught:
        gate.prepare("jobs", toy.root)
    assert problem in caught.value.problem
    assert remedy in str(caught.value.remedy)
    assert "fairness_suites/jobs.yaml:" in str(caught.value.where)


def test_words_say_how_a_truth_is_written(toy: Toy) -> None:
    text = SUITE.replace("doctor: [doctor, nurse]}", "doctor: [physician, nurse]}\n    words: {doctor: physician}")
    toy.write_suite(text)
    assert gate.prepare("jobs", toy.root).planned


def test_a_missing_dataset_says_how_to_get_it(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("dataset: toy", "dataset: occupations"))
    with pytest.raises(DatasetError, match="dvc pull"):
        gate.prepare("jobs", toy.root)


def test_set_metrics_are_refused_on_photographs_that_are_no_sets(toy: Toy) -> None:
    singles = [{**row, "set_id": f"{row['set_id']}-{row['member']}", "member": "only"} for row in rows(30)]
    write_dataset(
        toy.root / "datasets" / "photos" / "v1",
        singles,
        name="photos",
        version="v1",
        attributes={"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "import"},
        licence="unknown",
        counterfactual=False,
    )
    toy.write_suite(SUITE.replace("dataset: toy", "dataset: photos"))
    with pytest.raises(SuiteError, match="one image per set") as caught:
        gate.prepare("jobs", toy.root)
    assert "metric: accuracy" in str(caught.value.remedy)


def test_a_group_that_no_image_shows_is_refused_before_anything_is_scored(toy: Toy) -> None:
    seen = [row for row in rows(30) if (row["skin_tone"], row["gender"]) != ("dark", "female")]
    write_dataset(
        toy.root / "datasets" / "gap" / "v1",
        seen,
        name="gap",
        version="v1",
        attributes={"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "import"},
        licence="unknown",
        counterfactual=True,
    )
    toy.write_suite(SUITE.replace("dataset: toy", "dataset: gap"))
    with pytest.raises(SuiteError, match="no image shows dark × female") as caught:
        gate.prepare("jobs", toy.root)
    assert "cross fewer attributes" in str(caught.value.remedy)
