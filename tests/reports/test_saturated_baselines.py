from __future__ import annotations

import pytest
from situations import bounded, group

from fairgate.records import CheckResult
from fairgate.reports import saturated


def compared(before: float | None, now: float, **changes: object) -> CheckResult:
    """A comparison of accuracy by group; `before` None: with nothing, as of a first baseline."""
    groups = [group(name, before, now, "pass") for name in ("White", "Black")]
    fields = {"rule": "no_worse_than", "bound": 0.02, "value": now, "baseline": before, "groups": groups}
    return bounded(**{**fields, **changes})


@pytest.mark.parametrize(
    ("check", "level", "words"),
    [
        (compared(1.0, 0.9), "note", "1.000 in every group of the baseline, the best possible value: no gain can show"),
        (compared(None, 1.0), "note", "1.000 in every group of this run, the best possible value"),
        (compared(0.0, 0.0), "warning", "0.000 in every group of the baseline, the worst possible value: no loss"),
        (
            compared(1.0, 1.0, metric="abstention_rate", better="lower"),
            "warning",
            "1.000 in every group of the baseline, the worst",
        ),
        (compared(1.0, 1.0, groups=[]), "note", "1.000 in the baseline, the best possible value"),
    ],
)
def test_a_baseline_at_an_end_of_its_scale_is_named_with_what_the_check_cannot_see(
    check: CheckResult, level: str, words: str
) -> None:
    (remark,) = saturated([check])
    assert remark.level == level
    assert remark.text.startswith(f"{check.item}: {words}")


def test_baseline_and_anchor_are_one_remark_and_only_answers_turn() -> None:
    checks = [compared(1.0, 0.9, against="baseline"), compared(1.0, 0.9, against="anchor")]
    (both,) = saturated(checks)
    assert both.text.startswith("by-group: 1.000 in every group of the baseline and the anchor, the best")
    (anchors,) = saturated(checks[1:])
    assert anchors.text.startswith("by-group: 1.000 in every group of the anchor, the best")
    (of_means,) = saturated([compared(1.0, 0.9, metric="p_true")])
    assert of_means.text.endswith("the best possible value: no gain can show")


def test_only_a_share_that_is_compared_and_decides_can_be_saturated() -> None:
    mixed = [group("White", 1.0, 1.0, "pass"), group("Black", 0.99, 1.0, "pass")]
    quiet = [
        compared(1.0, 1.0, groups=mixed),
        compared(1.0, 1.0, rule="at_least"),
        compared(1.0, 1.0, tier="watch"),
        compared(1.0, 1.0, metric="answer_agreement"),
        compared(0.0, 0.0, metric="group_gap"),
    ]
    assert saturated(quiet) == []
    assert len(saturated([compared(1.0, 1.0, id="a"), compared(1.0, 0.9, id="b")])) == 1
