"""Warnings of what a run's checks cannot see: options that no answer names, groups that always abstain, labels that no
image has. They are in the record, the terminal, the page and the comment, and change no verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairgate import gate
from fairgate.data import write_dataset
from fairgate.records import RunRecord
from fairgate.reports import terminal_summary
from fairgate.suites import resolve

SETS = 40
QUESTION = """\
schema: 1
suite: asked
dataset: people
model: "answers:now.csv"
baseline: "none"
probes:
  jobs:
    kind: question
    questions:
      job:
        question: What is this person's job?
        options: {doctor: [], nurse: []}
        RIGHT
groups: {min_sets: 20}
decision: {draws: 500}
checks:
  - {id: useful, probe: jobs, metric: answer_accuracy, over: gender, at_least: 0.1}
"""
RIGHT = "right: {subject: {doctor: doctor, nurse: nurse}}"
LABELS = """\
schema: 1
suite: asked
dataset: people
model: "labels:now.csv"
baseline: "none"
probes:
  reads: {kind: prediction, attribute: ATTRIBUTE}
groups: {min_sets: 20}
decision: {draws: 500}
checks:
  - {id: useful, probe: reads, metric: accuracy, at_least: 0.1}
"""
Says = Callable[[int, str, str], str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Pairs of a man and a woman in one job, half of them doctors; no image is of a third gender that is declared."""
    rows = [
        {"set_id": f"{number:03d}", "member": gender, "subject": ("doctor", "nurse")[number % 2], "gender": gender}
        for number in range(SETS)
        for gender in ("male", "female")
    ]
    for name, genders in (("people", ["male", "female"]), ("declared", ["male", "female", "other", "unknown"])):
        facts = {"name": name, "version": "v1", "attributes": {"gender": genders}, "recipe": {"name": "x"}}
        write_dataset(tmp_path / f"datasets/{name}/v1", rows, licence="CC0-1.0", counterfactual=True, **facts)
    (tmp_path / "fairness_suites").mkdir()
    return tmp_path


def run(root: Path, suite: str, says: Says, column: str = "answer", *, published: bool = False) -> RunRecord:
    """A run of a suite on a table of what `says` gives for the number of the set, its subject and the gender."""
    cells = [(number, ("doctor", "nurse")[number % 2], sex) for number in range(SETS) for sex in ("male", "female")]
    lines = [f"{number:03d},{sex},{says(number, subject, sex)}" for number, subject, sex in cells]
    (root / "now.csv").write_text("\n".join([f"set_id,member,{column}", *lines]) + "\n", encoding="utf-8")
    (root / "fairness_suites/asked.yaml").write_text(suite, encoding="utf-8")
    prepared = gate.prepare("asked", root)
    options = {"mlflow": "off", "cache": "off", "report": str(root / "out")}
    settings = resolve(prepared.loaded.suite, options, environment={})
    evaluation = gate.evaluate(prepared, settings, command="x")
    return gate.publish(evaluation, prepared, settings).record if published else evaluation.record


def warned(record: RunRecord) -> list[str]:
    return [warning.partition(" Remedy: ")[0].partition(": ")[2] for warning in record.warnings]


def test_an_option_that_no_answer_names_is_a_warning_wherever_the_run_is_shown(root: Path) -> None:
    record = run(root, QUESTION.replace("RIGHT", RIGHT), lambda *_: "doctor", published=True)
    (told,) = record.warnings
    assert told == (
        "fairness_suites/asked.yaml:7: no answer to 'jobs[job]' is 'nurse'. Remedy: read the answers: write each "
        "option as the model does, or leave it out."
    )
    assert record.verdict == "pass"
    assert f"warning: {told}" in terminal_summary(record)
    for name in ("report.html", "comment.md"):
        assert "no answer to" in (root / "out" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("names", [1, 0])
def test_one_answer_that_names_the_option_is_enough(root: Path, names: int) -> None:
    record = run(root, QUESTION.replace("RIGHT", RIGHT), lambda number, *_: "nurse" if number < names else "doctor")
    assert len(record.warnings) == 1 - names


def test_options_of_fewer_images_than_a_group_needs_are_no_warning(root: Path) -> None:
    few = QUESTION.replace("RIGHT", RIGHT).replace("min_sets: 20", "min_sets: 41")
    assert run(root, few, lambda *_: "doctor").warnings == []


@pytest.mark.parametrize("sex", ["male", "female"])
def test_a_group_about_which_every_answer_is_an_abstention_is_named(root: Path, sex: str) -> None:
    def silent(but: int) -> Says:
        return lambda number, subject, of: "I cannot tell." if of == sex and number >= but else subject

    assert warned(run(root, QUESTION.replace("RIGHT", RIGHT), silent(0))) == [
        f"every answer to 'jobs[job]' about gender '{sex}' is an abstention."
    ]
    assert warned(run(root, QUESTION.replace("RIGHT", RIGHT), silent(1))) == []


def test_a_model_that_always_abstains_does_so_about_everybody(root: Path) -> None:
    (everybody,) = warned(run(root, QUESTION.replace("RIGHT", RIGHT), lambda *_: "I cannot tell."))
    assert everybody == "every answer to 'jobs[job]' about everybody is an abstention."


def test_to_abstain_where_that_is_right_is_no_warning(root: Path) -> None:
    """Nobody can tell a woman's job, and the model does not."""
    right = "right: {gender: {female: abstain, male: doctor}}"
    says: Says = lambda number, _, sex: "I cannot tell." if sex == "female" else ("doctor", "nurse")[number % 4 == 0]  # noqa: E731
    assert run(root, QUESTION.replace("RIGHT", right), says).warnings == []
    wrong = "right: {gender: {female: nurse, male: doctor}}"
    assert "gender 'female'" in warned(run(root, QUESTION.replace("RIGHT", wrong), says))[0]


def test_a_label_of_a_classifier_that_it_never_gives_is_named(root: Path) -> None:
    suite = LABELS.replace("ATTRIBUTE", "gender")
    assert warned(run(root, suite, lambda *_: "male", "gender")) == ["no answer to 'reads' is 'female'."]
    assert warned(run(root, suite, lambda number, *_: "female" if number == 7 else "male", "gender")) == []


def test_a_label_that_no_image_has_is_named_where_an_attribute_is_the_truth(root: Path) -> None:
    declared = LABELS.replace("ATTRIBUTE", "gender").replace("dataset: people", "dataset: declared")
    (told,) = run(root, declared, lambda _, __, sex: sex, "gender").warnings
    assert told == (
        "fairness_suites/asked.yaml:7: no image of declared/v1 has the label 'other', 'unknown' of probe 'reads'. "
        "Remedy: add images of it to the dataset, or leave it out: it can only be a wrong answer."
    )
    assert run(root, LABELS.replace("ATTRIBUTE", "subject"), lambda _, subject, __: subject, "subject").warnings == []


@pytest.mark.parametrize(("margin", "warns"), [(0.05, True), (0.2, False)])
def test_a_check_that_passes_since_nothing_changed_states_what_so_few_sets_can_miss(
    root: Path, margin: float, warns: bool
) -> None:
    """Of 20 nurses, at a margin of 0.05: 0.95^20 = 36%; 59 sets would do. At 0.2 it is 1%."""
    compared = "  - {id: kept, probe: reads, metric: accuracy, by: subject, no_worse_than: baseline, margin: MARGIN}\n"
    suite = LABELS.replace("ATTRIBUTE", "gender").replace('"none"', '"model:labels:then.csv"')
    suite += compared.replace("MARGIN", str(margin))
    right: Says = lambda _, __, sex: sex  # noqa: E731
    slip: Says = lambda number, _, sex: "male" if number == 0 else sex  # noqa: E731 - about one doctor, then
    run(root, LABELS.replace("ATTRIBUTE", "gender"), slip, "gender")
    (root / "now.csv").rename(root / "then.csv")
    record = run(root, suite, right, "gender")
    nurses = next(check for check in record.checks if check.item == "kept[nurse]")
    assert (nurses.verdict, nurses.delta) == ("pass", 0)
    told = "kept[nurse] passes since nothing changed: on 20 sets a loss of 0.05 can change nothing 36% of the time"
    assert [f"{told}; on 59, 5%."] * warns == record.warnings
