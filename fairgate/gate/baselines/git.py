"""What a git repository held at the merge base. Read with plumbing commands: no hook, filter or text driver runs.

Names of commits are full: a tag `origin/main` is not the branch `main` of the remote `origin`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from fairgate.ground.errors import BaselineError, did_you_mean
from fairgate.ground.git import run_git

_STEPS = re.compile(r"(?P<name>.*?)(?P<steps>(?:[~^]\d*)*)", re.DOTALL)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_KEPT = 16 << 20  # bytes of an answer
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit: `kind` is file, link or module (another repository)."""

    name: str
    kind: str
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class Repository:
    """The git repository around a folder; paths are relative to that folder.

    What git answers is kept: all that one run asks is answered as it was at the first time, also if a branch moves.
    """

    root: Path
    _answers: dict[tuple[str, ...], subprocess.CompletedProcess[bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def merge_base(self, ref: str) -> str:
        """The newest commit on the first-parent line of `ref` that HEAD has: where the two parted, as `ref` itself was
        then. A commit inside a branch that was merged into `ref` was never reviewed by itself, and is none.

        BaselineError for an unknown ref, or a history that is cut short.
        """
        tip = self.tip(ref)
        listed = self._git("rev-list", "--first-parent", tip, "--not", "HEAD")
        if listed.returncode != 0:
            self._never_parted(ref)
        ahead = listed.stdout.decode().split()
        # rev-list takes commits for missing behind others that claim to be much older, merge-base does not
        place = bisect_left(ahead, True, key=self.has)
        if place < len(ahead):
            return ahead[place]
        if not ahead:
            return tip
        done = self._git("rev-parse", "--verify", "--quiet", f"{ahead[-1]}^1")
        return done.stdout.decode().strip() or self._never_parted(ref)

    def has(self, commit: str, tip: str = "HEAD") -> bool:
        """Whether a commit is `tip`, or in its history."""
        return self._git("merge-base", "--is-ancestor", commit, tip).returncode == 0

    def tag(self, name: str) -> str | None:
        """The commit of a tag, by its short or full name; None if there is no such tag."""
        full = name if name.startswith("refs/tags/") else f"refs/tags/{name}"
        if self._exactly(full) is None:
            return None
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{full}^{{commit}}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def nearest_common(self, ref: str) -> list[str]:
        """git's own merge bases of HEAD and `ref`, which may be commits of a branch that was merged into `ref`."""
        return self._git("merge-base", "--all", "HEAD", self.tip(ref)).stdout.decode().split()

    def _never_parted(self, ref: str) -> NoReturn:
        shallow = self._git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        raise BaselineError(
            f"HEAD and '{ref}' have no common commit here{', and the history is cut short' if shallow else ''}.",
            where=f"git:{ref}",
            remedy="fetch the whole history: `git fetch --unshallow`, or `fetch-depth: 0` in actions/checkout",
        )

    def tip(self, ref: str) -> str:
        """The commit that a reference names. Raises BaselineError for an unknown one."""
        if (commit := self._commit_of(ref)) is not None:
            return commit
        outside = self._git("rev-parse", "--git-dir").returncode != 0
        if outside:
            raise BaselineError(
                "this is no git repository, or git may not read it.",
                where=str(self.root),
                remedy="run inside it; `git config --global --add safe.directory DIR` where somebody else owns it",
            )
        if not self.has_commits():
            raise BaselineError(
                f"git knows no commit '{ref}': this repository has none yet.",
                where=f"git:{ref}",
                remedy="commit once: `git add --all`, then `git commit`",
            )
        branch = ref.removeprefix("origin/")
        local = f"without a remote, `baseline: git:{branch}`; " if branch != ref else ""
        listed = self._git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
        names = listed.stdout.decode("utf-8", "replace").splitlines()
        near = did_you_mean(ref, (name for name in names if name != branch))
        fetch = f"fetch it (`git fetch origin {branch}`; in actions/checkout `fetch-depth: 0`); "
        raise BaselineError(
            f"git knows no commit '{ref}'.",
            where=f"git:{ref}",
            remedy=f"{near + ' ' if near else ''}{fetch if self._git('remote').stdout.strip() else ''}{local}"
            "names: origin/BRANCH, a local branch, a tag, a full hash",
        )

    def has_commits(self) -> bool:
        """Whether HEAD names a commit: in a new repository, its branch is not born yet."""
        return self._commit_of("HEAD") is not None

    def default_branch(self) -> str | None:
        """`origin/main`, where the clone knows which branch is the remote's default."""
        done = self._git("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
        name = done.stdout.decode("utf-8", "replace").strip()
        exists = done.returncode == 0 and self._git("rev-parse", "--verify", "--quiet", name).returncode == 0
        return name.removeprefix("refs/remotes/") if exists else None

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
        """Whether files under a path are not as they were at a commit, or new ones are there.

        Compared by blob hash: `git diff` would enter a nested repository, and run what its config names. New files
        count unless they are hidden, or that commit tracks them by a pointer of DVC (NAME.dvc).
        """
        then = self.tree(commit, path)
        names = {entry.name for entry in then}
        top = self.root / path
        places = [top] if top.is_symlink() or top.is_file() else top.rglob("*")  # links are not followed
        files = (each.relative_to(self.root).as_posix() for each in places if each.is_symlink() or not each.is_dir())
        new = (name for name in files if name not in names and f"{name}.dvc" not in names)
        return any(not name.rpartition("/")[2].startswith(".") for name in new) or any(
            not _is_as_then(self.root / entry.name, entry) for entry in then
        )

    def tree(self, commit: str, path: str = ".") -> list[TreeEntry]:
        """The files under a path at a commit; their names are relative to this folder."""
        listed = self._git("ls-tree", "-r", "-l", "-z", commit, "--", f"./{path}" if path != "." else ".")
        entries = []
        for line in filter(None, listed.stdout.decode("utf-8", "surrogateescape").split("\0")):
            facts, _, name = line.partition("\t")
            mode, _, blob, size = facts.split()
            kind = {"100": "file", "120": "link"}.get(mode[:3], "module")
            entries.append(TreeEntry(name, kind, blob, int(size) if size.isdigit() else 0))
        return entries

    def _git(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        if words in self._answers:
            return self._answers[words]
        try:
            done = run_git(self.root, *words)
        except OSError as error:
            raise BaselineError(
                f"git did not answer: {error}", where=str(self.root), remedy="install git; try again"
            ) from error
        if len(done.stdout) <= _MOST_KEPT:
            self._answers[words] = done
        return done

    def _commit_of(self, ref: str) -> str | None:
        """The commit of a branch, a tag, a full hash or HEAD, with steps back (`main~2`); None where there is none.

        `origin/X` is the branch X of the remote `origin` and nothing else; a bare name is a local branch or a tag.
        Raises BaselineError for a name that means several.
        """
        match = _STEPS.fullmatch(ref)
        if match is None or not match["name"]:
            return None
        name = match["name"]
        start = name if name == "HEAD" or _HASH.fullmatch(name) else self._object(name)
        if start is None:
            return None
        done = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{start}{match['steps']}^{{commit}}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def _object(self, name: str) -> str | None:
        """The object of the one full ref that a short name means."""
        if name.startswith("refs/"):
            full = [name]
        elif self._of_a_remote(name):
            full = [f"refs/remotes/{name}"]
        else:
            full = [f"refs/heads/{name}", f"refs/tags/{name}"]
        there = {ref_name: target for ref_name in full if (target := self._exactly(ref_name)) is not None}
        if len(full) > 1 and f"refs/tags/{name}" in there and (remote := self._exactly(f"refs/remotes/origin/{name}")):
            there[f"refs/remotes/origin/{name}"] = remote  # where CI has no local branch, a tag may not pose as it
        if len(there) > 1:
            choices = " or ".join(f"git:{ref_name}" for ref_name in there)
            raise BaselineError(
                f"'{name}' names {len(there)} things: {', '.join(there)}.",
                where=f"git:{name}",
                remedy=f"write the one that is meant in full: {choices}",
            )
        return next(iter(there.values()), None)

    def _of_a_remote(self, name: str) -> bool:
        remote, slash, _ = name.partition("/")
        if not slash:
            return False
        return (
            remote == "origin"
            or self._git("config", "--get-regexp", rf"^remote\.{re.escape(remote)}\.").returncode == 0
        )

    def _exactly(self, full: str) -> str | None:
        """`git rev-parse refs/heads/x` would also find a tag called `refs/heads/x`."""
        done = self._git("show-ref", "--verify", "--hash", "--", full)
        return done.stdout.decode().strip() if done.returncode == 0 else None


def _is_as_then(place: Path, entry: TreeEntry) -> bool:
    """Whether a file on this disk is the blob of a commit; with CRLF for LF too, as .gitattributes may have it."""
    try:
        facts = place.lstat()
        if stat.S_ISLNK(facts.st_mode):
            kind, content = "link", os.fsencode(place.readlink())
        elif stat.S_ISREG(facts.st_mode) and facts.st_size <= 2 * entry.size:
            kind, content = "file", place.read_bytes()
        else:
            return False
    except OSError:
        return False
    algorithm = hashlib.sha1 if len(entry.blob) == 40 else hashlib.sha256  # git's own names, not a promise of ours
    texts = (content, content.replace(b"\r\n", b"\n"))
    return kind == entry.kind and entry.blob in [algorithm(b"blob %d\0" % len(t) + t).hexdigest() for t in texts]
