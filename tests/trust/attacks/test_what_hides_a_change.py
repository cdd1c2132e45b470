"""What a change alters is named, whatever else the change adds, takes out of its own suite, or takes from history."""

from __future__ import annotations

import csv
import shutil
from typing import Any

import pytest
import toy_repository as toy
import yaml
from attack_world import Repository, ToyRepository, suite_with
from test_gate_definition import Suite, edited, merged
from test_temperature import scaled

from fairgate.data import write_dataset
from fairgate.gate.baselines import baseline_folder

FINDS = {"id": "finds", "probe": "search", "metric": "recall_at_k", "k": 1, "at_least": 0.9}
GAPS = {"id": "gaps", "probe": "labels", "metric": "group_gap", "over": "crossed", "by": "subject"}


def changed(judged_record: object) -> dict[str, tuple[str | None, str | None]]:
    definition = judged_record.definition  # type: ignore[attr-defined]
    return {one.what: (one.before, one.now) for one in definition.changes}


def test_a_failing_group_is_named_though_the_branchs_own_check_of_that_name_fails_more_groups(
    toy_repo: ToyRepository,
) -> None:
    def elsewhere(suite: Suite) -> None:
        own = {"metric": "p_true", "over": "each", "at_least": 0.99}
        suite["checks"] = [
            {"id": "gaps", "probe": "labels", "by": "subject", **own} if check["id"] == "gaps" else check
            for check in suite["checks"]  # type: ignore[attr-defined]
        ]

    toy_repo.branch()
    toy_repo.use("biased")
    edited(toy_repo, elsewhere)
    toy_repo.push("another measure")
    judged = toy_repo.judge()
    assert judged.code == 1, judged.log
    (gaps,) = [check for check in judged.record.checks if check.item == "gaps[doctor]"]
    assert (gaps.decided_by, [group.group for group in gaps.failing_groups]) == ("merge base", ["dark × female"])
    assert "dark × female" in judged.comment


def test_a_temperature_that_moves_a_check_of_the_base_is_named_though_the_branchs_suite_lacks_the_check(
    toy_repo: ToyRepository,
) -> None:
    fairness = {"id": "fairness", "probe": "labels", "metric": "fairness", "by": "subject", "at_least": 0.85}
    useful = {"id": "useful", "probe": "labels", "metric": "accuracy", "no_worse_than": "baseline", "margin": 0.2}
    merged(toy_repo, checks=[fairness, useful, FINDS])
    toy_repo.branch()
    scaled(toy_repo.use("biased"), 0.01)
    suite_with(toy_repo, checks=[useful, FINDS])
    toy_repo.push("fine-tuned")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert "That alone moves fairness[doctor] from" in judged.notices
    assert "label temperature" in judged.comment


def test_many_additions_hide_no_edit_of_the_gate_and_no_pointer(toy_repo: ToyRepository) -> None:
    pointer = "outs:\n- md5: '{}'\n  size: 3\n  hash: md5\n  path: {}\n"
    toy_repo.branch("main", "main")
    (toy_repo.root / "weights.bin.dvc").write_text(pointer.format("1" * 32, "weights.bin"), encoding="utf-8")
    toy_repo.push("tracked")

    def flood(suite: Suite) -> None:
        new = {f"a{number}": {"kind": "retrieval", "prompts": ["{subject}"]} for number in range(120)}
        suite["probes"] = {**new, **suite["probes"]}  # type: ignore[dict-item]
        for check in suite["checks"]:  # type: ignore[attr-defined]
            if check["id"] == "gaps":
                check["margin"] = 0.5

    toy_repo.branch()
    toy_repo.use("tuned")
    (toy_repo.root / "weights.bin.dvc").write_text(pointer.format("2" * 32, "weights.bin"), encoding="utf-8")
    for number in range(12):
        (toy_repo.root / f"a{number}.dvc").write_text(pointer.format("3" * 32, f"a{number}"), encoding="utf-8")
    edited(toy_repo, flood)
    toy_repo.push("much that is new")
    judged = toy_repo.judge()
    assert judged.code == 10, judged.log
    assert "weights.bin has other content than at the merge base" in judged.comment
    assert "checks.gaps.margin" in judged.comment


def test_an_anchor_that_is_taken_out_of_the_suite_is_named_where_its_record_is_edited_too(
    toy_repo: ToyRepository,
) -> None:
    records, release = toy_repo.root / baseline_folder("jobs"), toy_repo.root / "release"
    toy_repo.branch("main", "main")
    shutil.copytree(records, release)
    compared = {**GAPS, "no_worse_than": "baseline", "margin": 0.04}
    suite_with(toy_repo, anchor="file:release", checks=[compared, FINDS])
    toy_repo.push("an anchor")
    toy_repo.branch()
    toy_repo.use("biased")
    toy_repo.update_baseline("mine", "--baseline", "none", "--force")
    shutil.copytree(records, release, dirs_exist_ok=True)
    suite_with(toy_repo, anchor=None)
    toy_repo.push("no anchor")
    judged = toy_repo.judge()
    assert "this change edits release, the record that it is compared with" in judged.notices, judged.log


@pytest.mark.parametrize("gate", ["bounds", "margins"])
def test_a_dataset_in_git_that_the_change_edits_is_named_though_nothing_is_compared(
    toy_repo: ToyRepository, gate: str
) -> None:
    bound = {"id": "acc", "probe": "labels", "metric": "accuracy", "over": "crossed", "at_least": 0.85}
    if gate == "bounds":
        merged(toy_repo, checks=[bound, FINDS])
    toy_repo.branch()
    toy_repo.use("biased")
    rotate_the_groups(toy_repo)
    toy_repo.push("other labels")
    judged = toy_repo.judge()
    assert judged.code == 1, judged.log
    assert changed(judged.record)["datasets/toy/v1"] == ("as the merge base has it", "edited by this change")
    assert "datasets/toy/v1" in judged.comment


def rotate_the_groups(repository: Repository) -> None:
    """The same pictures, set by set with the groups of others: a loss of one group is shared by all."""
    rows = [dict(row) for row in toy.rows(40)]
    for first in range(0, len(rows), 4):
        members = rows[first : first + 4]
        groups = [(row["skin_tone"], row["gender"]) for row in members]
        turn = first // 4 % 4
        for row, (tone, gender) in zip(members, groups[turn:] + groups[:turn], strict=True):
            row |= {"skin_tone": tone, "gender": gender}
    shutil.rmtree(repository.root / "datasets" / "toy")
    write_dataset(
        repository.root / "datasets" / "toy" / "v1",
        iter(rows),
        name="toy",
        version="v1",
        attributes={"skin_tone": toy.TONES, "gender": toy.GENDERS},
        recipe={"name": "toy"},
        licence="CC0-1.0",
        counterfactual=True,
        notice="drawn squares",
    )


def test_a_record_of_a_commit_inside_a_merged_branch_is_not_compared_with(toy_repo: ToyRepository) -> None:
    """A merged branch brought a record of the more biased model and took it back: main never showed it."""
    merged(toy_repo, checks=[{**GAPS, "no_worse_than": "baseline", "margin": 0.04}, FINDS])
    before = toy_repo.git("rev-parse", "main")
    toy_repo.branch("first")
    toy_repo.use("biased")
    toy_repo.update_baseline("mine", "--baseline", "none", "--force")
    inside = toy_repo.push("in between")
    toy_repo.git("revert", "--no-edit", "HEAD")
    toy_repo.push("as it was")
    toy_repo.branch("main", "main")
    toy_repo.git("merge", "--quiet", "--no-ff", "--message", "merge first", "first")
    toy_repo.push("merged")
    toy_repo.branch("change", inside)
    (toy_repo.root / "notes.md").write_text("words", encoding="utf-8")
    toy_repo.push("from in between")
    judged = toy_repo.judge("change")
    assert judged.record.baseline is not None, judged.log
    assert judged.record.baseline.commit == before
    assert f"git finds ({inside[:7]}) is a commit of a branch that was merged into origin/main" in judged.notices
    assert judged.code == 1, judged.log


def test_a_probe_that_cannot_be_answered_turns_no_failure_into_no_verdict(toy_repo: ToyRepository) -> None:
    toy_repo.branch()
    toy_repo.use("biased")

    def more(suite: dict[str, Any]) -> None:
        suite["probes"]["new"] = {"kind": "retrieval", "prompts": ["an oil painting of {a_subject}"]}
        suite["checks"].append({"id": "new", "probe": "new", "metric": "recall_at_k", "k": 1, "at_least": 0.1})

    edited(toy_repo, more)
    toy_repo.push("fine-tuned; another probe")
    judged = toy_repo.judge()
    assert judged.code == 1, judged.log
    assert "gaps[doctor]" in judged.failed
    assert "dark × female" in judged.comment


def test_labels_made_exactly_equal_are_no_thin_evidence_that_a_suite_may_allow(toy_repo: ToyRepository) -> None:
    toy_repo.branch("main", "main")
    checks = yaml.safe_load(toy_repo.suite.read_text(encoding="utf-8"))["checks"]
    suite_with(toy_repo, on_inconclusive="warn", checks=[one for one in checks if one["id"] != "useful"])
    toy_repo.push("thin evidence is allowed")
    toy_repo.branch()
    table = toy_repo.use("biased")
    with table.open(newline="", encoding="utf-8") as handle:
        header, *rows = list(csv.reader(handle))
    labels = [at for at, name in enumerate(header) if name.startswith("a photo of a ")]
    for row in rows:
        for at in labels:
            row[at] = repr(float(row[at]) * 1e-17)
    with table.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([header, *rows])
    toy_repo.push("fine-tuned")
    judged = toy_repo.judge()
    assert judged.code in (1, 3), judged.log
    assert not judged.record.ok
