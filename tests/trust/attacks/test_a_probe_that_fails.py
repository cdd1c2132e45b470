"""A probe that a branch adds and that cannot be computed hides nothing, and is called by one word everywhere."""

from __future__ import annotations

import pytest
from attack_world import ToyRepository
from test_gate_definition import Suite, edited

QUESTION = {
    "kind": "zero_shot_classification",
    "template": "nothing that a table answers: {label}",
    "labels": {"chef": ["chef", "line cook"], "doctor": ["doctor", "nurse"]},
}


@pytest.mark.parametrize(
    ("model", "code", "verdict", "outcome", "words"),
    [
        ("biased", 1, "fail", "shut", "fail, and 8 checks could not be computed"),
        ("tuned", 3, "error", "no verdict", "nothing could be computed"),
    ],
)
def test_record_exit_code_output_and_comment_agree(
    toy_repo: ToyRepository, model: str, code: int, verdict: str, outcome: str, words: str
) -> None:
    def asks_more(suite: Suite) -> None:
        suite["probes"] |= {"unanswered": QUESTION}  # type: ignore[operator]
        suite["checks"] += [{"id": "own", "probe": "unanswered", "metric": "fairness", "at_least": 0.5}]  # type: ignore[operator]

    toy_repo.branch()
    toy_repo.use(model)
    edited(toy_repo, asks_more)
    toy_repo.push("another question")
    judged = toy_repo.judge()
    assert (judged.code, judged.record.exit_code) == (code, code), judged.log
    assert (judged.verdict, judged.record.verdict, judged.ran.outputs["outcome"]) == (verdict, verdict, outcome)
    heading = next(line for line in judged.comment.splitlines() if line.startswith("## "))
    assert words in heading
    assert words in judged.log
