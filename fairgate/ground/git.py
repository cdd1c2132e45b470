"""git, called so that nothing of a repository's working tree runs: the only place where the package starts git."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from fairgate.ground.spans import span

SECONDS = 60
_OFF = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=",
    "core.useReplaceRefs=false",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=all",
    "diff.external=",
    "log.showSignature=false",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",  # a branch can commit a folder that looks like a bare repository, config included
)
_ENVIRONMENT = re.compile(r"GIT_(CONFIG_.*|EXEC_PATH|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|SSH.*|SSL_.*)")
"""What a job may say to git: where its config is (`safe.directory`), and how it reaches a server. GIT_DIR and its like
would name another repository than the one that is judged."""


def run_git(
    root: Path, *words: str, more: tuple[str, ...] = (), seconds: float = SECONDS
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and return its exit code and output. `more` are further `key=value` of git's config.

    Hooks, fsmonitor, submodules, replace objects, grafts and external diffs are off, paths are literal, and nothing is
    requested from a person. Raises OSError where git is missing or takes longer than `seconds`.
    """
    config = [word for pair in (*_OFF, *more) for word in ("-c", pair)]
    try:
        with span("git"):
            return subprocess.run(  # noqa: S603
                ["git", "--no-pager", "--no-optional-locks", "--literal-pathspecs", *config, *words],  # noqa: S607
                cwd=root,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"no answer within {seconds:g} s") from error


def git_output(root: Path, *words: str) -> str | None:
    """What a command of git prints, stripped; None if it fails, git is missing, or it takes 10 seconds."""
    try:
        done = run_git(root, *words, seconds=10)
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def tracked_files_differ(root: Path) -> bool | None:
    """Whether a tracked file is not as HEAD has it; None where git does not know.

    Clean filters are the one thing of git's config that a path can choose (.gitattributes): those of this machine are
    switched off by name.
    """
    try:
        drivers = run_git(root, "config", "--name-only", "-z", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$")
        names = [name for name in drivers.stdout.decode(errors="replace").split("\0") if name]
        off = tuple(f"{name}=" for name in names)
        off += tuple(f"{name.rpartition('.')[0]}.required=false" for name in names)
        words = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
        done = run_git(root, *words, more=off, seconds=10)
    except OSError:
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    kept = [name for name in os.environ if not name.startswith("GIT_") or _ENVIRONMENT.fullmatch(name)]
    return {name: os.environ[name] for name in kept} | {
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }
