"""What a model said of images, in words: of one, for the page and the terminal; of many, for the comment."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fairgate.ground.errors import clean
from fairgate.ground.number_format import number, percent_of, share_words
from fairgate.records import CROSS, CheckResult, MemberResult, RunRecord
from fairgate.reports.formatting import ANSWERED, measured_as

_NO_OPTION: Final = ("abstained", "unreadable", "not_asked")
_RIGHT_OR_WRONG: Final = "right"
"""What a prediction's number is called: 1 if it is right, 0 if it is wrong, of several views the share right."""


def answer_words(member: MemberResult, longest: int) -> str:
    """`answered “yes”, right is “no”`, or what an answer is read as that names no option: `abstained`."""
    answer = member.predicted or ""
    words = answer.replace("_", " ") if answer in _NO_OPTION else f"answered “{clean(answer, longest)}”"
    return f"{words}{right_words(member, longest)}"


def right_words(member: MemberResult, longest: int) -> str:
    """`, right is “no”` of a wrong answer, if the right one is known; else nothing."""
    if member.right is None:
        return ""
    return ", right is to abstain" if member.right == "abstained" else f", right is “{clean(member.right, longest)}”"


def value_words(unit: str, member: MemberResult, *, short: bool = False) -> str:
    """`P(true) 0.330`, `0.330` if `short`; of a prediction whether it is right, of several views the share that are."""
    if unit != _RIGHT_OR_WRONG or member.value is None:
        return number(member.value) if short else f"{unit} {number(member.value)}"
    return {0.0: "wrong", 1.0: "right"}.get(member.value, f"right in {percent_of(member.value)} of its views")


def taken_words(check: CheckResult, record: RunRecord) -> str:
    """`most often “doctor” is taken for “nurse”: 14 images`, of the worst group of a check that failed; nothing of a
    question, and where no label is wrong."""
    if check.verdict != "fail" or measured_as(record, check) == ANSWERED:
        return ""
    worst = set((check.worst_group or "").split(CROSS)) - {""}
    counts = Counter[tuple[str, str]]()
    for wrong in record.confusions:
        if wrong.probe == check.probe and check.subject in (None, wrong.subject):
            counts[wrong.subject, wrong.predicted] += wrong.count if worst <= set(wrong.group.split(CROSS)) else 0
    if not counts.total():
        return ""
    ((subject, predicted), count) = counts.most_common(1)[0]
    several = len({wrong.subject for wrong in record.confusions}) > 1
    who = f"“{clean(subject, 60)}” is " if several and check.subject is None else ""
    return f"most often {who}taken for “{clean(predicted, 60)}”: {share_words(count, 'image')}"
