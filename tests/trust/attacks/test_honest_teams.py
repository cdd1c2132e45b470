"""What honest teams see: the words of each story, and that none is red without a way forward."""

from __future__ import annotations

import shutil

import numpy as np
from attack_world import TEAM_SUITE, Repository, ToyRepository, suite_with
from safetensors.numpy import load_file, save_file
from story_team import WEIGHTS, write_portraits
from toy_repository import release as toy_release


def test_a_change_of_documentation_passes_and_says_that_the_checkpoint_is_the_baselines(
    toy_repo: ToyRepository,
) -> None:
    toy_repo.branch()
    (toy_repo.root / "README.md").write_text("words", encoding="utf-8")
    toy_repo.push("words")
    judged = toy_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.record.baseline is not None
    assert judged.record.baseline.unchanged
    assert "the candidate is the baseline's checkpoint: nothing changed" in judged.comment


def test_a_branch_three_weeks_behind_is_compared_with_where_it_parted_and_passes(toy_repo: ToyRepository) -> None:
    toy_repo.branch("change")
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    parted = toy_repo.git("rev-parse", "main")
    toy_repo.branch("later", "main")
    (toy_repo.root / "notes.md").write_text("three weeks of other work", encoding="utf-8")
    toy_repo.push("other work", branch="main")
    judged = toy_repo.judge("change")
    assert judged.code == 0, judged.log
    assert judged.record.baseline is not None
    assert judged.record.baseline.commit == parted
    assert not judged.all_notices


def test_a_branch_that_lacks_the_release_of_todays_suite_is_judged_on_mains_as_well(toy_repo: ToyRepository) -> None:
    for name, code in (("tuned", 0), ("biased", 1)):
        toy_repo.branch(f"change-{name}")
        toy_repo.use(name)
        toy_repo.push("fine-tuned")
        toy_repo.branch(f"later-{name}", "main")
        suite_with(toy_repo, dataset="toy@v2")
        toy_release(toy_repo.root, "v2", 40, blue=20)
        toy_repo.push("a new release", branch="main")
        judged = toy_repo.judge(f"change-{name}")
        assert judged.code == code, judged.log
        assert "this change is judged on toy/v1, and by the base's checks on main's release toy/v2" in judged.notices


def test_a_stacked_pull_request_is_judged_by_the_default_branchs_definition_too_and_passes(
    toy_repo: ToyRepository,
) -> None:
    toy_repo.branch("first")
    (toy_repo.root / "notes.md").write_text("the first of two", encoding="utf-8")
    toy_repo.push("the first")
    toy_repo.branch("second", "first")
    toy_repo.use("tuned")
    toy_repo.push("fine-tuned")
    judged = toy_repo.judge(base="first")
    assert judged.code == 0, judged.log
    assert judged.record.baseline is not None


def test_a_merge_queue_judges_what_would_be_merged(toy_repo: ToyRepository) -> None:
    for name, code in (("tuned", 0), ("biased", 1)):
        branch = f"gh-readonly-queue/main/pr-{code}"
        toy_repo.branch(branch)
        toy_repo.use(name)
        toy_repo.push("fine-tuned")
        judged = toy_repo.judge(event="merge_group")
        assert judged.code == code, judged.log
        assert judged.record.baseline is not None


def test_a_push_to_main_is_compared_with_main_before_it(toy_repo: ToyRepository) -> None:
    before = toy_repo.git("rev-parse", "main")
    for name, code in (("tuned", 0), ("biased", 1)):
        toy_repo.branch("next", before)
        toy_repo.use(name)
        toy_repo.push("merged", branch="main")
        judged = toy_repo.judge("main", event="push", before=before)
        assert judged.code == code, judged.log
        assert judged.record.baseline is not None
        assert judged.record.baseline.commit == before


def test_a_new_release_of_the_dataset_is_named_and_the_baselines_checkpoint_is_scored_on_it(
    team_repo: Repository,
) -> None:
    team_repo.branch()
    shutil.rmtree(team_repo.root / "datasets" / "faces")
    write_portraits(team_repo.root / "datasets" / "faces" / "v2", "v2", range(10, 50))
    team_repo.use("tuned")
    team_repo.push("fine-tuned; a new release")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.record.baseline is not None
    assert judged.record.baseline.rescored is not None
    assert "faces/v2" in judged.notices
    assert "faces/v1" in judged.notices


def test_a_temperature_that_moves_nothing_by_a_margin_passes_without_a_word(team_repo: Repository) -> None:
    team_repo.branch()
    weights = team_repo.use("tuned") / WEIGHTS
    tensors = load_file(weights)
    tensors["logit_scale"] = np.asarray(tensors["logit_scale"] + np.log(1.2), dtype=tensors["logit_scale"].dtype)
    save_file(tensors, weights, metadata={"format": "pt"})
    team_repo.push("fine-tuned; another temperature")
    judged = team_repo.judge()
    assert judged.code == 0, judged.log
    assert judged.record.model.logit_scale is not None
    assert not judged.record.notices


def test_a_far_temperature_has_a_way_forward_a_waiver_that_is_merged_first(team_repo: Repository) -> None:
    waived = (
        TEAM_SUITE
        + "waivers:\n"
        + "".join(
            f"  - {{check: {check}, until: 2099-01-01, reason: another temperature}}\n"
            for check in ("no-regression", "sure", "gaps")
        )
    )
    team_repo.branch("waiver")
    team_repo.suite.write_text(waived, encoding="utf-8")
    team_repo.push("the temperature changes on purpose", branch="main")
    team_repo.git("checkout", "--quiet", "-B", "main")
    team_repo.branch("change", "main")
    weights = team_repo.use("tuned") / WEIGHTS
    tensors = load_file(weights)
    tensors["logit_scale"] = np.asarray(tensors["logit_scale"] - 1.5, dtype=tensors["logit_scale"].dtype)
    save_file(tensors, weights, metadata={"format": "pt"})
    team_repo.push("fine-tuned; a far temperature")
    judged = team_repo.judge()
    assert "fail" not in {check.verdict for check in judged.record.checks if not check.waived}, judged.log
    assert judged.code == 0, judged.log
    assert "temperature" in judged.notices
