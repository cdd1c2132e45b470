"""Where a run took place: versions, device, commit. Recorded with a verdict, never part of it."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from fairgate.ground.ci import github_event, on_gitlab
from fairgate.ground.git import git_output, tracked_files_differ
from fairgate.records import Environment
from fairgate.version import __version__

_version = functools.cache(metadata.version)  # 2 ms a package
_OF_A_PULL_REQUEST = re.compile(r"refs/(?:pull/|heads/gh-readonly-queue/.{1,200}/pr-)(\d{1,9})[/-]")


def environment(root: Path, device: str, plugins: Mapping[str, str] | None = None) -> Environment:
    """Versions, device, commit and CI job of this run, and the `plugins` that took part; what cannot be known is
    absent."""
    packages = {}
    for name in ("torch", "open_clip_torch", "transformers", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = _version(name)
    # one process for both: a shallow clone does not know how many commits led here
    shallow, _, commit = (git_output(root, "rev-parse", "--is-shallow-repository", "HEAD") or "").partition("\n")
    height = git_output(root, "rev-list", "--count", "HEAD") if shallow == "false" else None
    return Environment(
        fairgate=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        device=device,
        processor=_processor(),
        packages=packages,
        plugins=dict(sorted((plugins or {}).items())),
        git_commit=commit or None,
        git_dirty=tracked_files_differ(root),
        git_branch=_branch(root, os.environ),
        git_height=int(height) if height else None,
        pull_request=_pull_request(os.environ),
        ci_url=_job(os.environ),
    )


@functools.cache
def _processor() -> str | None:
    """The CPU's model, as the kernel or the platform names it."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        if named := re.search(r"^model name\s*:\s*(.{1,120})$", text, re.MULTILINE):
            return named[1].strip()
    return platform.processor() or None


def _job(environment: Mapping[str, str]) -> str | None:
    """The address of this CI job."""
    if on_gitlab(environment):
        return environment.get("CI_JOB_URL") or None
    server, repository, run = (environment.get(f"GITHUB_{x}") for x in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None


def _branch(root: Path, environment: Mapping[str, str]) -> str | None:
    """The branch; where CI has checked out a bare commit, the one that it says the commit is of."""
    checked_out = git_output(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    named = environment.get("GITHUB_REF_NAME") if environment.get("GITHUB_REF_TYPE") == "branch" else None
    if on_gitlab(environment):
        named = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or environment.get("CI_COMMIT_BRANCH")
    branch = environment.get("GITHUB_HEAD_REF") or checked_out or named
    return branch.encode(errors="replace").decode() if branch else None


def _pull_request(environment: Mapping[str, str]) -> int | None:
    """The number from GITHUB_REF (`refs/pull/N/merge`, or a merge queue's branch), or from the event where that is the
    base branch's; of GitLab, the merge request's."""
    if on_gitlab(environment):
        named = environment.get("CI_MERGE_REQUEST_IID", "")
        return int(named) if re.fullmatch("[0-9]{1,9}", named) else None
    if match := _OF_A_PULL_REQUEST.match(environment.get("GITHUB_REF", "")):
        return int(match[1])
    opened = github_event(environment).get("pull_request")
    number = opened.get("number") if isinstance(opened, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def asking_pull_request(environment: Mapping[str, str]) -> str | None:
    """The pull request that this workflow is of, or whose workflow it follows (GitHub's `workflow_run`).

    `unknown` where GitHub does not name it, as for a fork's; None for a workflow of no pull request.
    """
    if (own := _pull_request(environment)) is not None:
        return str(own)
    followed = github_event(environment).get("workflow_run")
    if not isinstance(followed, dict) or not str(followed.get("event")).startswith("pull_request"):
        return None
    named = followed.get("pull_requests")
    first = named[0] if isinstance(named, list) and named else None
    number = first.get("number") if isinstance(first, dict) else None
    return str(number) if isinstance(number, int) else "unknown"
