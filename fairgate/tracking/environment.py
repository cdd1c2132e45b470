"""Where a run took place: versions, device, commit. Told beside a verdict, never part of it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fairgate import __version__
from fairgate.records import Environment


def environment(root: Path, device: str) -> Environment:
    """Versions, device, commit and CI job of this run; what cannot be known is absent."""

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    packages = {
        name: found for name in ("torch", "open_clip_torch", "transformers", "numpy") if (found := installed(name))
    }
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return Environment(
        fairgate=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        device=device,
        packages=packages,
        git_commit=commit,
        git_dirty=None if status is None else bool(status),
        ci_url=_ci_url(os.environ),
    )


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603, S607
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _ci_url(environment: Mapping[str, str]) -> str | None:
    server, repository, run = (environment.get(f"GITHUB_{x}") for x in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None
