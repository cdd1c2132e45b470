"""What a model said of images, in words."""

from __future__ import annotations

import pytest
from example_records import confusions, example_record, gap_check

from fairgate.records import MemberResult
from fairgate.reports import render_comment
from fairgate.reports.member_words import answer_words, taken_words, value_words


def member(**fields: object) -> MemberResult:
    return MemberResult(**{"member": "a", "group": "dark", "value": 0.0, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "right", "words"),
    [
        ("yes", None, "answered “yes”"),
        ("yes", "no", "answered “yes”, right is “no”"),
        ("yes", "abstained", "answered “yes”, right is to abstain"),
        ("not_asked", None, "not asked"),
        ("unreadable", "no", "unreadable, right is “no”"),
    ],
)
def test_a_wrong_answer_names_the_right_one(said: str, right: str | None, words: str) -> None:
    assert answer_words(member(predicted=said, right=right), 60) == words


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("right", 0.0, "wrong"),
        ("right", 1.0, "right"),
        ("right", 0.25, "right in 25% of its views"),
        ("P(true)", 0.0, "P(true) 0.000"),
        ("right", None, "right –"),
    ],
)
def test_a_prediction_is_right_or_wrong_and_no_number(unit: str, value: float | None, words: str) -> None:
    assert value_words(unit, member(value=value)) == words


def test_a_failing_check_names_the_label_that_its_worst_group_is_most_often_taken_for() -> None:
    failing = gap_check("doctor", "fail")
    record = example_record([failing])
    own = [wrong for wrong in confusions() if wrong.group == failing.worst_group]
    count = max(wrong.count for wrong in own)
    assert taken_words(failing, record) == f"most often taken for “nurse”: {count} images"
    assert taken_words(gap_check("doctor", "pass"), record) == ""
    assert taken_words(failing, record.model_copy(update={"confusions": []})) == ""
    whole = failing.model_copy(update={"worst_group": None, "subject": None})
    several = [*confusions(), confusions()[0].model_copy(update={"subject": "nurse", "predicted": "chef"})]
    text = taken_words(whole, record.model_copy(update={"confusions": several}))
    assert text == "most often “doctor” is taken for “nurse”: 98 images"
    comment = render_comment(record)
    assert f"most often taken for “nurse”: {count} images" in comment
    assert "in report.html \\(in CI, of the run's artifact, such as fairness-report-occupations\\)" in comment
