"""A table that main judges is any number that somebody writes: each change of it needs an approval."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attack_world import ToyRepository, suite_with
from dvc_objects_by_hand import Objects, config, pointer
from test_approvals import approve

from fairgate.ground.hashing import sha256_file


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


def test_a_link_to_a_folder_that_leads_to_another_table_is_an_edit(toy_repo: ToyRepository) -> None:
    suite_with(toy_repo, approvals=[], model="scores:tables/model.csv?values=logit")
    for name in ("then", "now"):
        (toy_repo.root / name).mkdir()
    shutil.move(toy_repo.root / "model.csv", toy_repo.root / "then" / "model.csv")
    (toy_repo.root / "tables").symlink_to("then")
    toy_repo.push("a link", branch="main")
    toy_repo.branch("change", "main")
    (toy_repo.root / "tables").unlink()
    (toy_repo.root / "now").mkdir(exist_ok=True)
    (toy_repo.root / "tables").symlink_to("now")
    shutil.copyfile(toy_repo.root / "then" / "model.csv", toy_repo.root / "now" / "model.csv")
    toy_repo.push("the same table elsewhere")
    assert toy_repo.judge().code == 0
    shutil.copyfile(toy_repo.root.parent / "tuned.csv", toy_repo.root / "now" / "model.csv")
    toy_repo.push("another table")
    judged = toy_repo.judge()
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log


@pytest.mark.parametrize("by_git", [False, True], ids=["another-pointer", "git-over-dvc"])
def test_a_table_in_a_folder_of_dvc_is_known_by_the_folders_pointer(
    toy_repo: ToyRepository, tmp_path: Path, *, by_git: bool
) -> None:
    store, table = Objects(tmp_path / "storage"), toy_repo.root / "tables" / "model.csv"

    def point() -> None:
        text = pointer("tables", f"{store.add_folder({'model.csv': table.read_bytes()})}.dir")
        (toy_repo.root / "tables.dvc").write_text(text, encoding="utf-8")

    suite_with(toy_repo, approvals=[], model="scores:tables/model.csv?values=logit")
    table.parent.mkdir()
    shutil.move(toy_repo.root / "model.csv", table)
    (toy_repo.root / ".dvc").mkdir()
    (toy_repo.root / ".dvc" / "config").write_text(config(store.root), encoding="utf-8")
    (toy_repo.root / ".gitignore").write_text(".fairgate/\n/tables\n", encoding="utf-8")
    point()
    toy_repo.push("tables in DVC", branch="main")
    toy_repo.branch("change", "main")
    (toy_repo.root / "notes.md").write_text("words\n", encoding="utf-8")
    toy_repo.push("words")
    assert toy_repo.judge(ignored=("tables",)).code == 0
    shutil.copyfile(toy_repo.root.parent / "tuned.csv", table)
    if by_git:
        toy_repo.git("add", "--force", "tables")
    else:
        point()
    toy_repo.push("retrained, it says")
    judged = toy_repo.judge(ignored=("tables",))
    assert (judged.code, judged.asks_for) == (10, ["table"]), judged.log


@pytest.mark.parametrize("by_link", [False, True], ids=["another-pointer", "behind-a-link"])
def test_a_saved_record_that_a_branch_edits_where_git_shows_no_file_of_it_is_not_compared_with(
    toy_repo: ToyRepository, tmp_path: Path, *, by_link: bool
) -> None:
    store, record = Objects(tmp_path / "storage"), toy_repo.root / "kept"

    def point() -> None:
        files = {path.name: path.read_bytes() for path in record.iterdir()}
        text = pointer("kept", f"{store.add_folder(files)}.dir")
        (toy_repo.root / "kept.dvc").write_text(text, encoding="utf-8")

    shutil.copytree(toy_repo.root / "fairness_suites" / "baselines" / "jobs", record)
    if by_link:
        (toy_repo.root / "records").symlink_to("kept")
    else:
        (toy_repo.root / ".dvc").mkdir()
        (toy_repo.root / ".dvc" / "config").write_text(config(store.root), encoding="utf-8")
        (toy_repo.root / ".gitignore").write_text(".fairgate/\n/kept\n", encoding="utf-8")
        point()
    toy_repo.push("a record", branch="main")
    toy_repo.branch("change", "main")
    results = record / "results.json"
    results.write_text(results.read_text(encoding="utf-8").replace("the checkpoint in use", "mine"), encoding="utf-8")
    toy_repo.use("tuned")
    if not by_link:
        point()
    toy_repo.push("another record")
    judged = toy_repo.judge(ignored=("kept",), baseline="file:records" if by_link else "file:kept")
    assert judged.code == (3 if by_link else 10), judged.log
    assert "the record that it is compared with: read as the merge base" in judged.notices
