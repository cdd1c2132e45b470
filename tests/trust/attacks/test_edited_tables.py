"""A table that main judges is any number that somebody writes: each change of it needs an approval."""

from __future__ import annotations

import shutil

from attack_world import ToyRepository, suite_with
from test_approvals import approve

from fairgate.hashing import sha256_file


def unapproved(repository: ToyRepository) -> None:
    """Main without the approvals of this world."""
    suite_with(repository, approvals=[])
    repository.push("nothing is approved", branch="main")
    repository.git("fetch", "--quiet", "origin")
    repository.branch("change", "origin/main")


def test_an_edited_table_needs_an_approval_that_binds_both_contents(toy_repo: ToyRepository) -> None:
    unapproved(toy_repo)
    before = sha256_file(toy_repo.root / "model.csv")
    toy_repo.use("tuned")
    toy_repo.push("retrained, it says")
    judged = toy_repo.judge()
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log
    (needed,) = judged.record.needs_approval
    assert "edits model.csv" in needed.what
    assert (needed.before, needed.now) == (before, sha256_file(toy_repo.root / "model.csv"))
    approve(toy_repo, judged)
    assert toy_repo.judge("change").code == 0


def test_a_table_behind_a_link_and_one_that_the_workflow_names_are_the_same_table(toy_repo: ToyRepository) -> None:
    suite_with(toy_repo, approvals=[])
    (toy_repo.root / "tables").mkdir()
    shutil.move(toy_repo.root / "model.csv", toy_repo.root / "tables" / "now.csv")
    (toy_repo.root / "model.csv").symlink_to("tables/now.csv")
    toy_repo.push("a link", branch="main")
    toy_repo.git("fetch", "--quiet", "origin")
    toy_repo.branch("change", "origin/main")
    tuned = toy_repo.root.parent / "tuned.csv"
    shutil.copyfile(tuned, toy_repo.root / "tables" / "now.csv")
    toy_repo.push("the link is as it was")
    assert toy_repo.judge(model="scores:model.csv?values=logit").asks_for == ["table"]
