"""A suite meets its dataset: every check on every subject, or a reason why not."""

from __future__ import annotations

import pytest
from toy_repository import SUITE, Toy, rows

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.ground.errors import DatasetError, SuiteError


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
        ("doctor: [doctor, nurse]", "doctor: [docter, nurse]", "true label 'doctor'", "'doctor' instead of 'docter'"),
        ("labels: {chef", "truth: race\n    labels: {chef", "takes as truth 'race'", "recorded attributes"),
        (
            "doctor: [doctor, nurse]}",
            "doctor: [doctor, nurse]}\n    words: {docter: physician}",
            "`words` of probe 'labels' has 'docter'",
            "did you mean 'doctor'? it is one of: chef, doctor; or leave it out",
        ),
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
    with pytest.raises(DatasetError, match="fairgate dataset import"):
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
    with pytest.raises(SuiteError, match="inside counterfactual sets, and dataset 'photos' has none") as caught:
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


def with_check(toy: Toy, check: str) -> None:
    toy.write_suite(SUITE + f"  - {{id: more, {check}}}\n")


@pytest.mark.parametrize(
    ("check", "problem", "remedy"),
    [
        ("metric: bias_at_k, k: 60, over: crossed, at_most: 0.9", "has 4", "first: light × male, second: light × fem"),
        (
            "metric: bias_at_k, k: 60, over: gender, first: male, second: femal, at_most: 0.9",
            "compares the group 'femal', which gender does not have",
            "did you mean 'female'? groups: male, female",
        ),
        ("metric: bias_at_k, k: 60, over: gender, first: male, at_most: 0.9", "does not name two", "`second`"),
        ("metric: bias_at_k, k: 60, over: gender, first: male, second: male, at_most: 1", "not name two", "`second`"),
        ("metric: bias_at_k, k: 60, over: each, first: male, second: female, at_most: 1", "over `each`", "attribute"),
        ("metric: max_skew_at_k, k: 60, over: gender, first: male, at_most: 1", "does not use", "remove `first`"),
        ("metric: max_skew_at_k, k: 60, over: gender, by: word, at_most: 1", "no words", "association probe"),
        ("metric: c_asc, k: 60, over: gender, at_most: 1", "has a `k`", "for rankings"),
        ("metric: c_asc, over: gender, at_least: 1", "of which lower is better", "at_most: 1"),
        ("metric: c_asc, at_most: 1", "over no attribute", "over: each"),
    ],
)
def test_new_rank_metrics_are_refused_where_they_make_no_sense(toy: Toy, check: str, problem: str, remedy: str) -> None:
    with_check(toy, f"probe: search, {check}")
    with pytest.raises(SuiteError) as caught:
        gate.prepare("jobs", toy.root)
    assert problem in caught.value.problem
    assert remedy in str(caught.value.remedy)
    assert "fairness_suites/jobs.yaml:" in str(caught.value.where)


@pytest.mark.parametrize(
    ("probe", "problem"),
    [
        ("{kind: association, template: a photo, words: [a]}", "never uses"),
        ('{kind: association, template: "{word} {label}", words: [a]}', "unknown placeholder"),
        ('{kind: association, template: "{word}", words: [a, a]}', "words are given twice"),
        ('{kind: association, template: "{word}", words: []}', "at least 1 is expected"),
        ('{kind: association, template: "{word}", wrods: [a]}', "unknown key 'wrods'"),
        ('{kind: zero_shot_classification, template: "{label}", labels: [a, b], positive: c}', "not among the labels"),
        (
            '{kind: zero_shot_classification, template: "{label}", labels: [a, b], positive: a, truth: gender}',
            "takes the place of `truth`",
        ),
    ],
)
def test_probes_of_associations_are_read_strictly(toy: Toy, probe: str, problem: str) -> None:
    toy.write_suite(SUITE.replace("probes:", f"probes:\n  more: {probe}"))
    with pytest.raises(SuiteError, match=problem):
        gate.prepare("jobs", toy.root)


def test_accuracy_of_a_positive_label_is_refused(toy: Toy) -> None:
    pair = '{kind: zero_shot_classification, template: "{label}", labels: [chef, doctor], positive: chef}'
    text = SUITE.replace("probes:", f"probes:\n  pair: {pair}")
    for metric in ("accuracy", "p_true"):
        toy.write_suite(text + f"  - {{id: more, probe: pair, metric: {metric}, at_least: 0.9}}\n")
        with pytest.raises(SuiteError, match="where no image is right or wrong") as caught:
            gate.prepare("jobs", toy.root)
        assert "'chef' is a positive label" in str(caught.value.remedy)


def test_a_check_by_word_is_an_item_per_word(toy: Toy) -> None:
    words = '{kind: association, template: "a photo of a {word}", words: [nurse, line cook]}'
    text = SUITE.replace("probes:", f"probes:\n  words: {words}")
    toy.write_suite(
        text
        + "  - {id: asc, probe: words, metric: c_asc, by: word, over: each, at_most: 1}\n"
        + "  - {id: here, probe: words, metric: c_asc, by: subject, over: each, at_most: 1}\n"
    )
    planned = {one.item: one for one in gate.prepare("jobs", toy.root).planned}
    assert [item for item in planned if "asc" in item] == ["asc[nurse]", "asc[line cook]"]
    assert planned["asc[nurse]"].answers == ("words[nurse]",)
    assert planned["here[doctor]"].answers == ("words[nurse]", "words[line cook]")


def test_a_group_that_one_subject_lacks_is_refused_in_a_ranking_of_every_subject(toy: Toy) -> None:
    lacking = ("chef", "dark", "female")
    seen = [
        {**row, "set_id": f"{row['set_id']}-{row['member']}", "member": "only"}
        for row in rows(30)
        if (row["subject"], row["skin_tone"], row["gender"]) != lacking
    ]
    write_dataset(
        toy.root / "datasets" / "gap" / "v1",
        seen,
        name="gap",
        version="v1",
        attributes={"skin_tone": ["light", "dark"], "gender": ["male", "female"]},
        recipe={"name": "import"},
        licence="unknown",
        counterfactual=False,
    )
    text = SUITE.split("checks:")[0].replace("dataset: toy", "dataset: gap")
    skew = "checks:\n  - {id: skew, probe: search, metric: max_skew_at_k, k: 40, over: crossed, at_most: 2}\n"
    toy.write_suite(text + skew + SUITE.splitlines()[-1] + "\n")
    with pytest.raises(SuiteError, match="no image of 'chef' shows dark × female"):
        gate.prepare("jobs", toy.root)
