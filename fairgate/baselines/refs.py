"""The commit that a name means. Names are full: a tag `origin/main` is not the branch `main` of the remote `origin`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from fairgate.errors import BaselineError

Git = Callable[..., subprocess.CompletedProcess[bytes]]

_STEPS = re.compile(r"(?P<name>.*?)(?P<steps>(?:[~^]\d*)*)", re.DOTALL)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def commit_of(ref: str, git: Git) -> str | None:
    """The commit of a branch, a tag, a full hash or HEAD, with steps back (`main~2`); None where there is none.

    `origin/X` is the branch X of the remote `origin` and nothing else; a bare name is a local branch or a tag. Raises
    BaselineError for a name that means several.
    """
    found = _STEPS.fullmatch(ref)
    if found is None or not found["name"]:
        return None
    name = found["name"]
    start = name if name == "HEAD" or _HASH.fullmatch(name) else _object(name, git)
    if start is None:
        return None
    done = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{start}{found['steps']}^{{commit}}")
    return done.stdout.decode().strip() if done.returncode == 0 else None


def _object(name: str, git: Git) -> str | None:
    """What the one full name behind a short one points to."""
    if name.startswith("refs/"):
        full = [name]
    elif _of_a_remote(name, git):
        full = [f"refs/remotes/{name}"]
    else:
        full = [f"refs/heads/{name}", f"refs/tags/{name}"]
    there = {each: target for each in full if (target := _exactly(each, git)) is not None}
    if len(full) > 1 and f"refs/tags/{name}" in there and (remote := _exactly(f"refs/remotes/origin/{name}", git)):
        there[f"refs/remotes/origin/{name}"] = remote  # where CI has no local branch, a tag may not pose as it
    if len(there) > 1:
        choices = " or ".join(f"git:{each}" for each in there)
        raise BaselineError(
            f"'{name}' names {len(there)} things: {', '.join(there)}.",
            where=f"git:{name}",
            remedy=f"write the one that is meant in full: {choices}",
        )
    return next(iter(there.values()), None)


def _of_a_remote(name: str, git: Git) -> bool:
    remote, slash, _ = name.partition("/")
    if not slash:
        return False
    listed = git("config", "--get-regexp", rf"^remote\.{re.escape(remote)}\.")
    return remote == "origin" or listed.returncode == 0


def _exactly(full: str, git: Git) -> str | None:
    """`git rev-parse refs/heads/x` would also find a tag called `refs/heads/x`."""
    done = git("show-ref", "--verify", "--hash", "--", full)
    return done.stdout.decode().strip() if done.returncode == 0 else None
