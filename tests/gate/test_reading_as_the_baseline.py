"""Which of two results counts where a candidate is judged with its own tokenizer and with the baseline's."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from fairgate.gate.reading import CandidateReading, compared, strictest
from fairgate.gate.scoring import counterpart
from fairgate.ground.errors import ModelError
from fairgate.models import Model, open_scorer
from fairgate.records import CheckResult, GroupResult, ModelInfo, Verdict

CHECKPOINTS = Path(__file__).parents[2] / "build" / "portraits" / "checkpoints"
BASE = f"open_clip:local-dir:{CHECKPOINTS / 'base'}"


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
    found = strictest([check(own), check(other)], ["", "tokenizer"], "baseline")
    assert found.verdict == counts
    assert (f"with the baseline's tokenizer (with its own: {own})" in found.reason) == (counts != own)


def test_of_two_failures_the_one_with_more_failing_groups_counts() -> None:
    found = strictest([check("fail", 1), check("fail", 2)], ["", "tokenizer"], "baseline")
    assert len(found.failing_groups) == 2
    found = strictest([check("fail", 2), check("fail", 1)], ["", "tokenizer"], "baseline")
    assert len(found.failing_groups) == 2


def test_of_several_swaps_the_hardest_counts_and_is_named() -> None:
    readings: dict[str, Verdict] = {
        "": "inconclusive",
        "tokenizer and preprocessing": "pass",
        "tokenizer": "pass",
        "preprocessing": "fail",
    }
    found = strictest([check(verdict) for verdict in readings.values()], list(readings), "baseline")
    assert found.verdict == "fail"
    assert "with the baseline's preprocessing (with its own: inconclusive)" in found.reason


def test_only_comparisons_lose_their_pass_where_the_baselines_tokenizer_is_not_to_be_had() -> None:
    results = [check("pass"), check("fail", 1), check("pass", rule="at_least")]
    planned, reading = Mock(against=None), CandidateReading({}, {})
    found = [compared(planned, one, reading, "because") for one in results]
    assert [one.verdict for one in found] == ["inconclusive", "fail", "pass"]
    assert found[0].reason == "pass it is; because"
    assert [group.verdict for group in found[0].groups] == ["inconclusive"]


class Nothing:
    fingerprint, folder = "nothing", Path()

    def __len__(self) -> int:
        return 0


def gone() -> Model:
    raise ModelError("the checkpoint is gone.", where="there", remedy="bring it back")


def reading(tokenizer: str | None, preprocessing: str | None) -> ModelInfo:
    return ModelInfo(uri="", fingerprint="", tokenizer=tokenizer, preprocessing=preprocessing)


def never(*_: object) -> tuple[dict[str, object], ...]:
    raise AssertionError("nothing has to be scored")


def test_a_baseline_that_cannot_be_had_is_said_and_known_to_differ_or_not() -> None:
    uri = f"open_clip:local-dir:{CHECKPOINTS / 'tuned'}"
    candidate = open_scorer(uri, Nothing(), device="cpu", cache=None)
    run = Mock(candidate=candidate, score=never, viewed=never)
    same = counterpart(run, candidate, gone, "baseline")
    assert (same.changed, same.notice, same.withheld) == ("", None, None)
    other = counterpart(run, reading("another", candidate.preprocessing), gone, "baseline")
    assert other.changed == "tokenizer"
    assert "could not be judged with: the checkpoint is gone" in str(other.withheld)
    assert "comparisons with the baseline cannot pass" in str(other.notice)
    unknown = counterpart(run, reading(None, None), gone, "baseline")
    assert (unknown.changed, unknown.withheld) == ("", None)
    assert "does not say which tokenizer and preprocessing" in str(unknown.notice)
    base = open_scorer(BASE, Nothing(), device="cpu", cache=None)
    assert counterpart(run, reading(None, None), lambda: base, "baseline").notice is None


def reader(tokenizer: str, preprocessing: str) -> Mock:
    """A model that reads with parts of another one, and embeds nothing alike then."""

    def reading_as(_: Model, **parts: bool) -> Mock:
        return Mock(swapped=tuple(part for part, swap in parts.items() if swap))

    found = Mock(spec=open_scorer(BASE, Nothing(), device="cpu", cache=None), precision="fp32")
    found.tokenizer, found.preprocessing, found.uri = tokenizer, preprocessing, BASE
    found.reading_as.side_effect = reading_as
    found.embeds_alike.return_value = False
    return found


@pytest.mark.parametrize(
    ("own", "tried"),
    [
        (("a", "b"), []),
        (("x", "b"), [("tokenizer",)]),
        (("a", "x"), [("preprocessing",)]),
        (("x", "x"), [("tokenizer", "preprocessing"), ("tokenizer",), ("preprocessing",)]),
    ],
)
def test_of_two_changes_each_is_swapped_alone_as_well(own: tuple[str, str], tried: list[tuple[str, ...]]) -> None:
    base = reader("a", "b")
    run = Mock(candidate=reader(*own), score=lambda one, _: ({"part": one.swapped},), viewed=never)
    found = counterpart(run, reading("a", "b"), lambda: base, "baseline")
    assert list(found.answers) == [" and ".join(parts) for parts in tried]
    assert list(found.answers.values()) == [({"part": parts},) for parts in tried]
    assert ("with both and with each alone" in str(found.notice)) == (len(tried) > 1)
