"""A name of git means one commit, and nothing that a branch brought runs when git is called."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from attack_world import ROOT, Repository, ToyRepository
from scratch_git import ScratchGit, scratch_git

from fairgate.gate.baselines import Repository as Baselines
from fairgate.gate.baselines import check_out
from fairgate.ground.errors import BaselineError
from fairgate.tracking.run_environment import environment


def loosened(repository: Repository) -> str:
    """A branch that passes only where its own suite counts: every bound is open."""
    repository.branch()
    repository.use("biased")
    text = re.sub(r"(metric: fairness.* at_least): [\d.]+", r"\1: 0.5", repository.suite.read_text(encoding="utf-8"))
    text = re.sub(r"margin: [\d.]+", "margin: 0.5", text)
    repository.suite.write_text(text, encoding="utf-8")
    repository.update_baseline("mine", "--baseline", "none", "--force")
    return repository.push("loosened")


@pytest.mark.parametrize("kind", ["tag", "annotated tag", "branch"])
def test_a_tag_or_local_branch_called_as_the_remote_branch_does_not_count(toy_repo: ToyRepository, kind: str) -> None:
    commit = loosened(toy_repo)
    words = {"tag": ("tag", "origin/main", commit), "annotated tag": ("tag", "-a", "-m", "x", "origin/main", commit)}
    toy_repo.git(*words.get(kind, ("branch", "origin/main", commit)))
    toy_repo.git("push", "--quiet", "origin", "refs/tags/origin/main" if "tag" in kind else "refs/heads/origin/main")
    judged = toy_repo.judge("change" if "tag" in kind else "origin/main")
    assert judged.code == 1, judged.log
    assert judged.record.definition is not None
    assert judged.record.definition.commit == toy_repo.git("rev-parse", "refs/remotes/origin/main")


def test_replace_objects_and_grafts_change_no_history(toy_repo: ToyRepository) -> None:
    main = toy_repo.git("rev-parse", "main")
    commit = loosened(toy_repo)
    toy_repo.git("replace", main, commit)
    (toy_repo.root / ".git" / "info" / "grafts").write_text(f"{main}\n{commit} {main}\n", encoding="utf-8")
    here = Baselines(toy_repo.root)
    assert here.merge_base("origin/main") == main
    found = here.read(main, "fairness_suites/jobs.yaml")
    toy_repo.git("replace", "-d", main)
    assert found == toy_repo.git("show", f"{main}:fairness_suites/jobs.yaml").encode() + b"\n"


def names(root: Path) -> tuple[ScratchGit, str, str]:
    """A repository with commits `main` and `other`."""
    root.mkdir(exist_ok=True)
    git = scratch_git(root)
    main = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "-b", "other")
    other = git.commit("other")
    git("checkout", "--quiet", "main")
    return git, main, other


def test_a_bare_name_is_a_branch_or_a_tag_and_never_one_of_two(tmp_path: Path) -> None:
    git, main, other = names(tmp_path / "here")
    here = Baselines(tmp_path / "here")
    git("tag", "v1.4", main)
    git("tag", "refs/heads/nowhere", other)
    git("update-ref", "refs/remotes/origin/main", main)
    git("checkout", "--quiet", "other")
    assert here.merge_base("v1.4") == here.merge_base("refs/tags/v1.4") == here.merge_base("main") == main
    assert here.merge_base("refs/heads/other~1") == here.merge_base("other^") == here.merge_base("HEAD~1") == main
    assert here.merge_base(main) == main
    git("tag", "main", other)
    with pytest.raises(BaselineError, match=r"'main' names 3 things: refs/heads/main, refs/tags/main") as caught:
        Baselines(tmp_path / "here").merge_base("main")
    assert "git:refs/heads/main" in (caught.value.remedy or "")
    git("branch", "--delete", "--force", "main")
    with pytest.raises(BaselineError, match="names 2 things: refs/tags/main, refs/remotes/origin/main"):
        Baselines(tmp_path / "here").merge_base("main")
    for unknown in (
        "refs/heads/nowhere",
        "origin/v1.4",
        "main@{1}",
        "@",
        ":/other",
        "other..main",
        "",
        other[:12],
        "-h",
    ):
        with pytest.raises(BaselineError, match="git knows no commit"):
            Baselines(tmp_path / "here").merge_base(unknown)


def test_another_remote_is_named_in_full_too(tmp_path: Path) -> None:
    git, main, other = names(tmp_path / "here")
    git("remote", "add", "upstream", "https://example.invalid")
    git("update-ref", "refs/remotes/upstream/main", main)
    git("tag", "upstream/main", other)
    git("checkout", "--quiet", "other")
    assert Baselines(tmp_path / "here").merge_base("upstream/main") == main


def alarm(folder: Path) -> tuple[Path, Path]:
    """A program, and the file that is there once it ran."""
    folder.mkdir(exist_ok=True)
    program, rung = folder / "program.sh", folder / "rung"
    program.write_text(f"#!/bin/sh\ntouch {rung}\ncat\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program, rung


def armed(git: ScratchGit, program: Path) -> None:
    """Everything in a repository's config that makes git start a program."""
    hooks = git.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"):
        (hooks / name).write_bytes(program.read_bytes())
        (hooks / name).chmod(0o755)
    git("config", "core.fsmonitor", str(program))
    git("config", "filter.alarm.clean", str(program))
    git("config", "filter.alarm.process", str(program))
    git("config", "diff.external", str(program))
    git("config", "diff.alarm.textconv", str(program))
    git("config", "core.pager", str(program))
    (git.root / ".git" / "info" / "attributes").write_text("* filter=alarm diff=alarm\n", encoding="utf-8")


def test_git_starts_no_program_of_the_repository_or_of_one_inside_it(
    toy_repo: ToyRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nested repository comes with its own config: by a `.dir` object of DVC, say. The branch adds it as a module."""
    program, rung = alarm(tmp_path / "alarm")
    folder = toy_repo.root / "fairness_suites" / "baselines" / "jobs" / "nested"
    folder.mkdir()
    (folder / "file").write_text("x", encoding="utf-8")
    nested = scratch_git(folder)
    toy_repo.branch()
    toy_repo.git("add", "--force", str(folder))
    commit = toy_repo.git.commit("a nested repository")
    armed(nested, program)
    (folder / "file").write_text("changed", encoding="utf-8")
    (toy_repo.root / "fairness_suites" / "jobs.yaml").touch()
    armed(toy_repo.git, program)
    here = Baselines(toy_repo.root)
    toy_repo.git.root.joinpath("model.csv").write_text("changed", encoding="utf-8")
    rung.unlink(missing_ok=True)
    assert here.merge_base("origin/main")
    assert here.differs(commit, "fairness_suites/baselines/jobs")
    assert here.differs(toy_repo.git("rev-parse", "refs/heads/main"), "fairness_suites/baselines/jobs")
    check_out(here, commit, "model.csv", tmp_path / "out")
    found = environment(toy_repo.root, "cpu")
    assert found.git_dirty
    assert not rung.exists()
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_DIR", str(folder / ".git"))
    assert Baselines(toy_repo.root).merge_base("origin/main") == here.merge_base("origin/main")
    assert not rung.exists()


def test_a_committed_folder_that_looks_like_a_bare_repository_is_not_one(tmp_path: Path) -> None:
    program, rung = alarm(tmp_path / "alarm")
    git, _, _ = names(tmp_path / "here")
    inner = tmp_path / "here" / "team"
    git("init", "--quiet", "--bare", str(inner))
    (inner / "config").write_text(f"[core]\n\tbare = true\n\tfsmonitor = {program}\n", encoding="utf-8")
    with pytest.raises(BaselineError, match="no git repository, or git may not read it"):
        Baselines(inner).merge_base("main")
    assert not rung.exists()


def test_a_worktree_is_judged_as_any_checkout(toy_repo: ToyRepository, tmp_path: Path) -> None:
    toy_repo.branch()
    toy_repo.push()
    toy_repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"), "change")
    here = Baselines(tmp_path / "tree")
    commit = here.merge_base("origin/main")
    assert commit == toy_repo.git("rev-parse", "main")
    assert not here.differs(commit, "fairness_suites/baselines/jobs")


def test_a_clone_that_borrows_objects_is_judged_as_any_checkout(toy_repo: ToyRepository, tmp_path: Path) -> None:
    toy_repo.git("clone", "--quiet", "--shared", str(toy_repo.root), str(tmp_path / "shared"))
    assert Baselines(tmp_path / "shared").merge_base("origin/main") == toy_repo.git("rev-parse", "main")


def test_git_is_started_in_one_place() -> None:
    started = [
        path for path in (ROOT / "fairgate").rglob("*.py") if re.search(r"(?<!Literal)\[\s*\"git\"", path.read_text())
    ]
    assert [path.relative_to(ROOT).as_posix() for path in started] == ["fairgate/ground/git.py"]
