"""Photographs that are no counterfactual sets: images are compared; the group that settled it is named and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from imported_photographs import import_images

from fairgate import gate
from fairgate.records import CheckResult, RunRecord
from fairgate.suites import resolve

SUITE = """\
schema: 1
suite: people
dataset: people
probes:
  gender:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: [man, woman]
    truth: gender
    words: {Male: man, Female: woman}
groups: {min_sets: 20}
decision: {draws: 1000}
checks:
  - {id: overall, probe: gender, metric: accuracy, no_worse_than: baseline, margin: 0.2}
  - {id: by-region, probe: gender, metric: accuracy, over: region, no_worse_than: baseline, margin: 0.05}
"""
REGION = {"north": 400, "south": 30}
Wrong = Callable[[str, int], float]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """430 labelled images, no files: 400 of the north and 30 of the south, every other one a woman."""
    lines = [f"{region}/{number}.jpg,{gender(number)},{region}" for region, number in images()]
    (tmp_path / "labels.csv").write_text("\n".join(["file,gender,region", *lines]), encoding="utf-8")
    attributes = {"gender": ["Male", "Female"], "region": list(REGION)}
    import_images(
        tmp_path / "labels.csv", None, "people", attributes=attributes, subject="person", root=tmp_path / "datasets"
    )
    (tmp_path / "fairness_suites").mkdir()
    write_suite(tmp_path, SUITE)
    scores(tmp_path, "base", lambda _region, number: -0.5 if number % 10 == 9 else 1.0)
    return tmp_path


def images() -> list[tuple[str, int]]:
    return [(region, number) for region, count in REGION.items() for number in range(count)]


def gender(number: int) -> str:
    return "Female" if number % 2 else "Male"


def write_suite(root: Path, text: str) -> None:
    (root / "fairness_suites" / "people.yaml").write_text(text, encoding="utf-8")


def scores(root: Path, name: str, lead: Wrong) -> None:
    """Logits; `lead` is how far the true label is ahead of the other."""
    rows = ["file,a photo of a man,a photo of a woman"]
    for region, number in images():
        man = lead(region, number) if gender(number) == "Male" else -lead(region, number)
        rows.append(f"{region}/{number}.jpg,{man},0.0")
    (root / f"{name}.csv").write_text("\n".join(rows), encoding="utf-8")


def run(root: Path, model: str, baseline: str | None = "base", report: str | None = None) -> RunRecord:
    prepared = gate.prepare("people", root)
    typed = {
        "model": f"scores:{model}.csv?values=logit",
        "baseline": f"model:scores:{baseline}.csv?values=logit" if baseline else "none",
        "report": str(root / report) if report else None,
        "mlflow": "off",
        "cache": "off",
    }
    settings = resolve(prepared.loaded.suite, typed, environment={})
    return gate.publish(gate.evaluate(prepared, settings, command="pytest"), prepared, settings).record


def check(record: RunRecord, id_: str = "by-region") -> CheckResult:
    return next(one for one in record.checks if one.id == id_)


def lost_in_the_north(region: str, number: int) -> float:
    """Of the north, one in eight answers is lost, later images more clearly; of the south, four of thirty are."""
    if (region == "north" and number % 8 == 0) or (region == "south" and number in (0, 3, 6, 12)):
        return -0.1 - number / 1000
    return -0.5 if number % 10 == 9 else 1.01


def test_the_group_that_clearly_fell_is_named_before_a_small_one_that_may_have_fallen_further(people: Path) -> None:
    scores(people, "worse", lost_in_the_north)
    told = check(run(people, "worse"))
    north, south = told.groups
    assert (north.verdict, south.verdict) == ("fail", "inconclusive")
    assert south.delta is not None
    assert north.delta is not None
    assert south.delta < north.delta
    assert told.verdict == "fail"
    assert told.worst_group == "north"
    assert (told.value, told.baseline, told.delta) == (north.value, north.baseline, north.delta)
    assert told.reason.startswith("north fell by 0.125 [−")


def test_a_limit_of_a_probability_is_within_its_range(people: Path) -> None:
    write_suite(
        people, SUITE.replace("by-region, probe: gender, metric: accuracy", "by-region, probe: gender, metric: p_true")
    )
    scores(people, "base", lambda _region, _number: 6.0)
    scores(people, "worse", lambda _region, number: -6.0 if number < 3 else 6.0 + number % 7 / 100)
    told = check(run(people, "worse"))
    limits = [end for group in told.groups for end in (group.delta_lo, group.delta_hi) if end is not None]
    assert min(limits) == -1.0
    assert max(limits) < 0.01


def test_worst_images_are_of_that_group_newly_wrong_and_the_most_certain_first(people: Path) -> None:
    scores(people, "worse", lost_in_the_north)
    worst = check(run(people, "worse")).worst_sets
    assert [one.set_id for one in worst] == [f"north-{place}" for place in range(392, 344, -8)]
    assert all(one.spread is None and len(one.members) == 1 for one in worst)


def test_a_report_is_written_where_the_dataset_has_labels_only(people: Path) -> None:
    scores(people, "worse", lost_in_the_north)
    record = run(people, "worse", report="out")
    assert record.verdict == "fail"
    assert "No pictures are in this dataset" in (people / "out" / "report.html").read_text(encoding="utf-8")


def test_reasons_speak_of_images(people: Path) -> None:
    scores(people, "other", lambda region, number: -0.5 if number % 10 == (8 if region == "south" else 9) else 1.01)
    south = check(run(people, "other"))
    assert south.worst_group == "south"
    assert "images per group would settle it" in south.reason
    assert south.interval == "95% bootstrap of images, percentile"
    write_suite(people, SUITE.replace("min_sets: 20", "min_sets: 31"))
    south = check(run(people, "other"))
    assert south.reason.endswith("; south is in only 30 images; the suite judges from 31 (groups.min_sets)")
    assert south.worst_group == "north"


def test_the_record_names_the_test_of_each_change_and_what_it_draws(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_suite(people, SUITE.replace("min_sets: 20", "min_sets: 31"))
    scores(people, "nearly", lambda _region, number: -0.5 if number % 10 == 9 or number == 8 else 1.01)
    scores(people, "other", lambda _region, number: -0.5 if number % 10 == 7 else 1.01)
    assert check(run(people, "nearly"), "overall").test == "exact: few images changed"
    assert check(run(people, "other"), "overall").test == "max-t bootstrap of images"
    bounded = SUITE.replace("no_worse_than: baseline, margin: 0.2", "at_least: 0.5")
    for module in ("fairgate.formulas.statistics.resampling", "fairgate.metrics.cell"):
        monkeypatch.setattr(f"{module}.MOST", 100)
    assert check(run(people, "other", report="out"), "overall").test == "max-t bootstrap of blocks of images"
    assert "max-t bootstrap of blocks of images" in (people / "out" / "report.html").read_text(encoding="utf-8")
    write_suite(people, bounded)
    assert check(run(people, "other"), "overall").test is None


def test_a_group_of_one_image_is_not_judged_and_does_not_stop_the_others(people: Path) -> None:
    labels = (
        (people / "labels.csv").read_text(encoding="utf-8").replace("south/0.jpg,Male,south", "south/0.jpg,Male,east")
    )
    (people / "labels.csv").write_text(labels, encoding="utf-8")
    write_suite(people, SUITE.replace("dataset: people", "dataset: lonely"))
    import_images(
        people / "labels.csv",
        None,
        "lonely",
        attributes=["gender", "region"],
        subject="person",
        root=people / "datasets",
    )
    scores(people, "same", lambda _region, number: -0.5 if number % 10 == 9 else 1.01)
    record = run(people, "same")
    assert check(record).verdict == "inconclusive"
    assert "east is in only 1 image;" in check(record).reason
    assert check(record, "overall").verdict == "pass"


def test_a_difference_that_the_correction_takes_away_says_so(people: Path) -> None:
    """Between what a check shows by itself and what it shows among others, there is an alpha that divides them."""
    scores(people, "worse", lost_in_the_north)
    region = (
        "  - {id: by-region, probe: gender, metric: accuracy, over: region, no_worse_than: baseline, margin: 0.1}\n"
    )
    gender = (
        "  - {id: by-gender, probe: gender, metric: accuracy, over: gender, no_worse_than: baseline, margin: 0.3}\n"
    )

    def north(checks: str, alpha: float = 0.05) -> CheckResult:
        rule = f"decision: {{draws: 4000, alpha: {alpha}}}\nchecks:\n{checks}"
        write_suite(people, SUITE[: SUITE.index("decision:")] + rule)
        return check(run(people, "worse"))

    alone, among = north(region).groups[0].p_adjusted, north(region + gender).groups[0].p_adjusted
    assert alone is not None
    assert among is not None
    assert alone < among
    told = north(region + gender, (alone + among) / 2)
    assert (told.verdict, told.groups[0].verdict) == ("inconclusive", "inconclusive")
    assert "clear by itself, and not after the correction over all checks of the suite" in told.reason
    assert north(region, (alone + among) / 2).verdict == "fail"


def test_checks_that_say_the_same_again_cost_nothing(people: Path) -> None:
    scores(people, "worse", lost_in_the_north)
    alone = check(run(people, "worse"))
    many = "".join(
        f"  - {{id: more-{number}, probe: gender, metric: accuracy, over: region, no_worse_than: baseline,"
        " margin: 0.05}\n"
        for number in range(40)
    )
    write_suite(people, SUITE + many)
    among = check(run(people, "worse"))
    assert [group.verdict for group in among.groups] == [group.verdict for group in alone.groups]
    assert among.groups[0].p_adjusted is not None
    assert among.groups[0].p_adjusted <= 0.05


def test_a_regression_without_a_baseline_shows_no_worst_images(people: Path) -> None:
    record = run(people, "base", baseline=None)
    assert {one.verdict for one in record.checks} == {"inconclusive"}
    assert not any(one.worst_sets for one in record.checks)


def test_confusions_are_counted_for_the_groups_that_the_suite_compares(people: Path) -> None:
    found = run(people, "base", baseline=None).confusions
    assert [(one.group, one.predicted, one.count, one.total) for one in found] == [
        ("north", "man", 40, 400),
        ("south", "man", 3, 30),
    ]
