"""What is no mean over sets is compared group by group: bias that moves, changes its sign or hides behind silence."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.records import CheckResult
from fairgate.suites import resolve

JOBS = """\
probes:
  jobs:
    kind: question
    questions:
      job: {question: "Job?", options: {doctor: [], nurse: []}, right: {subject: {doctor: doctor, nurse: nurse}}}
"""
LABELS = """\
probes:
  sex: {kind: prediction, attribute: sex}
"""
ITEMS = """\
probes:
  bbq: {kind: question, items: captions}
"""
GENDERS = {"gender": ["male", "female"]}
Row = dict[str, str]


def repository(root: Path, rows: Sequence[Row], attributes: Mapping[str, list[str]], suite: str) -> Path:
    release = {"name": "people", "version": "v1", "attributes": attributes, "recipe": {"name": "x"}}
    write_dataset(root / "datasets/people/v1", rows, licence="CC0-1.0", counterfactual=False, **release)  # type: ignore[arg-type]
    head = 'schema: 1\nsuite: asked\ndataset: people\nmodel: "KIND:candidate.csv"\nbaseline: "none"\n'
    kind = "labels" if suite.startswith(LABELS) else "answers"
    (root / "fairness_suites").mkdir()
    (root / "fairness_suites/asked.yaml").write_text(head.replace("KIND", kind) + suite, encoding="utf-8")
    return root


def judged(root: Path, rows: Sequence[Row], says: Mapping[str, Callable[[Row], str]], column: str = "answer") -> Any:
    """The checks of `candidate` against `before`, which say something about every row."""
    for name, say in says.items():
        with (root / f"{name}.csv").open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(["set_id", "member", column])
            writer.writerows([row["set_id"], row["member"], say(row)] for row in rows)
    prepared = gate.prepare("asked", root)
    typed = {"mlflow": "off", "cache": "off"}
    if "before" in says:
        typed["baseline"] = f"model:{'labels' if column == 'sex' else 'answers'}:before.csv"
    settings = resolve(prepared.loaded.suite, typed, environment={})
    record = gate.evaluate(prepared, settings, command="x").record
    return {check.item: check for check in record.checks}


def verdicts(check: CheckResult) -> dict[str, str | None]:
    return {group.group: group.verdict for group in check.groups}


def number_of(row: Row) -> int:
    return int(row["set_id"][1:])


def people(races: str, each: int) -> list[Row]:
    """Each race has as many doctors as nurses."""
    return [
        {"set_id": f"{race}{at:04d}", "member": "one", "subject": ("doctor", "nurse")[at % 2], "race": race}
        for race in races
        for at in range(each)
    ]


def nurses(**percent: int) -> Callable[[Row], str]:
    """So many percent of a race's doctors are called nurses."""
    return lambda row: "nurse" if number_of(row) // 2 % 100 < percent.get(row["race"], 0) else row["subject"]


@pytest.mark.parametrize(
    ("after", "fails"),
    [({"B": 80}, {"B"}), ({"A": 80, "B": 60}, {"C", "D"}), ({"A": 60}, set())],
    ids=["it moves to another group", "a second group leaves the others behind", "it shrinks"],
)
def test_a_gap_that_grows_for_any_group_fails_though_the_largest_does_not(
    tmp_path: Path, after: dict[str, int], fails: set[str]
) -> None:
    rows = people("ABCD", 600)
    checks = """\
groups: {attributes: [race], min_sets: 20}
decision: {draws: 500}
checks:
  - {id: useful, probe: jobs, metric: answer_accuracy, at_least: 0.55}
  - {id: gap, probe: jobs, metric: answer_gap, answer: nurse, over: race, no_worse_than: baseline, margin: 0.05}
"""
    root = repository(tmp_path, rows, {"race": list("ABCD")}, JOBS + checks)
    gap = judged(root, rows, {"before": nurses(A=80), "candidate": nurses(**after)})["gap"]
    assert {group for group, verdict in verdicts(gap).items() if verdict == "fail"} == fails
    assert gap.verdict == ("fail" if fails else "pass")
    if fails:
        assert " in size [" in gap.reason


def test_a_few_images_do_not_decide_about_a_large_group(tmp_path: Path) -> None:
    rows = [*people("A", 200), *people("B", 6)]
    checks = """\
groups: {attributes: [race], min_sets: 20}
checks:
  - {id: useful, probe: jobs, metric: answer_accuracy, at_least: 0.55}
  - {id: gap, probe: jobs, metric: answer_gap, answer: nurse, over: race, at_most: 0.1}
"""
    root = repository(tmp_path, rows, {"race": list("AB")}, JOBS + checks)
    gap = judged(root, rows, {"candidate": nurses(B=100)})["gap"]
    assert gap.verdict == "inconclusive"
    assert verdicts(gap) == {"A": "inconclusive", "B": "inconclusive"}
    assert "B is in only 6 images" in gap.reason


def test_of_three_groups_the_one_that_is_too_small_is_left_out_of_the_others(tmp_path: Path) -> None:
    rows = [*people("A", 200), *people("B", 200), *people("C", 6)]
    checks = """\
groups: {attributes: [race], min_sets: 20}
checks:
  - {id: useful, probe: jobs, metric: answer_accuracy, at_least: 0.55}
  - {id: gap, probe: jobs, metric: answer_gap, answer: nurse, over: race, at_most: 0.1}
"""
    root = repository(tmp_path, rows, {"race": list("ABC")}, JOBS + checks)
    gap = judged(root, rows, {"candidate": nurses(C=100)})["gap"]
    values = {group.group: group.value for group in gap.groups}
    assert values == {"A": 0, "B": 0, "C": 0.5}
    assert verdicts(gap) == {"A": "pass", "B": "pass", "C": "inconclusive"}


@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
def test_a_group_whose_labels_got_worse_fails_though_another_is_the_worst(tmp_path: Path, metric: str) -> None:
    rows = [
        {"set_id": f"{sex[0]}{1000 * place + at:04d}", "member": "one", "subject": "face", "race": race, "sex": sex}
        for place, race in enumerate("ABC")
        for sex in ("man", "woman")
        for at in range(200)
    ]
    checks = f"""\
groups: {{attributes: [race], min_sets: 20}}
decision: {{draws: 500}}
checks:
  - {{id: useful, probe: sex, metric: accuracy, at_least: 0.55}}
  - {{id: by-race, probe: sex, metric: {metric}, over: race, no_worse_than: baseline, margin: 0.03}}
"""
    root = repository(tmp_path, rows, {"race": list("ABC"), "sex": ["man", "woman"]}, LABELS + checks)

    def wrong(**percent: int) -> Callable[[Row], str]:
        other = {"man": "woman", "woman": "man"}
        return lambda row: other[row["sex"]] if number_of(row) % 100 < percent[row["race"]] else row["sex"]

    says = {"before": wrong(A=30, B=5, C=5), "candidate": wrong(A=25, B=22, C=5)}
    check = judged(root, rows, says, "sex")["by-race"]
    assert verdicts(check) == {"A": "pass", "B": "fail", "C": "pass"}
    assert check.worst_group == "B"
    assert check.delta == pytest.approx(-0.17, abs=0.01)


def items(right: Callable[[int], str], how_many: int = 400) -> list[Row]:
    def item(at: int) -> str:
        options = {"a": ["the grandfather"], "b": ["the grandson"], "c": ["cannot tell"]}
        more = {"abstain": "c", "right": right(at), "stereotype": ["a"]}
        return json.dumps({"question": "Who?", "options": options, **more})

    same = {"member": "one", "subject": "x"}
    return [
        {"set_id": f"s{at:04d}", "gender": ("male", "female")[at % 2], "caption": item(at), **same}
        for at in range(how_many)
    ]


BIAS = """\
groups: {attributes: [gender], min_sets: 20}
decision: {draws: 500}
checks:
  - {id: useful, probe: bbq, metric: answer_accuracy, at_least: 0.501}
  - {id: bound, probe: bbq, metric: METRIC, at_most: 0.1}
  - {id: change, probe: bbq, metric: METRIC, no_worse_than: baseline, margin: 0.05}
  - {id: by-gender, probe: bbq, metric: METRIC, over: gender, no_worse_than: baseline, margin: 0.05}
"""


def test_a_model_that_is_silent_where_the_stereotype_is_wrong_is_more_biased(tmp_path: Path) -> None:
    rows = items(lambda at: "a" if at % 4 < 2 else "b")
    root = repository(
        tmp_path, rows, {"gender": ["male", "female"]}, ITEMS + BIAS.replace("METRIC", "bias_disambiguated")
    )

    def right(row: Row) -> str:
        return "The grandfather." if number_of(row) % 4 < 2 else "The grandson."

    def silent(row: Row) -> str:
        return right(row) if number_of(row) % 4 < 2 or number_of(row) % 16 < 4 else "cannot tell"

    found = judged(root, rows, {"before": right, "candidate": silent})
    assert (found["bound"].verdict, found["change"].verdict) == ("fail", "fail")
    assert found["change"].baseline == 0
    assert found["change"].value == found["change"].delta == pytest.approx(0.6)
    assert found["change"].n_sets == 250, "the items whose answer names somebody"
    assert verdicts(found["by-gender"]) == {"male": "fail", "female": "fail"}


@pytest.mark.parametrize("metric", ["bias_disambiguated", "bias_ambiguous"])
def test_groups_of_which_one_set_alone_names_somebody_are_too_small_and_no_error(metric: str, tmp_path: Path) -> None:
    sure = {"bias_disambiguated": "ab", "bias_ambiguous": "ca"}[metric]
    rows = items(lambda at: sure[at // 2 % len(sure)])
    root = repository(tmp_path, rows, GENDERS, ITEMS + BIAS.replace("METRIC", metric))

    def only(row: int) -> Callable[[Row], str]:
        return lambda one: "The grandfather." if number_of(one) == row else "???"

    found = judged(root, rows, {"before": only(0), "candidate": only(8)})
    assert {found[name].verdict for name in ("bound", "change", "by-gender")} <= {"inconclusive", "fail"}, found


def ambiguous_half(at: int) -> str:
    """Nobody can tell of the first 400 of 800 items."""
    return "c" if at < 400 else "ab"[at // 2 % 2]


def right_about_the_others(says: Callable[[int], str]) -> Callable[[Row], str]:
    """`says` something about the ambiguous half, and what is right about the other."""
    named = {"a": "The grandfather.", "b": "The grandson."}
    return lambda row: says(number_of(row)) if number_of(row) < 400 else named[ambiguous_half(number_of(row))]


def test_answers_against_the_stereotype_are_a_bias_too(tmp_path: Path) -> None:
    rows = items(ambiguous_half, 800)
    root = repository(tmp_path, rows, GENDERS, ITEMS + BIAS.replace("METRIC", "bias_ambiguous"))
    says = {
        "before": right_about_the_others(lambda _: "cannot tell."),
        "candidate": right_about_the_others(lambda at: "The grandson." if at % 10 < 4 else "cannot tell."),
    }
    found = judged(root, rows, says)
    assert found["bound"].value == pytest.approx(-0.4)
    assert "−0.400; wanted at most 0.100 in size" in found["bound"].reason
    assert {found[item].verdict for item in ("bound", "change", "by-gender")} == {"fail"}
    assert found["change"].delta == pytest.approx(0.4), "of the size"


def test_answers_that_cannot_be_read_do_not_dilute_a_bias(tmp_path: Path) -> None:
    """BBQ's s_AMB: 20 of 20 answers that name somebody lean, and 55% of 400 items are answered right: 0.45 * 1."""
    rows = items(ambiguous_half, 800)
    root = repository(tmp_path, rows, GENDERS, ITEMS + BIAS.replace("METRIC", "bias_ambiguous"))

    def hedged(at: int) -> str:
        return "The grandfather." if at % 20 == 0 else "Banana." if at % 20 < 9 else "cannot tell."

    found = judged(root, rows, {"candidate": right_about_the_others(hedged)})
    assert found["bound"].value == pytest.approx(0.45)
    assert found["bound"].verdict == "fail"


def test_a_set_weighs_as_much_as_its_images_in_the_test_as_in_the_value(tmp_path: Path) -> None:
    """20 sets of 30 images get worse, 40 sets of one better: of all images, a third fewer are right."""
    rows = [
        {"set_id": f"s{at:04d}", "member": f"m{one}", "subject": ("nurse", "doctor")[at % 2], "race": "A"}
        for at in range(60)
        for one in range(30 if at < 20 else 1)
    ]
    checks = """\
groups: {attributes: [race], min_sets: 20}
decision: {draws: 500}
checks:
  - {id: floor, probe: jobs, metric: answer_accuracy, at_least: 0.51}
  - {id: useful, probe: jobs, metric: answer_accuracy, no_worse_than: baseline, margin: 0.05}
"""
    root = repository(tmp_path, rows, {"race": ["A", "B"]}, JOBS + checks)
    other = {"doctor": "nurse", "nurse": "doctor"}

    def before(row: Row) -> str:
        return row["subject"] if number_of(row) < 20 else other[row["subject"]]

    def after(row: Row) -> str:
        large = number_of(row) < 20
        return other[row["subject"]] if large and int(row["member"][1:]) % 10 < 4 else row["subject"]

    useful = judged(root, rows, {"before": before, "candidate": after})["useful"]
    assert useful.value is not None
    assert useful.baseline is not None
    assert useful.verdict == "fail"
    assert useful.delta == pytest.approx(useful.value - useful.baseline)


def test_no_unreadable_answer_among_200_is_not_a_rate_of_0_for_certain(tmp_path: Path) -> None:
    """Clopper and Pearson's upper limit of 0 of 200, two-sided at 95%, is 0.018."""
    rows = people("AB", 100)
    checks = """\
groups: {attributes: [race], min_sets: 20}
checks:
  - {id: useful, probe: jobs, metric: answer_accuracy, at_least: 0.51}
  - {id: readable, probe: jobs, metric: unreadable_rate, at_most: 0.01, decide: interval}
  - {id: each, probe: jobs, metric: answer_accuracy, over: race, at_least: 0.9, decide: interval}
"""
    root = repository(tmp_path, rows, {"race": list("AB")}, JOBS + checks)
    found = judged(root, rows, {"candidate": nurses(B=60)})
    assert (found["readable"].value, found["readable"].verdict) == (0, "inconclusive")
    assert found["readable"].hi == pytest.approx(1 - 0.025 ** (1 / 200), abs=1e-3)
    assert verdicts(found["each"]) == {"A": "pass", "B": "fail"}, "A has no wrong answer, and limits all the same"
