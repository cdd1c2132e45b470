"""The attack worlds themselves: a harmless pull request passes, a more biased one fails."""

from __future__ import annotations

import sys

import pytest
from attack_world import Repository, ToyRepository


@pytest.mark.parametrize(("name", "code"), [("tuned", 0), ("biased", 1)])
def test_tables_of_scores_a_harmless_change_passes_and_a_more_biased_one_fails(
    toy_repo: ToyRepository, name: str, code: int
) -> None:
    toy_repo.branch()
    toy_repo.use(name)
    toy_repo.push("fine-tuned")
    judged = toy_repo.judge(python=sys.executable)  # a fresh one, as a runner has it; others are forks of a warm one
    assert judged.code == code, judged.log
    assert judged.verdict == ("fail" if code else "pass")
    assert any("doctor" in item for item in judged.failed) == bool(code)


@pytest.mark.parametrize(("name", "code"), [("tuned", 0), ("biased", 1)])
def test_checkpoints_a_harmless_change_passes_and_a_more_biased_one_fails(
    team_repo: Repository, name: str, code: int
) -> None:
    team_repo.branch()
    team_repo.use(name)
    team_repo.push("fine-tuned")
    judged = team_repo.judge()
    assert judged.code == code, judged.log
    assert "dark × female" in judged.comment or code == 0


@pytest.mark.nightly
def test_a_fork_of_a_warm_python_judges_as_a_fresh_python_does(team_repo: Repository) -> None:
    team_repo.branch()
    team_repo.use("biased")
    team_repo.push("fine-tuned")
    fresh, fork = team_repo.judge(python=sys.executable), team_repo.judge()
    assert (fresh.code, fresh.verdict) == (fork.code, fork.verdict)
    assert fresh.record.checks == fork.record.checks
    assert fresh.record.notices == fork.record.notices
