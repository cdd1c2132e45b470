"""What a person has to weigh closes the gate with exit code 10, until the default branch approves that very change."""

from __future__ import annotations

import re
from datetime import date

import pytest
import yaml
from attack_world import Judged, Repository, ToyRepository, suite_with
from nightly import some
from test_base_branch import merge
from test_gate_definition import edited, loose, pytest_in
from typer.testing import CliRunner

from fairgate.interfaces.cli.main import app
from fairgate.reports import read_results


def loosened_gate(repository: Repository, model: str = "tuned", branch: str = "change") -> Judged:
    """A change that widens every bound."""
    repository.branch(branch)
    repository.use(model)
    loose(repository)
    repository.push("wider margins")
    return repository.judge()


def approve(repository: Repository, judged: Judged, *words: str, branch: str = "main") -> str:
    """`fairgate approve` of all that a run asks for, pushed to a branch; what it prints."""
    repository.branch(branch, branch)
    root = str(repository.root)
    result = CliRunner().invoke(
        app, ["approve", "jobs", "--from", str(judged.folder), "--reason", "weighed in issue 7", "--root", root, *words]
    )
    assert result.exit_code == 0, result.output
    repository.push("approved")
    return result.output


def kinds(judged: Judged) -> list[str]:
    """What a run asks for."""
    return [each.kind for each in judged.record.needs_approval]


def test_a_weaker_gate_is_open_once_the_default_branch_approves_it(toy_repo: ToyRepository) -> None:
    asked = loosened_gate(toy_repo)
    assert (asked.code, asked.verdict, asked.ran.outputs["outcome"]) == (10, "pass", "needs approval")
    assert kinds(asked).count("definition") == 1
    assert not asked.record.ok
    assert asked.comment.index("Needs an approval") < asked.comment.index("Coverage:")
    assert "fairgate approve jobs --from REPORT" in asked.comment
    assert "approved: definition: the gate may be weaker" in approve(toy_repo, asked)
    judged = toy_repo.judge("change")
    assert judged.code == 0, judged.log
    assert "approved on main until" in judged.notices
    assert "weighed in issue 7" in judged.comment


def test_an_approval_on_the_branch_itself_or_on_another_base_does_not_count(toy_repo: ToyRepository) -> None:
    asked = loosened_gate(toy_repo)
    approve(toy_repo, asked, branch="change")
    judged = toy_repo.judge("change", environment={"GITHUB_HEAD_REF": "main"})  # a fork's own main
    assert judged.code == 10, judged.log
    toy_repo.branch("lax", "main")
    toy_repo.push("a base of my own")
    approve(toy_repo, asked, branch="lax")
    judged = toy_repo.judge("change", base="lax")
    assert judged.code == 10, judged.log


def test_an_approval_clears_neither_the_way_back_nor_another_change(toy_repo: ToyRepository) -> None:
    approve(toy_repo, loosened_gate(toy_repo))
    text = toy_repo.suite.read_text(encoding="utf-8")
    toy_repo.branch()
    toy_repo.suite.write_text(re.sub(r"margin: [\d.]+", "margin: 0.4", text), encoding="utf-8")
    toy_repo.push("another width")
    assert toy_repo.judge().code == 10
    toy_repo.branch("main", "main")
    loose(toy_repo)
    toy_repo.push("as approved")
    toy_repo.branch("back")
    edited(toy_repo, lambda suite: suite["checks"].append({**suite["checks"][0], "id": "more"}))  # type: ignore[attr-defined]
    toy_repo.push("more checks")
    toy_repo.branch("main", "main")
    merge(toy_repo, "main", "back")
    toy_repo.branch("revert")
    edited(toy_repo, lambda suite: suite["checks"].pop())  # type: ignore[attr-defined]
    toy_repo.push("without it")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert "checks.more" in judged.record.needs_approval[0].what


def test_an_approval_that_is_over_does_not_count_and_says_when_it_ended(toy_repo: ToyRepository) -> None:
    approve(toy_repo, loosened_gate(toy_repo))
    edited(toy_repo, lambda suite: suite["approvals"][0].update(until=date(2026, 1, 31)))  # type: ignore[index]
    toy_repo.push("over")
    judged = toy_repo.judge("change")
    assert judged.code == 10, judged.log
    assert "expired on 2026-01-31" in judged.record.needs_approval[0].what


def test_an_edit_that_only_adds_approvals_is_printed_and_open(toy_repo: ToyRepository) -> None:
    asked = loosened_gate(toy_repo)
    toy_repo.branch("approval")
    approve(toy_repo, asked, branch="approval")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    assert "approvals.definition" in judged.comment


def test_a_stricter_gate_needs_no_approval(toy_repo: ToyRepository) -> None:
    def tightened(suite: dict[str, object]) -> None:
        for check in suite["checks"]:  # type: ignore[attr-defined]
            if "margin" in check:
                check["margin"] = check["margin"] / 1.25
        suite["checks"].append({**suite["checks"][0], "id": "again"})  # type: ignore[attr-defined, index]

    toy_repo.branch()
    edited(toy_repo, tightened)
    toy_repo.push("tighter")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.record.definition is not None
    assert judged.record.definition.changes != []


@pytest.mark.parametrize(
    "edit",
    [
        {"on_inconclusive": "warn"},
        {"approval": "note"},
        {"groups": {"min_sets": 10}},
        {"decision": {"alpha": 0.2}},
        {"waivers": [{"check": "fairness", "until": date(2099, 1, 1), "reason": "mine"}]},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_what_may_make_the_gate_weaker_needs_an_approval(toy_repo: ToyRepository, edit: dict[str, object]) -> None:
    toy_repo.branch()
    suite_with(toy_repo, **edit)
    toy_repo.push("an edit")
    judged = toy_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["definition"]), judged.log


def test_an_interval_in_the_place_of_the_estimate_needs_an_approval(toy_repo: ToyRepository) -> None:
    """A failure by the estimate can be undecided by the interval, and thin evidence may be allowed."""

    def by_interval(suite: dict[str, object]) -> None:
        for check in suite["checks"]:  # type: ignore[attr-defined]
            if "at_least" in check:
                check["decide"] = "interval"

    toy_repo.branch()
    edited(toy_repo, by_interval)
    toy_repo.push("intervals")
    assert "definition" in kinds(toy_repo.judge())


def test_a_team_keeps_notices_where_its_default_branch_asks_for_notes(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    suite_with(toy_repo, approval="note")
    toy_repo.push("we read notices")
    judged = loosened_gate(toy_repo)
    assert judged.code == 0, judged.log
    assert "the gate may be weaker" in judged.notices


def test_failures_and_runs_without_a_verdict_come_before_approvals(toy_repo: ToyRepository) -> None:
    failed = loosened_gate(toy_repo, "biased")
    assert (failed.code, "definition" in kinds(failed)) == (1, True)
    toy_repo.branch("none")
    loose(toy_repo)
    (toy_repo.root / "model.csv").write_text("nothing\n", encoding="utf-8")
    toy_repo.push("no table")
    assert toy_repo.judge().code == 3


def test_a_stacked_pull_request_needs_what_its_base_needs_and_one_approval_clears_both(toy_repo: ToyRepository) -> None:
    lower = loosened_gate(toy_repo, branch="lower")
    toy_repo.branch("upper", "lower")
    (toy_repo.root / "notes.md").write_text("more\n", encoding="utf-8")
    toy_repo.push("on top")
    upper = toy_repo.judge("upper", base="lower")
    assert upper.code == 10, upper.log
    digests = [
        [(each.before, each.now) for each in run.record.needs_approval if each.kind == "definition"]
        for run in (lower, upper)
    ]
    assert digests[0] == digests[1]
    approve(toy_repo, lower)
    assert toy_repo.judge("upper", base="lower").code == 0
    assert toy_repo.judge("lower").code == 0


def test_a_merge_queue_and_the_push_after_it_take_the_approval_of_the_default_branch(toy_repo: ToyRepository) -> None:
    approve(toy_repo, loosened_gate(toy_repo))
    merge(toy_repo, "gh-readonly-queue/main/pr-7", "change")
    queued = toy_repo.judge(event="merge_group")
    assert queued.code == 0, queued.log
    before = toy_repo.git("rev-parse", "main")
    toy_repo.branch("main", "gh-readonly-queue/main/pr-7")
    toy_repo.push("merged")
    pushed = toy_repo.judge("main", event="push", before=before)
    assert pushed.code == 0, pushed.log


@pytest.mark.parametrize("workers", some([(), ("-n", "2")], few=1))
def test_pytest_ends_with_10_and_its_junit_file_has_the_list_first(
    toy_repo: ToyRepository, workers: tuple[str, ...]
) -> None:
    loosened_gate(toy_repo)
    words = ("--fairness-suite", "jobs", "--fairness-baseline", "git:origin/main", "--junitxml", "junit.xml", *workers)
    code, log, clone = pytest_in(toy_repo, *words, env={"FAIRGATE_BASE": "origin/main"})
    assert code == 10, log
    assert "needs approval: definition" in log
    assert read_results(clone / "out" / "results.json").exit_code == 10
    properties = re.findall(r'<property name="(fairgate\.[^"]+)"', (clone / "junit.xml").read_text(encoding="utf-8"))
    run = next(name for name in properties if not name.startswith("fairgate.check"))
    assert run == "fairgate.needs_approval.1"


def test_an_approval_keeps_every_other_line_of_the_suite(toy_repo: ToyRepository) -> None:
    asked = loosened_gate(toy_repo)
    toy_repo.branch("main", "main")
    text = f"# read me\n{toy_repo.suite.read_text(encoding='utf-8')}"
    toy_repo.suite.write_text(text, encoding="utf-8")
    toy_repo.push("a comment")
    approve(toy_repo, asked, "--until", "2099-01-01")
    now = toy_repo.suite.read_text(encoding="utf-8")
    assert [line for line in now.splitlines() if line in text.splitlines()] == text.splitlines()
    (approval,) = (each for each in yaml.safe_load(now)["approvals"] if each["kind"] == "definition")
    assert (approval["kind"], str(approval["until"]), approval["reason"]) == (
        "definition",
        "2099-01-01",
        "weighed in issue 7",
    )


def tightened(suite: dict[str, object]) -> None:
    for check in suite["checks"]:  # type: ignore[attr-defined]
        if check["id"] == "fairness":
            check["at_least"] = 0.93


def test_what_a_merged_branch_tightened_is_not_taken_back_from_inside_that_branch(toy_repo: ToyRepository) -> None:
    """The merge base on main's first-parent line has the wide bound, git's own the tight one: a merge takes it back."""
    wide = toy_repo.suite.read_text(encoding="utf-8")
    toy_repo.branch("tighter", "main")
    edited(toy_repo, tightened)
    toy_repo.push("a tighter bound")
    toy_repo.branch("main", "main")
    merge(toy_repo, "main", "tighter")
    toy_repo.branch("change", "tighter")
    (toy_repo.root / "notes.md").write_text("words\n", encoding="utf-8")
    toy_repo.push("words")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    toy_repo.suite.write_text(wide, encoding="utf-8")
    toy_repo.push("more words")
    judged = toy_repo.judge()
    assert (judged.code, kinds(judged)) == (10, ["definition"]), judged.log
    assert "checks.fairness.at_least 0.93 → 0.9" in judged.record.needs_approval[0].what


def test_commits_that_claim_to_be_old_move_no_merge_base(toy_repo: ToyRepository) -> None:
    """`git rev-list` stops looking behind a few commits with dates of long ago."""
    wide, start = toy_repo.git("rev-parse", "main^{tree}"), toy_repo.git("rev-parse", "main")
    toy_repo.branch("main", "main")
    edited(toy_repo, tightened)
    parted = old = toy_repo.push("a tighter bound")
    (toy_repo.root / "notes.md").write_text("words\n", encoding="utf-8")
    toy_repo.push("words")
    who = "A Person <person@example.com> 0 +0000"
    for _ in range(20):
        text = toy_repo.root / ".git" / "old"
        text.write_text(f"tree {wide}\nparent {old}\nauthor {who}\ncommitter {who}\n\nwords\n", encoding="utf-8")
        old = toy_repo.git("hash-object", "-t", "commit", "-w", str(text))
    head = toy_repo.git("commit-tree", wide, "-p", start, "-p", old, "-m", "words")
    assert len(toy_repo.git("rev-list", "--first-parent", "main", "--not", head).split()) == 2  # `parted` among them
    toy_repo.branch("change", head)
    toy_repo.push("words")
    judged = toy_repo.judge()
    assert judged.record.definition is not None
    assert judged.record.definition.commit == parted
    assert (judged.code, kinds(judged)) == (10, ["definition"]), judged.log
