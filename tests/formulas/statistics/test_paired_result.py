"""What a decided comparison tells of itself: how harmful, how many sets or which margin would settle it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.statistics import Design, PairedResult, not_judged

NAN, INF = float("nan"), float("inf")


def result(delta: list[float], verdicts: list[str], **changes: Any) -> PairedResult:
    """A comparison at a margin of 0.1, of which lower is worse."""
    empty = not_judged(Design(0.1, 0.05, "lower"), np.array(delta), np.full(len(delta), 60), draws=100)
    overall = max(verdicts, key=("pass", "inconclusive", "fail").index)
    fields: dict[str, Any] = {"verdict": np.array(verdicts), "overall": overall}
    fields |= {name: np.array(each) if isinstance(each, list) else each for name, each in changes.items()}
    return replace(empty, **fields)


def test_groups_that_are_too_small_have_their_change_and_no_verdict_or_limit() -> None:
    got = not_judged(Design(0.2, 0.01, "higher"), np.array([0.3, -0.1]), np.array([3, 4]), draws=100)
    assert (got.overall, got.verdict.tolist()) == ("inconclusive", ["inconclusive"] * 2)
    assert (got.delta.tolist(), got.n_sets.tolist()) == ([0.3, -0.1], [3, 4])
    assert (got.lo.tolist(), got.hi.tolist()) == ([-INF] * 2, [INF] * 2)
    assert (got.p_adjusted.tolist(), got.p_not_worse.tolist(), got.p) == ([1.0] * 2, [1.0] * 2, 1.0)
    assert (got.sets_needed.tolist(), got.margin_decided.tolist()) == ([INF] * 2, [INF] * 2)
    assert got.clear_alone.tolist() == [False] * 2
    assert np.isnan(got.gap).all()
    assert got.gap.shape == (2,)
    assert (got.margin, got.alpha, got.harm, got.method, got.draws) == (0.2, 0.01, "higher", "max-t bootstrap", 100)
    assert (got.sets_to_settle, got.margin_to_settle) == (None, None)


@pytest.mark.parametrize(
    ("harm", "gap", "harmful"),
    [
        ("lower", [NAN, NAN], [0.3, -0.2]),
        ("higher", [NAN, NAN], [-0.3, 0.2]),
        ("either", [NAN, NAN], [0.3, 0.2]),
        ("lower", [-0.1, 0.4], [0.1, -0.4]),  # behind by 0.1, and ahead
        ("lower", [-0.5, -0.4], [0.3, -0.2]),
    ],
)
def test_a_fall_is_as_harmful_as_the_direction_says_and_of_gaps_no_more_than_the_group_is_behind(
    harm: str, gap: list[float], harmful: list[float]
) -> None:
    got = result([-0.3, 0.2], ["pass", "pass"], harm=harm, gap=gap)
    assert got.harmful.tolist() == harmful
    assert got.worst == int(np.argmax(harmful))


@pytest.mark.parametrize(
    ("delta", "verdicts", "needed", "sets"),
    [
        ([-0.2, -0.2, 0.0], ["inconclusive", "inconclusive", "pass"], [500.0, 300.0, NAN], 300),
        ([-0.2, -0.05, -0.2], ["inconclusive", "inconclusive", "pass"], [500.0, 300.0, 100.0], 500),
        ([-0.2, -0.1, 0.0], ["inconclusive", "inconclusive", "pass"], [500.0, 300.0, 100.0], 500),
        ([-0.05, -0.02, -0.2], ["inconclusive", "inconclusive", "pass"], [300.0, 500.0, 900.0], 500),
        ([-0.05, -0.02], ["inconclusive", "inconclusive"], [300.0, INF], None),
        ([-0.2, -0.02], ["fail", "inconclusive"], [NAN, 500.0], None),
        ([0.0, 0.0], ["pass", "pass"], [NAN, NAN], None),
    ],
)
def test_the_first_group_that_would_fail_settles_a_comparison_or_else_the_last_that_would_pass(
    delta: list[float], verdicts: list[str], needed: list[float], sets: int | None
) -> None:
    assert result(delta, verdicts, sets_needed=needed).sets_to_settle == sets


@pytest.mark.parametrize(
    ("delta", "verdicts", "margins", "margin"),
    [
        ([-0.05, -0.02, 0.0], ["inconclusive", "inconclusive", "pass"], [0.2, 0.3, 0.9], 0.3),
        ([-0.1, -0.02], ["inconclusive", "pass"], [0.2, NAN], 0.2),
        ([-0.11, -0.02], ["inconclusive", "inconclusive"], [0.2, 0.3], None),  # seems to have fallen further
        ([-0.05, -0.02], ["inconclusive", "inconclusive"], [0.2, INF], None),
        ([-0.05, -0.02], ["inconclusive", "pass"], [0.1, NAN], None),
        ([-0.05, -0.02], ["fail", "inconclusive"], [NAN, 0.3], None),
        ([-0.05, -0.02], ["pass", "pass"], [0.2, 0.3], None),
    ],
)
def test_a_margin_settles_an_undecided_comparison_if_all_open_groups_pass_at_it_and_none_fell_further(
    delta: list[float], verdicts: list[str], margins: list[float], margin: float | None
) -> None:
    assert result(delta, verdicts, margin_decided=margins).margin_to_settle == margin


def test_limits_end_where_a_difference_can_and_a_margin_as_large_is_none() -> None:
    ends = {"lo": [-1.5, -0.9, -INF], "hi": [-1.2, 1.5, INF], "margin_decided": [0.9, 1.0, NAN]}
    got = result([-1.0, 0.0, 0.0], ["inconclusive"] * 3, **ends).within(1.0)
    assert got.lo.tolist() == [-1.0, -0.9, -INF]
    assert got.hi.tolist() == [-1.0, 1.0, INF]
    assert got.margin_decided.tolist() == pytest.approx([0.9, INF, NAN], nan_ok=True)


@pytest.mark.parametrize(
    ("harm", "each_side", "sign"), [("lower", 0.05, 1), ("higher", 0.05, -1), ("either", 0.025, 1)]
)
def test_where_either_direction_harms_each_side_has_half_of_alpha(harm: Any, each_side: float, sign: int) -> None:
    design = Design(0.1, 0.05, harm)
    assert (design.alpha_each_side, design.sign) == (each_side, sign)
