"""What a git repository held at the merge base. Read with plumbing commands: no hook, filter or text driver runs."""

from __future__ import annotations

import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

from fairgate.errors import BaselineError

_SECONDS = 60
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Repository:
    """The git repository around a folder; paths are relative to that folder."""

    root: Path

    def merge_base(self, ref: str) -> str:
        """The commit where HEAD and `ref` parted. BaselineError for an unknown ref, or a history that is cut short."""
        tip = self._commit(ref)
        done = self._git("merge-base", "HEAD", tip)
        if done.returncode == 0:
            return done.stdout.decode().strip()
        shallow = self._git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        raise BaselineError(
            f"HEAD and '{ref}' have no common commit here{', and the history is cut short' if shallow else ''}.",
            where=f"git:{ref}",
            remedy="fetch the whole history: `git fetch --unshallow`, or `fetch-depth: 0` in actions/checkout",
        )

    def read(self, commit: str, path: str) -> bytes | None:
        """A file's bytes at a commit; None where there is no such file."""
        done = self._git("cat-file", "blob", f"{commit}:./{path}")
        if done.returncode != 0:
            return None
        if done.stdout.startswith(_LFS):
            raise BaselineError(
                f"{path} is kept in Git LFS, which fairgate does not read at another commit.",
                where=f"{path} at {commit[:7]}",
                remedy="commit it as it is (baselines are small), or track it with `dvc add`",
            )
        return done.stdout

    def differs(self, commit: str, path: str) -> bool:
        """Whether tracked files under a path are not as they were at a commit, or new ones stand there."""
        changed = self._git("diff", "--no-ext-diff", "--no-textconv", "--quiet", commit, "--", f"./{path}")
        extra = self._git("ls-files", "--others", "--exclude-standard", "--", f"./{path}")
        return changed.returncode == 1 or bool(extra.stdout.strip())

    def check_out(self, commit: str, path: str, into: Path) -> None:
        """Bring a file or folder back as it was at a commit, from git or from DVC, to `into/path`.

        Raises BaselineError where neither has it. Links are not brought back: they may point anywhere.
        """
        listed = self._git("ls-tree", "-r", "-z", commit, "--", f"./{path}")
        entries = [line for line in listed.stdout.decode("utf-8", "replace").split("\0") if line]
        if not entries:
            self._from_dvc(commit, path, into / path)
            return
        prefix = self._git("rev-parse", "--show-prefix").stdout.decode().strip()
        for line in entries:
            kind, _, name = line.partition("\t")
            target = into / name.removeprefix(prefix)
            if not kind.startswith("100") or not target.resolve().is_relative_to(into.resolve()):
                raise BaselineError(
                    f"{name} is a link or a module at {commit[:7]}, and is not brought back.",
                    where=path,
                    remedy="commit the checkpoint's files themselves, or track them with `dvc add`",
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.read(commit, name.removeprefix(prefix)) or b"")

    def _from_dvc(self, commit: str, path: str, target: Path) -> None:
        """Fetch what DVC tracked at a commit, from its cache or remote."""
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException

        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of DVC about its own dependencies
                DVCFileSystem(str(self.root), rev=commit).get(path, str(target), recursive=True)
        except (DvcException, OSError, ValueError) as error:
            raise BaselineError(
                f"neither git nor DVC has {path} at {commit[:7]}: {error}",
                where=path,
                remedy="`dvc fetch --all-commits`, where DVC tracks it; else name a checkpoint with model:URI",
            ) from error

    def _commit(self, ref: str) -> str:
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.decode().strip()
        outside = self._git("rev-parse", "--git-dir").returncode != 0
        if outside:
            raise BaselineError(
                "this is no git repository, or git may not read it.",
                where=str(self.root),
                remedy="run inside it; `git config --global --add safe.directory DIR` where somebody else owns it",
            )
        branch = ref.removeprefix("origin/")
        local = f"; without a remote, `baseline: git:{branch}`" if branch != ref else ""
        raise BaselineError(
            f"git knows no commit '{ref}'.",
            where=f"git:{ref}",
            remedy=f"fetch it (`git fetch origin {branch}`; in actions/checkout `fetch-depth: 0`){local}",
        )

    def _git(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603
                ["git", "--no-optional-locks", "--literal-pathspecs", *words],  # noqa: S607
                cwd=self.root,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BaselineError(
                f"git did not answer: {error}", where=str(self.root), remedy="install git; try again"
            ) from error
