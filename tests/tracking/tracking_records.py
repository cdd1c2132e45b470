"""Small run records for the tests of tracking."""

from __future__ import annotations

from typing import Any

from fairgate.records import (
    BaselineInfo,
    CheckResult,
    Coverage,
    DatasetInfo,
    Decision,
    Environment,
    ModelInfo,
    RunRecord,
    Verdict,
)


def a_check(check_id: str, subject: str | None, **changes: Any) -> CheckResult:
    known: dict[str, Any] = {
        "metric": "max_skew_at_k",
        "probe": "neutral_search",
        "rule": "at_most",
        "value": 0.5,
        "lo": 0.4,
        "hi": 0.6,
        "bound": 0.9,
        "delta": 0.01,
        "p_adjusted": 0.3,
        "verdict": "pass",
        "n_sets": 40,
        "reason": "under the bound",
    }
    return CheckResult(id=check_id, subject=subject, **(known | changes))


def a_record(
    *,
    checks: list[CheckResult] | None = None,
    git_commit: str | None = "0123456789abcdef",
    seconds: float = 2.5,
    created_at: str = "2026-03-01T10:15:00+00:00",
    baseline: bool = True,
    suite: str = "occupations",
    verdict: Verdict = "pass",
    dataset: tuple[str, str] = ("v1", "f"),
    asked: str = "p",
    **place: Any,
) -> RunRecord:
    """`dataset` is a version and the letter of its fingerprint, `asked` the letter of its probe's digest; `place` goes
    to the environment."""
    return RunRecord(
        suite=suite,
        suite_digest="d" * 64,
        verdict=verdict,
        dataset=DatasetInfo(
            name="occupations",
            version=dataset[0],
            fingerprint=dataset[1] * 64,
            counterfactual=True,
            attributes={"gender": ["man", "woman"]},
        ),
        model=ModelInfo(uri="open_clip:tiny@candidate.safetensors", fingerprint="abcdef0123456789" * 4),
        baseline=BaselineInfo(source="model", uri="open_clip:tiny@base.safetensors", fingerprint="b" * 64)
        if baseline
        else None,
        coverage=Coverage(expected_sets=40, scored_sets=40, expected_images=320, scored_images=320, prompts=5),
        probes={"neutral_search": asked * 64},
        decision=Decision(alpha=0.05, correction="holm", seed=0, draws=2000),
        checks=[a_check("skew", "doctor"), a_check("fairness", None)] if checks is None else checks,
        environment=Environment(
            fairgate="0.1.0",
            python="3.11.7",
            platform="Linux",
            device="cpu",
            git_commit=git_commit,
            **({"git_dirty": None if git_commit is None else False, "ci_url": "https://ci.example/run/7"} | place),
        ),
        command="pytest --fairness-suite occupations",
        created_at=created_at,
        seconds=seconds,
    )
