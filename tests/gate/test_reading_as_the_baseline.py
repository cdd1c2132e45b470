"""Which of two results counts where a candidate is judged with its own tokenizer and with the baseline's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairgate.errors import ModelError
from fairgate.gate.counterparts import Reading, comparisons_without_pass, counterpart, stricter_reading
from fairgate.models import Model, open_scorer
from fairgate.records import CheckResult, GroupResult, Verdict

CHECKPOINTS = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints"


def check(verdict: Verdict, failing: int = 0, rule: str = "no_worse_than") -> CheckResult:
    groups = [GroupResult(group=f"g{n}", verdict="fail", n_images=9, n_sets=9) for n in range(failing)]
    groups += [GroupResult(group="other", verdict="pass", n_images=9, n_sets=9)]
    return CheckResult.model_validate(
        {
            **{"id": "one", "subject": None, "metric": "fairness", "probe": "labels", "rule": rule, "value": 0.5},
            **{"bound": 0.1, "verdict": verdict, "n_sets": 9, "reason": f"{verdict} it is", "groups": groups},
        }
    )


@pytest.mark.parametrize(
    ("own", "other", "counts"),
    [
        ("pass", "fail", "fail"),
        ("pass", "inconclusive", "inconclusive"),
        ("pass", "error", "error"),
        ("fail", "pass", "fail"),
        ("fail", "error", "fail"),
        ("inconclusive", "pass", "inconclusive"),
        ("error", "fail", "fail"),
        ("pass", "pass", "pass"),
    ],
)
def test_the_harder_of_two_results_counts_and_says_whose_it_is(own: Verdict, other: Verdict, counts: Verdict) -> None:
    (found,) = stricter_reading([check(own)], [check(other)], "tokenizer", "baseline")
    assert found.verdict == counts
    assert (f"with the baseline's tokenizer (with its own: {own})" in found.reason) == (counts != own)


def test_of_two_failures_the_one_with_more_failing_groups_counts() -> None:
    (found,) = stricter_reading([check("fail", 1)], [check("fail", 2)], "tokenizer", "baseline")
    assert len(found.failing_groups) == 2
    (found,) = stricter_reading([check("fail", 2)], [check("fail", 1)], "tokenizer", "baseline")
    assert len(found.failing_groups) == 2


def test_only_comparisons_lose_their_pass_where_the_baselines_tokenizer_is_not_to_be_had() -> None:
    results = [check("pass"), check("fail", 1), check("pass", rule="at_least")]
    found = comparisons_without_pass(results, "because")
    assert [one.verdict for one in found] == ["inconclusive", "fail", "pass"]
    assert found[0].reason == "pass it is; because"
    assert [group.verdict for group in found[0].groups] == ["inconclusive"]


class Nothing:
    fingerprint, folder = "nothing", Path()

    def __len__(self) -> int:
        return 0


def gone() -> Model:
    raise ModelError("the checkpoint is gone.", where="there", remedy="bring it back")


def never(_: Model) -> tuple[dict[str, object], ...]:
    raise AssertionError("nothing has to be scored")


def test_a_baseline_that_cannot_be_had_is_said_and_known_to_differ_or_not() -> None:
    uri = f"open_clip:local-dir:{CHECKPOINTS / 'tuned'}"
    candidate = open_scorer(uri, Nothing(), device="cpu", cache=None)  # type: ignore[arg-type]
    own = Reading.of(candidate)
    same = counterpart(candidate, own, gone, never, "baseline")  # type: ignore[arg-type]
    assert (same.changed, same.notice, same.withheld) == ("", None, None)
    other = counterpart(candidate, Reading("another", own.preprocessing), gone, never, "baseline")  # type: ignore[arg-type]
    assert other.changed == "tokenizer"
    assert "could not be judged with: the checkpoint is gone" in str(other.withheld)
    assert "comparisons with the baseline cannot pass" in str(other.notice)
    unknown = counterpart(candidate, Reading(None, None), gone, never, "baseline")  # type: ignore[arg-type]
    assert (unknown.changed, unknown.withheld) == ("", None)
    assert "does not say which tokenizer and preprocessing" in str(unknown.notice)
    base = open_scorer(f"open_clip:local-dir:{CHECKPOINTS / 'base'}", Nothing(), device="cpu", cache=None)  # type: ignore[arg-type]
    assert counterpart(candidate, Reading(None, None), lambda: base, never, "baseline").notice is None  # type: ignore[arg-type]
