"""Is there enough git history to find what a change is held against?"""

from __future__ import annotations

from pathlib import Path

from fairgate.doctor.finding import Finding, ok, trouble, warning
from fairgate.doctor.programs import run

_SECONDS = 10


def look_at_git(root: Path, refs: list[str]) -> list[Finding]:
    """A shallow clone, and the merge base of every `git:REF` in `refs`."""
    inside = run(["git", "rev-parse", "--is-shallow-repository"], root, _SECONDS)
    if inside.code != 0:
        what = f"there is no git repository to look into ({inside.said})."
        if refs:
            remedy = "check out with git, or name a `file:` baseline"
            return [trouble("git", what, where=str(root), remedy=remedy)]
        remedy = "runs are recorded without a commit; `git init` to have one"
        return [warning("git", what, where=str(root), remedy=remedy)]
    shallow = inside.out.strip() == "true"
    found = [_history(root, shallow, bool(refs))]
    return found + [_merge_base(root, ref, shallow) for ref in refs]


def _history(root: Path, shallow: bool, needed: bool) -> Finding:
    if shallow:
        remedy = "fetch all of it: `git fetch --unshallow`, in GitHub Actions `fetch-depth: 0` for actions/checkout"
        told = trouble if needed else warning
        return told("git", "the clone is shallow: merge bases and the steps of history are missing.", str(root), remedy)
    count = run(["git", "rev-list", "--count", "HEAD"], root, _SECONDS)
    commits = count.out.strip() if count.code == 0 else "no"
    return ok("git", f"whole history, {commits} commits")


def _merge_base(root: Path, ref: str, shallow: bool) -> Finding:
    base = run(["git", "merge-base", "HEAD", ref], root, _SECONDS)
    if base.code == 0:
        return ok("git", f"the merge base with {ref} is {base.out.strip()[:7]}")
    remedy = f"fetch it: `git fetch origin {ref.removeprefix('origin/')}`" + (" --unshallow" if shallow else "")
    return trouble("git", f"no merge base with '{ref}' was found ({base.said}).", f"git:{ref}", remedy)
