"""A scratch git repository: branches, commits and merges as a team makes them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PERSON = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A Person"), ("EMAIL", "person@example.com"), ("DATE", "2026-01-01T12:00:00Z"))
}


@dataclass(frozen=True)
class ScratchGit:
    """Where the repository is."""

    root: Path

    def __call__(self, *words: str) -> str:
        """Run git; its output, or an error that shows it."""
        done = subprocess.run(
            ["git", "-c", "commit.gpgsign=false", *words],
            cwd=self.root,
            env={**os.environ, **_PERSON, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def commit(self, message: str = "a change") -> str:
        """Commit everything; the new commit."""
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", message)
        return self("rev-parse", "HEAD")


def scratch_git(root: Path, *, ignore: str = "") -> ScratchGit:
    """`root` as a repository with a branch `main` and everything in it committed, but for what is ignored."""
    git = ScratchGit(root)
    git("init", "--quiet", "--initial-branch=main")
    (root / ".gitignore").write_text(f".fairgate/\n{ignore}", encoding="utf-8")
    git.commit("the beginning")
    return git
