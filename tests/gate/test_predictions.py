"""Labels that a classifier gave, from a table: accuracy, F1 and balanced accuracy by group, and their regressions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported_photographs import import_images

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.ground.errors import SuiteError
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

SUITE = """\
schema: 1
suite: readers
dataset: faces
probes:
  gender: {kind: prediction, attribute: gender, words: {male: Man, female: Woman}}
groups: {min_sets: 20}
decision: {draws: 500}
checks:
  - {id: right, probe: gender, metric: accuracy, at_least: 0.7}
  - {id: by-race, probe: gender, metric: accuracy, over: race, no_worse_than: baseline, margin: 0.03}
  - {id: f1-women, probe: gender, metric: f1, label: Woman, over: race, at_least: 0.7}
  - {id: balanced, probe: gender, metric: balanced_accuracy, over: race, no_worse_than: baseline, margin: 0.03}
"""
RACES = ("north", "south")
Wrong = Callable[[str, str, int], bool]


def faces() -> list[tuple[str, str, int]]:
    return [(race, gender, number) for race in RACES for gender in ("male", "female") for number in range(150)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """600 labelled images, no files, and what a model called `base` says of each: one in ten is wrong."""
    lines = [f"{race}/{gender}/{number}.jpg,{gender},{race}" for race, gender, number in faces()]
    (tmp_path / "labels.csv").write_text("\n".join(["file,gender,race", *lines]), encoding="utf-8")
    attributes = {"gender": ["male", "female"], "race": list(RACES)}
    import_images(
        tmp_path / "labels.csv", None, "faces", attributes=attributes, subject="face", root=tmp_path / "datasets"
    )
    (tmp_path / "fairness_suites").mkdir()
    suite(tmp_path, SUITE)
    table(tmp_path, "base", lambda _race, _gender, number: number % 10 == 0)
    return tmp_path


def suite(root: Path, text: str) -> None:
    (root / "fairness_suites" / "readers.yaml").write_text(text, encoding="utf-8")


def table(root: Path, name: str, wrong: Wrong, called: tuple[str, str] = ("MAN", "woman")) -> None:
    """Labels of every face, with other capitals than the suite has them."""
    rows = ["file,gender,gender_confidence"]
    for race, gender, number in faces():
        woman = (gender == "female") != wrong(race, gender, number)
        rows.append(f"{race}/{gender}/{number}.jpg,{called[woman]},0.9")
    (root / f"{name}.csv").write_text("\n".join(rows), encoding="utf-8")


def run(root: Path, model: str, baseline: str | None = "base") -> RunRecord:
    prepared = gate.prepare("readers", root)
    named = f"model:labels:{baseline}.csv" if baseline else "none"
    typed: dict[str, Any] = {"model": f"labels:{model}.csv", "baseline": named, "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, {**typed, "report": str(root / "out")}, environment={})
    return gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings).record


def checks(record: RunRecord) -> dict[str, CheckResult]:
    return {one.id: one for one in record.checks}


def test_a_group_whose_labels_got_worse_is_found_and_named(repository: Path) -> None:
    """Women of the south: one in four more is taken for a man. Elsewhere as many are wrong as before."""
    table(
        repository,
        "worse",
        lambda race, gender, number: number % 10 == 1 or (gender, race, number % 4) == ("female", "south", 2),
    )
    found = checks(run(repository, "worse"))
    assert {name: one.verdict for name, one in found.items()} == {
        "right": "pass",
        "by-race": "fail",
        "f1-women": "pass",
        "balanced": "fail",
    }
    assert [group.group for group in found["by-race"].failing_groups] == ["south"]
    assert found["balanced"].worst_group == "south"
    groups = {group.group: group.value for group in found["by-race"].groups}
    assert groups["north"] == pytest.approx(0.9)
    wrong = sum(n % 10 == 1 or n % 4 == 2 for n in range(150)) + 15
    assert groups["south"] == pytest.approx(1 - wrong / 300)
    recall = 1 - sum(n % 10 == 1 or n % 4 == 2 for n in range(150)) / 150
    assert {g.group: g.value for g in found["balanced"].groups}["south"] == pytest.approx((recall + 0.9) / 2)
    hits = recall * 150
    assert {g.group: g.value for g in found["f1-women"].groups}["south"] == pytest.approx(2 * hits / (hits + 15 + 150))


def test_a_word_of_the_suite_that_is_mistyped_is_not_offered_for_the_models_own(repository: Path) -> None:
    suite(repository, SUITE.replace("female: Woman", "female: Womann").replace("label: Woman", "label: Womann"))
    reason = checks(run(repository, "base", baseline=None))["right"].reason
    assert "write 'woman' instead of 'Womann' in the suite" in reason
    assert "did you mean" not in reason


def test_a_row_of_a_table_of_labels_that_is_listed_again_counts_once(repository: Path) -> None:
    path = repository / "base.csv"
    once = checks(run(repository, "base", baseline=None))
    rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*rows, *rows[1:11], rows[1]]), encoding="utf-8")
    record = run(repository, "base", baseline=None)
    again = checks(record)
    assert [(check.value, check.lo) for check in again.values()] == [(check.value, check.lo) for check in once.values()]
    assert again["right"].repeats == 11
    assert "'gender': 11 rows of its table repeat another one and count once" in record.warnings
    path.write_text("\n".join([*rows, rows[1].replace("0.9", "0.8")]), encoding="utf-8")
    assert {check.verdict for check in run(repository, "base", baseline=None).checks} == {"error"}


def test_other_errors_at_the_same_rate_pass(repository: Path) -> None:
    table(repository, "same", lambda _race, _gender, number: number == 1 or (number % 10 == 0 and number > 0))
    assert {one.verdict for one in checks(run(repository, "same")).values()} == {"pass"}


def test_values_and_labels_come_back_from_saved_scores(repository: Path) -> None:
    table(repository, "worse", lambda _race, _gender, number: number % 3 == 0)
    first = run(repository, "worse", baseline=None)
    kept = (repository / "out").rename(repository / "kept")
    prepared = gate.prepare("readers", repository)
    typed = {"model": "labels:base.csv", "baseline": f"file:{kept}", "mlflow": "off", "cache": "off"}
    settings = resolve(prepared.loaded.suite, typed, environment={})
    found = checks(gate.evaluate(prepared, settings, command="pytest").record)
    assert first.verdict == "fail"
    assert found["balanced"].baseline == pytest.approx(2 / 3)
    assert found["by-race"].verdict == "pass"


def test_labels_of_another_language_are_an_error_that_says_how_to_name_them(repository: Path) -> None:
    table(repository, "foreign", lambda *_: False, called=("Mann", "Frau"))
    record = run(repository, "foreign")
    assert record.verdict == "error"
    assert "'Frau', 'Mann'" in record.checks[0].reason
    assert "`words`" in record.checks[0].reason


def test_a_label_is_looked_for_by_the_datasets_word_or_by_the_models(repository: Path) -> None:
    again = "  - {{id: {}, probe: gender, metric: f1, label: {}, over: race, at_least: 0.7}}\n"
    suite(repository, SUITE + again.format("own", "female") + again.format("capitals", "WOMAN"))
    found = checks(run(repository, "base", baseline=None))
    values = {id_: (found[id_].value, found[id_].verdict) for id_ in ("f1-women", "own", "capitals")}
    assert len(set(values.values())) == 1, values
    assert found["own"].verdict == "pass"


def test_a_label_that_no_image_has_is_an_error(repository: Path) -> None:
    suite(repository, SUITE.replace("label: Woman", "label: Women"))
    found = checks(run(repository, "base", baseline=None))["f1-women"]
    assert found.verdict == "error"
    assert "did you mean 'Woman'?" in found.reason


WHOLE = """\
  - {id: f1, probe: gender, metric: f1, no_worse_than: baseline, margin: 0.1}
  - {id: women, probe: gender, metric: balanced_accuracy, label: Woman, at_least: 0.6}
  - {id: women-by-race, probe: gender, metric: balanced_accuracy, label: Woman, over: race, at_least: 0.6}
"""


def test_numbers_of_everybody_and_of_one_label_are_those_of_the_counts(repository: Path) -> None:
    """One in five women and one in ten men are wrong."""
    suite(repository, SUITE + WHOLE)
    table(repository, "mine", lambda _race, gender, number: number % (5 if gender == "female" else 10) == 0)
    found = checks(run(repository, "mine"))
    women, men = 0.8, 0.9
    f1 = [2 * women / (women + 1 - men + 1), 2 * men / (men + 1 - women + 1)]
    assert found["f1"].value == pytest.approx(np.mean(f1))
    assert found["women"].value == pytest.approx((women + men) / 2)
    assert found["women-by-race"].value == pytest.approx((women + men) / 2)


@pytest.mark.parametrize("over", ["gender", "crossed", "each"])
@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
def test_groups_of_what_is_predicted_are_refused_where_labels_are_averaged(
    repository: Path, metric: str, over: str
) -> None:
    """Inside a group of women every image has one label: one error in 200 makes F1 0.499."""
    suite(repository, SUITE + f"  - {{id: own, probe: gender, metric: {metric}, over: {over}, at_least: 0.6}}\n")
    with pytest.raises(SuiteError, match="over gender, which the probe 'gender' predicts") as caught:
        gate.prepare("readers", repository)
    assert "`metric: accuracy` over gender" in str(caught.value.remedy)


def test_subjects_of_one_label_each_are_an_error_where_labels_are_averaged(repository: Path) -> None:
    rows = [
        {"set_id": f"{at}", "member": "one", "subject": ("chef", "cook")[at % 2], "race": RACES[at // 2 % 2]}
        for at in range(200)
    ]
    options = {"name": "faces", "version": "v2", "attributes": {"race": list(RACES)}, "recipe": {"name": "x"}}
    write_dataset(repository / "datasets/faces/v2", rows, licence="CC0-1.0", counterfactual=False, **options)
    text = SUITE.partition("  - {id: by-race")[0].replace(
        "attribute: gender, words: {male: Man, female: Woman}", "attribute: subject"
    )
    suite(repository, text + "  - {id: each, probe: gender, metric: f1, by: subject, at_least: 0.4}\n")
    lines = [f"{row['set_id']},one,{'cook' if row['set_id'] == '0' else row['subject']}" for row in rows]
    (repository / "base.csv").write_text("\n".join(["set_id,member,subject", *lines]), encoding="utf-8")
    found = {one.item: one for one in run(repository, "base", baseline=None).checks}
    assert found["right"].value == pytest.approx(199 / 200)
    assert {found["each[chef]"].verdict, found["each[cook]"].verdict} == {"error"}
    assert "all images of 'chef' have one label" in found["each[chef]"].reason


RARE = """\
  - {id: all, probe: gender, metric: f1, over: race, at_least: 0.9}
  - {id: mean, probe: gender, metric: balanced_accuracy, at_least: 0.9}
  - {id: women, probe: gender, metric: f1, label: Woman, at_least: 0.9}
  - {id: both, probe: gender, metric: balanced_accuracy, label: Man, at_least: 0.9, decide: interval}
  - {id: fallen, probe: gender, metric: f1, label: Woman, no_worse_than: baseline, margin: 0.1}
"""


def with_women(root: Path, north: int, south: int, min_sets: int) -> dict[str, CheckResult]:
    """Checks of 200 men and so many women in the north and the south. The baseline is right about all, and the
    candidate takes the first woman of either for a man."""
    counts = {("north", "male"): 200, ("north", "female"): north, ("south", "male"): 200, ("south", "female"): south}
    people = [(race, gender, number) for (race, gender), many in counts.items() for number in range(many)]
    rows = [
        {"set_id": f"{race}-{gender}-{number}", "member": "one", "subject": "face", "race": race, "gender": gender}
        for race, gender, number in people
    ]
    attributes = {"gender": ["male", "female"], "race": list(RACES)}
    options = {"name": "faces", "version": "v2", "attributes": attributes, "recipe": {"name": "x"}}
    write_dataset(root / "datasets/faces/v2", rows, licence="CC0-1.0", counterfactual=False, **options)
    suite(root, SUITE.partition("  - {id: by-race")[0].replace("min_sets: 20", f"min_sets: {min_sets}") + RARE)
    for name, lost in (("base", -1), ("candidate", 0)):
        called = ["man" if gender == "male" or number == lost else "woman" for _, gender, number in people]
        lines = [f"{row['set_id']},one,{word}" for row, word in zip(rows, called, strict=True)]
        (root / f"{name}.csv").write_text("\n".join(["set_id,member,gender", *lines]), encoding="utf-8")
    return checks(run(root, "candidate"))


def test_a_group_is_judged_by_the_images_of_its_rarest_label(repository: Path) -> None:
    """One woman of the south, who is taken for a man, made 201 right answers of 202 an F1 of 0.50 that failed."""
    found = with_women(repository, north=100, south=1, min_sets=20)
    assert found["all"].verdict == "inconclusive"
    assert "south is in only 1 image of the rarest label; the suite judges from 20" in found["all"].reason
    assert [(group.group, group.verdict, group.n_sets) for group in found["all"].groups] == [
        ("north", "pass", 100),
        ("south", "inconclusive", 1),
    ]
    assert found["mean"].verdict == "pass"
    assert (found["mean"].n_sets, found["right"].n_sets) == (101, 501)


def test_a_label_of_few_images_is_not_judged_without_groups_either(repository: Path) -> None:
    found = with_women(repository, north=3, south=3, min_sets=20)
    assert {found[name].verdict for name in ("mean", "women", "both", "fallen")} == {"inconclusive"}
    assert "only 6 images of 'Woman', of 406; the suite judges from 20" in found["women"].reason
    assert "only 6 images of 'Man', or of others, of 406" in found["both"].reason
    assert "only 6 images of the rarest label, of 406" in found["mean"].reason


def test_a_regression_of_a_label_that_resamples_lack_is_inconclusive_and_no_error(repository: Path) -> None:
    """A resample of 406 images has none of three women 5 times in 100."""
    found = with_women(repository, north=2, south=1, min_sets=2)
    assert found["fallen"].verdict == "inconclusive"
    assert found["fallen"].delta == pytest.approx(2 * 1 / (1 + 3) - 1)


def test_limits_of_a_number_stay_where_it_can_be(repository: Path) -> None:
    """Of a worst group with one error in 300 they reached over 1."""
    table(repository, "good", lambda _race, _gender, number: number == 0)
    found = checks(run(repository, "good", baseline=None))["f1-women"]
    assert found.lo is not None
    assert found.hi is not None
    assert 0.95 < found.lo < found.value < found.hi <= 1  # type: ignore[operator]


def test_chance_is_one_of_as_many_labels_as_the_dataset_has(repository: Path) -> None:
    """Of three called by two names it is one in two, of three by their own one in three."""
    ages = ("old", "mid", "young")
    rows = [
        {"set_id": f"{at}", "member": "one", "subject": "face", "race": RACES[at % 2], "age": ages[at % 3]}
        for at in range(300)
    ]
    attributes = {"age": list(ages), "race": list(RACES)}
    options = {"name": "faces", "version": "v2", "attributes": attributes, "recipe": {"name": "x"}}
    write_dataset(repository / "datasets/faces/v2", rows, licence="CC0-1.0", counterfactual=False, **options)
    text = SUITE.partition("  - {id: right")[0].replace("attribute: gender, words: {male: Man, female: Woman}", "{}")
    text += "  - {id: right, probe: gender, metric: accuracy, at_least: 0.4}\n"
    text += "  - {id: f1, probe: gender, metric: f1, over: race, at_least: 0.3}\n"
    suite(repository, text.replace("{}", "attribute: age"))
    assert gate.prepare("readers", repository).planned
    suite(repository, text.replace("{}", "attribute: age, words: {mid: old}"))
    with pytest.raises(SuiteError, match=r"at least 0\.4 is no more than chance, 0\.5"):
        gate.prepare("readers", repository)


def test_an_image_without_a_label_is_wrong(repository: Path) -> None:
    table(repository, "silent", lambda _race, _gender, number: number % 2 == 1, called=("Man", ""))
    found = checks(run(repository, "silent", baseline=None))
    assert found["right"].value == pytest.approx(np.mean([n % 2 == 0 for n in range(150)]) / 2)


def test_an_attribute_that_the_dataset_does_not_record_is_refused(repository: Path) -> None:
    suite(repository, SUITE.replace("attribute: gender", "attribute: gendre"))
    with pytest.raises(SuiteError, match="did you mean 'gender'"):
        gate.prepare("readers", repository)


def test_a_table_without_the_attribute_is_an_error_that_names_the_nearest_column(repository: Path) -> None:
    path = repository / "base.csv"
    path.write_text(
        path.read_text(encoding="utf-8").replace("gender,gender_confidence", "Gender,sure"), encoding="utf-8"
    )
    record = run(repository, "base", baseline=None)
    assert record.verdict == "error"
    assert "no column of labels for 'gender'" in record.checks[0].reason


def test_a_classifier_that_calls_everybody_by_the_commonest_label_is_of_no_use(tmp_path: Path) -> None:
    rows = [f"{at}.jpg,{'female' if at % 10 == 0 else 'male'},{RACES[at % 2]}" for at in range(300)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,gender,race", *rows]), encoding="utf-8")
    attributes = {"gender": ["male", "female"], "race": list(RACES)}
    data = tmp_path / "datasets"
    import_images(tmp_path / "labels.csv", None, "faces", attributes=attributes, subject="face", root=data)
    (tmp_path / "fairness_suites").mkdir()
    bounds = "".join(line for line in SUITE.splitlines(keepends=True) if "no_worse_than" not in line)
    suite(tmp_path, bounds)
    with pytest.raises(SuiteError, match=r"at least 0\.7 is no more than chance, 0\.9"):
        gate.prepare("readers", tmp_path)
    suite(tmp_path, bounds.replace("metric: accuracy, at_least: 0.7", "metric: balanced_accuracy, at_least: 0.7"))
    gate.prepare("readers", tmp_path)  # the mean over labels is 0.5 for such a classifier
