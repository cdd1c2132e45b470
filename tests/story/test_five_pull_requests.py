"""What a team lives through: a main branch with a baseline, and five pull requests that touch it."""

from __future__ import annotations

import pytest
from story_team import SHIPPED, SUITE, Team

pytestmark = pytest.mark.xdist_group("story")


def test_one_a_harmless_pull_request_passes(team: Team) -> None:
    team.pull_request("harmless")
    team.use(SHIPPED / "tuned")
    team.git.commit("fine-tuned")
    code, output, record = team.gate()
    assert code == 0, output
    assert record.verdict == "pass"
    assert record.baseline is not None
    assert record.baseline.commit == team.git("merge-base", "main", "HEAD")
    assert record.definition is not None
    assert record.definition.changes == []
    assert record.baseline.rescored is None


def test_a_pull_request_that_leaves_the_checkpoint_alone_passes_and_says_so(team: Team) -> None:
    team.pull_request("documentation")
    (team.root / "README.md").write_text("words", encoding="utf-8")
    team.git.commit("words")
    code, output, record = team.gate()
    assert code == 0, output
    assert record.baseline is not None
    assert record.baseline.unchanged
    assert {check.delta for check in record.checks if check.against == "baseline"} == {0.0}


def test_two_a_biased_pull_request_fails_and_the_comment_names_the_cell(team: Team) -> None:
    team.pull_request("biased")
    team.use(SHIPPED / "biased")
    team.git.commit("fine-tuned on what was at hand")
    code, _, record = team.gate()
    assert code == 1
    assert {check.subject for check in record.checks if check.verdict == "fail"} == {"doctor"}
    gap = next(check for check in record.checks if check.item == "gaps[doctor]")
    assert gap.verdict == "fail"
    assert gap.worst_group in ("brown × female", "dark × female")
    verdict, told = team.comment.split("\n\n", 1)[0], team.comment
    assert "✗" in verdict
    assert "doctor" in told
    assert gap.worst_group in told


def test_three_a_loosened_bound_is_flagged_and_the_old_one_decides(team: Team) -> None:
    team.pull_request("loosened")
    team.use_between(0.75)
    text = SUITE.replace("at_least: 0.90", "at_least: 0.50").replace("margin: 0.02,", "margin: 0.5,")
    team.suite.write_text(text.replace("anchor_margin: 0.04", "anchor_margin: 0.5"), encoding="utf-8")
    team.git.commit("fine-tuned; bounds were too tight")
    code, output, record = team.gate()
    assert code == 1
    assert record.definition is not None
    changed = {change.what: (change.before, change.now) for change in record.definition.changes}
    assert changed["checks.fairness.at_least"] == ("0.9", "0.5")
    assert changed["checks.no-regression.margin"] == ("0.02", "0.5")
    held = next(check for check in record.checks if check.item == "fairness[doctor]")
    assert (held.verdict, held.bound, held.decided_by) == ("fail", 0.9, "merge base")
    assert (held.other_bound, held.other_verdict) == (0.5, "pass")
    for told in (output, team.comment):
        assert "gate definition changed" in told.lower()
        assert "0.5" in told


def test_a_check_that_a_pull_request_takes_away_or_waives_still_decides(team: Team) -> None:
    team.pull_request("without")
    team.use(SHIPPED / "biased")
    kept = [line for line in SUITE.splitlines() if "id: fairness" not in line]
    waived = "waivers:\n  - {check: gaps, until: 2999-01-01, reason: we know}\n"
    team.suite.write_text("\n".join(kept) + "\n" + waived, encoding="utf-8")
    team.git.commit("fewer checks")
    code, _, record = team.gate()
    assert code == 1
    by_item = {check.item: check for check in record.checks}
    assert by_item["fairness[doctor]"].verdict == "fail"
    assert by_item["fairness[doctor]"].decided_by == "merge base"
    assert by_item["gaps[doctor]"].verdict == "fail"
    assert not by_item["gaps[doctor]"].waived
    assert record.definition is not None
    assert {"checks.fairness", "waivers.gaps"} <= {change.what for change in record.definition.changes}


def test_four_another_release_has_the_baseline_scored_again_and_says_so(team: Team) -> None:
    team.pull_request("release")
    team.use(SHIPPED / "tuned")  # the baseline's checkpoint is to be had at the merge base only
    team.suite.write_text(SUITE.replace("faces@v1", "faces@v2"), encoding="utf-8")
    team.git.commit("the new release")
    code, output, record = team.gate()
    assert code == 10, output
    assert [each.kind for each in record.needs_approval] == ["dataset"]
    assert record.dataset.version == "v2"
    assert record.baseline is not None
    assert record.baseline.rescored is not None
    assert "'faces/v1'" in record.baseline.rescored
    assert "'faces/v2'" in record.baseline.rescored
    assert record.definition is not None
    assert {change.what for change in record.definition.changes} == {"dataset"}
    compared = [check for check in record.checks if check.against == "baseline"]
    assert compared
    assert all(check.delta is not None for check in compared)
    for told in (output, team.comment):
        assert "faces/v1" in told
        assert "scored" in told
    team.use(SHIPPED / "biased")
    assert team.gate()[0] == 1


def test_five_ten_small_regressions_in_a_row_are_caught_by_the_anchor(team: Team) -> None:
    """Each step passes against the checkpoint before it, is merged, and becomes the baseline of the next one."""
    start = team.git("rev-parse", "main")
    try:
        caught = None
        for step in range(1, 11):
            team.pull_request(f"step-{step}")
            team.use_between(0.09 * step)
            team.git.commit(f"step {step}")
            code, output, record = team.gate()
            against = {check.verdict for check in record.checks if check.against != "anchor"}
            assert against == {"pass"}, output  # none of the ten would ever fail by itself
            if code != 0:
                caught = step
                failed = [check.item for check in record.checks if check.verdict != "pass"]
                assert "no-regression@anchor[doctor]" in failed
                assert all("@anchor" in item for item in failed)
                assert "anchor" in team.comment
                assert team.update_baseline("the next step")[0] == 4  # a run that did not pass is not kept
                break
            assert team.update_baseline("the next step")[0] == 0
            team.git.commit(f"step {step} is the baseline now")
            team.merge(f"step-{step}")
        assert caught is not None
        assert 3 <= caught <= 10
    finally:
        team.git("checkout", "--quiet", "--force", "main")
        team.git("reset", "--quiet", "--hard", start)
