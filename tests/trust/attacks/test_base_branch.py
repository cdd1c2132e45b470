"""What a change is compared with: the base branch as it is now, the default branch too, and nothing of the author's."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from attack_world import Repository, ToyRepository
from github_files import ACTION, step_of
from nightly import some
from scratch_git import ScratchGit


def loose(repository: Repository) -> None:
    text = repository.suite.read_text(encoding="utf-8")
    text = re.sub(
        r"(metric: fairness.* at_least): [\d.]+", r"\1: 0.5", re.sub(r"at_most: [\d.]+", "at_most: 0.69", text)
    )
    repository.suite.write_text(re.sub(r"margin: [\d.]+", "margin: 0.5", text), encoding="utf-8")


def lax_branch(repository: Repository) -> None:
    """A branch `lax` of the author's, whose gate is open, and whose baseline is the more biased model's."""
    repository.branch("lax")
    repository.use("biased")
    loose(repository)
    repository.update_baseline("mine", "--baseline", "none", "--force")
    repository.push("lax")


def test_a_lax_branch_as_base_is_judged_by_the_default_branchs_bounds_too(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    text = toy_repo.suite.read_text(encoding="utf-8").replace("at_most: 0.45", "at_most: 0.2")
    toy_repo.suite.write_text(text, encoding="utf-8")
    lax_branch(toy_repo)
    toy_repo.branch("change", "lax")
    toy_repo.push("words")
    judged = toy_repo.judge(base="lax")
    assert "the base is origin/lax, not the default branch origin/main" in judged.notices
    assert "not the default branch" in judged.comment
    deciders = {check.decided_by for check in judged.record.checks}
    assert "default branch" in deciders
    retargeted = toy_repo.judge(base="main")  # the `edited` event judges again
    assert retargeted.code == 1, retargeted.log


def test_a_bound_that_the_lax_branch_misses_fails_there_already(toy_repo: ToyRepository) -> None:
    lax_branch(toy_repo)
    toy_repo.branch("main", "main")
    text = toy_repo.suite.read_text(encoding="utf-8").replace("at_least: 0.9}", "at_least: 0.99999}")
    toy_repo.suite.write_text(text, encoding="utf-8")
    toy_repo.push("tight")
    toy_repo.branch("change", "lax")
    toy_repo.push("words")
    judged = toy_repo.judge("change", base="lax")
    assert judged.code == 1, judged.log
    assert judged.record.checks[0].decided_by == "default branch"


def test_the_base_is_fetched_when_the_gate_runs(toy_repo: ToyRepository) -> None:
    """The checkout is of yesterday; main was tightened since."""
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    stale = clone(toy_repo, "change")
    toy_repo.branch("main", "main")
    text = toy_repo.suite.read_text(encoding="utf-8").replace("at_least: 0.9}", "at_least: 0.99999}")
    toy_repo.suite.write_text(text, encoding="utf-8")
    toy_repo.push("tight")
    judged = toy_repo.judge("change", fresh=False)
    assert stale.is_dir()
    assert judged.code == 1, judged.log
    assert judged.record.checks[0].decided_by == "base tip"


def test_a_base_that_cannot_be_fetched_is_no_verdict(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.push("words")
    git = ScratchGit(clone(toy_repo, "change"))
    git("remote", "set-url", "origin", str(toy_repo.origin.with_name("gone.git")))
    judged = toy_repo.judge(fresh=False)
    assert (judged.code, judged.verdict) == (3, "error")
    assert "No verdict: the branch main could not be fetched" in judged.log
    assert not judged.folder.exists()


def test_fetching_starts_no_program_of_the_checkout(toy_repo: ToyRepository, tmp_path: Path) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    folder = clone(toy_repo, "change")
    rung = tmp_path / "rung"
    for name in ("reference-transaction", "post-checkout", "post-merge", "pre-auto-gc"):
        hook = folder / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {rung}\n", encoding="utf-8")
        hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    ScratchGit(folder)("config", "core.fsmonitor", f"touch {rung};")
    toy_repo.branch("main", "main")
    toy_repo.push("main moves")
    rung.unlink(missing_ok=True)
    judged = toy_repo.judge("change", fresh=False)
    assert judged.code == 0, judged.log
    assert not rung.exists()


@pytest.mark.parametrize("name", some(["main\n::add-mask::x", "../main", "main:refs/heads/main", "-u", ""], few=2))
def test_a_base_of_another_name_than_a_branch_is_refused(toy_repo: ToyRepository, name: str) -> None:
    toy_repo.branch()
    toy_repo.push("words")
    judged = toy_repo.judge(base=name, environment={"GITHUB_BASE_REF": "main"})
    assert (judged.code == 3) == bool(name), judged.log
    assert not any("add-mask" in line for line in judged.ran.obeyed)


def test_the_token_is_in_no_step_that_runs_a_checkpoint() -> None:
    assert "TOKEN" in step_of(ACTION, "Find the base")["env"]
    judge = step_of(ACTION, "Judge the checkpoint")["env"]
    assert not [name for name, text in judge.items() if "token" in str(text).lower()]


def test_a_commit_that_the_base_holds_already_is_reported(toy_repo: ToyRepository) -> None:
    """A base that has the candidate in it: nothing is compared with what was there before."""
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    toy_repo.branch("other", "change")
    toy_repo.push("on top of it")
    judged = toy_repo.judge("change", base="other")
    assert "the merge base is the candidate itself" in judged.notices
    assert "the merge base is the candidate itself" in judged.comment


def test_histories_that_share_nothing_are_red_with_a_remedy(toy_repo: ToyRepository) -> None:
    toy_repo.git("checkout", "--quiet", "--orphan", "change")
    toy_repo.push("a beginning of its own")
    judged = toy_repo.judge()
    assert judged.code == 4, judged.log
    assert "no common commit" in judged.log
    assert "fetch-depth: 0" in judged.log


def test_a_checkout_that_is_cut_short_is_red_with_a_remedy(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.push("one")
    toy_repo.branch("main", "main")
    toy_repo.push("another")
    folder = place(toy_repo)
    words = ("clone", "--quiet", "--depth", "1", "--branch", "change", f"file://{toy_repo.origin}", str(folder))
    ScratchGit(toy_repo.runner)(*words)
    judged = toy_repo.judge("change", fresh=False)
    assert judged.code == 4, judged.log
    assert "the history is cut short" in judged.log
    assert "fetch-depth: 0" in judged.log


def merge(repository: Repository, into: str, *branches: str) -> str:
    repository.branch(into, "main")
    for branch in branches:
        repository.git("merge", "--quiet", "--no-ff", "--message", f"merge {branch}", branch)
    return repository.push("queued")


@pytest.mark.parametrize(("model", "code"), some([("biased", 1), ("tuned", 10)], few=1))
def test_a_merge_queue_is_judged_by_the_branch_that_it_is_for(toy_repo: ToyRepository, model: str, code: int) -> None:
    toy_repo.branch("change")
    toy_repo.use(model)
    loose(toy_repo)
    toy_repo.push("fine-tuned, wider margins")
    merge(toy_repo, "gh-readonly-queue/main/pr-7", "change")
    judged = toy_repo.judge(event="merge_group")
    assert judged.code == code, judged.log
    assert judged.record.definition is not None
    assert judged.record.definition.commit == toy_repo.git("rev-parse", "refs/heads/main")
    assert judged.record.environment.pull_request in (None, 7)


@pytest.mark.parametrize(("model", "code"), some([("biased", 1), ("tuned", 10)], few=1))
def test_a_push_to_main_is_compared_with_main_before_it(toy_repo: ToyRepository, model: str, code: int) -> None:
    before = toy_repo.git("rev-parse", "main")
    toy_repo.branch("main", "main")
    toy_repo.use(model)
    loose(toy_repo)
    toy_repo.update_baseline("mine", "--baseline", "none", "--force")
    toy_repo.push("straight to main")
    judged = toy_repo.judge("main", event="push", before=before)
    assert judged.code == code, judged.log
    assert judged.record.baseline is not None
    assert judged.record.baseline.commit == before
    assert "ate definition changed" in judged.comment


def test_the_push_that_brings_a_suite_its_first_baseline_is_green(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    toy_repo.git("rm", "--quiet", "-r", "fairness_suites/baselines")
    before = toy_repo.push("no baseline yet")
    toy_repo.update_baseline("the first")
    toy_repo.push("the first baseline")
    judged = toy_repo.judge("main", event="push", before=before)
    assert judged.code == 0, judged.log


def test_the_first_push_of_a_branch_is_compared_with_the_default_branch(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    judged = toy_repo.judge(event="push", baseline="git:origin/main")
    assert judged.code == 0, judged.log
    assert "is not known here" in judged.log
    assert judged.record.definition is not None
    assert judged.record.definition.commit == toy_repo.git("rev-parse", "main")


def test_a_stacked_pull_request_is_green_with_its_base_named(toy_repo: ToyRepository) -> None:
    toy_repo.branch("first")
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    toy_repo.branch("second", "first")
    (toy_repo.root / "README.md").write_text("words", encoding="utf-8")
    toy_repo.push("words")
    judged = toy_repo.judge("second", base="first")
    assert judged.code == 0, judged.log
    assert "the base is origin/first, not the default branch origin/main" in judged.notices


def test_a_branch_three_weeks_behind_is_green_where_the_gate_is_as_it_was(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    toy_repo.branch("main", "main")
    for number in range(3):
        (toy_repo.root / "README.md").write_text(f"words {number}", encoding="utf-8")
        toy_repo.push("words")
    judged = toy_repo.judge("change")
    assert judged.code == 0, judged.log
    assert judged.notices == ""


def place(repository: Repository) -> Path:
    """Where the next job's working folder is."""
    folder = repository.runner / f"job{repository.jobs + 1}" / "work"
    folder.parent.mkdir(parents=True)
    return folder


def clone(repository: Repository, branch: str) -> Path:
    """The next job's checkout, made now."""
    folder = place(repository)
    ScratchGit(repository.runner)("clone", "--quiet", str(repository.origin), str(folder))
    ScratchGit(folder)("checkout", "--quiet", "--detach", f"origin/{branch}")
    return folder
