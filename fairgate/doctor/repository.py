"""Is there enough git history to find what a change is held against?"""

from __future__ import annotations

from pathlib import Path

from fairgate.baselines import Repository
from fairgate.doctor.finding import Finding, of_error, ok, trouble, warning
from fairgate.errors import BaselineError
from fairgate.git import run_git

_SECONDS = 10


def look_at_git(root: Path, refs: list[str]) -> list[Finding]:
    """A shallow clone, and the merge base of every `git:REF` in `refs`."""
    shallow = _said(root, "rev-parse", "--is-shallow-repository")
    if shallow is None:
        what = "there is no git repository to look into, or git may not read it."
        if refs:
            remedy = "check out with git, or name a `file:` baseline"
            return [trouble("git", what, where=str(root), remedy=remedy)]
        remedy = "runs are recorded without a commit; `git init` to have one"
        return [warning("git", what, where=str(root), remedy=remedy)]
    found = [_history(root, shallow == "true", bool(refs))]
    return found + [_merge_base(root, ref) for ref in refs]


def _history(root: Path, shallow: bool, needed: bool) -> Finding:
    if shallow:
        remedy = "fetch all of it: `git fetch --unshallow`, in GitHub Actions `fetch-depth: 0` for actions/checkout"
        told = trouble if needed else warning
        return told("git", "the clone is shallow: merge bases and the steps of history are missing.", str(root), remedy)
    return ok("git", f"whole history, {_said(root, 'rev-list', '--count', 'HEAD') or 'no'} commits")


def _merge_base(root: Path, ref: str) -> Finding:
    try:
        commit = Repository(root).merge_base(ref)
    except BaselineError as error:
        return of_error("git", error)
    return ok("git", f"the merge base with {ref} is {commit[:7]}")


def _said(root: Path, *words: str) -> str | None:
    try:
        done = run_git(root, *words, seconds=_SECONDS)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
