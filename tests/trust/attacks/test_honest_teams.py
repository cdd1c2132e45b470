"""What honest teams see: the words of each story, and that none is red without a way forward."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from attack_world import TEAM_SUITE, Repository, ToyRepository, suite_with
from safetensors.numpy import load_file, save_file
from story_team import WEIGHTS, write_portraits
from test_approvals import approve
from toy_repository import release as toy_release
from toy_repository import write_scores_table
from typer.testing import CliRunner

from fairgate.gate.baselines import baseline_folder
from fairgate.interfaces.cli.main import app


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
    assert "the candidate is the baseline's checkpoint: the model did not change" in judged.comment


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


@pytest.mark.parametrize(
    "updated", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["alone", "with its baseline"]
)
def test_a_retrained_checkpoint_passes_with_and_without_its_new_baseline(
    team_repo: Repository, *, updated: bool
) -> None:
    team_repo.branch()
    team_repo.use("tuned")
    if updated:
        team_repo.update_baseline("retrained")
    team_repo.push("retrained")
    judged = team_repo.judge()
    assert (judged.code, judged.asks_for) == (0, []), judged.log


@pytest.mark.nightly
def test_a_new_version_of_the_data_passes_once_it_is_approved_and_says_what_it_cost(team_repo: Repository) -> None:
    """The candidate is scored on both releases, and the baseline's checkpoint on the new one."""
    team_repo.branch()
    team_repo.use("tuned")
    write_portraits(team_repo.root / "datasets" / "faces" / "v2", "v2", range(10, 42))
    team_repo.git("add", "--force", "datasets/faces/v2")
    team_repo.push("a new version")
    judged = team_repo.judge(ignored=("datasets/faces/v1",))
    assert (judged.code, judged.asks_for) == (10, ["dataset"]), judged.log
    assert "by the base's checks on main's release faces/v1 as well" in judged.notices
    assert " s more" in judged.notices
    approve(team_repo, judged)
    assert team_repo.judge("change", ignored=("datasets/faces/v1",)).code == 0


@pytest.mark.nightly
def test_a_new_tokenizer_passes_once_it_is_approved(team_repo: Repository) -> None:
    """The prompts' `photo` becomes `picture`, which the baseline's tokenizer leaves as it is."""
    team_repo.branch()
    file = team_repo.use("tuned") / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    swap = {"type": "Replace", "pattern": {"String": "photo"}, "content": "picture"}
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [tokenizer["normalizer"], swap]}
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    team_repo.push("a new tokenizer")
    judged = team_repo.judge()
    assert (judged.code, judged.asks_for) == (10, ["tokenizer"]), judged.log
    approve(team_repo, judged)
    assert team_repo.judge("change").code == 0


def recorded_otherwise(repository: Repository, **environment: object) -> None:
    """Main's baseline was made in another environment."""
    repository.branch("main", "main")
    path = repository.root / baseline_folder("jobs") / "results.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["environment"] |= environment
    path.write_text(json.dumps(record), encoding="utf-8")
    repository.push("made elsewhere")
    repository.branch()
    repository.use("tuned")
    repository.push("retrained")


def test_another_plugin_than_the_baselines_needs_an_approval(toy_repo: ToyRepository) -> None:
    recorded_otherwise(toy_repo, plugins={"team-metrics": f"1.0 sha256:{'a' * 64}"})
    judged = toy_repo.judge("change")
    assert (judged.code, judged.asks_for) == (10, ["plugin"]), judged.log
    assert "the package team-metrics" in judged.notices
    approve(toy_repo, judged)
    assert toy_repo.judge("change").code == 0


def test_a_runner_with_another_device_than_the_baselines_passes_and_names_it(toy_repo: ToyRepository) -> None:
    recorded_otherwise(toy_repo, device="cuda:0")
    judged = toy_repo.judge("change")
    assert judged.code == 0, judged.log
    assert "the baseline was scored with device cuda, this run with device" in judged.log


def test_a_release_whose_baseline_becomes_the_anchor_passes_once_it_is_approved(toy_repo: ToyRepository) -> None:
    for tag in ("v1", "v2"):
        toy_repo.branch("main", "main")
        (toy_repo.root / "notes.md").write_text(tag, encoding="utf-8")
        toy_repo.push("released")
        toy_repo.git("tag", tag)
        toy_repo.git("push", "--quiet", "origin", tag)
        toy_repo.branch()
        words = ["baseline", "anchor", "jobs", tag, "--root", str(toy_repo.root)]
        assert CliRunner().invoke(app, words).exit_code == 0
        toy_repo.push("the anchor", branch="main" if tag == "v1" else None)
        toy_repo.git("branch", "--force", "main", "origin/main")
    judged = toy_repo.judge()
    assert (judged.code, judged.asks_for) == (10, ["anchor"]), judged.log
    approve(toy_repo, judged)
    assert toy_repo.judge("change").code == 0


def test_a_table_that_was_made_again_passes_once_it_is_approved(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    write_scores_table(toy_repo.root / "model.csv", 40, seed=9)
    toy_repo.push("another table")
    judged = toy_repo.judge()
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log
    approve(toy_repo, judged)
    assert toy_repo.judge("change").code == 0


def test_a_first_gate_has_nothing_to_compare_with_and_judges_from_its_merge_on(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    text = toy_repo.suite.read_text(encoding="utf-8")
    shutil.rmtree(toy_repo.suite.parent)
    toy_repo.push("no gate yet")
    toy_repo.branch("first")
    toy_repo.suite.parent.mkdir()
    toy_repo.suite.write_text(text, encoding="utf-8")
    toy_repo.update_baseline("the first one")
    toy_repo.push("a gate")
    judged = toy_repo.judge()
    assert (judged.code, judged.verdict) == (3, "error"), judged.log
    assert "no baseline is committed there" in judged.log
    assert "merge the one that this change adds, reviewed" in judged.log
    assert "the committed baseline: not there → added by this change" in judged.log
    toy_repo.push("merged", branch="main")
    toy_repo.branch("next", "first")
    toy_repo.use("tuned")
    toy_repo.push("retrained")
    assert toy_repo.judge().code == 0


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
