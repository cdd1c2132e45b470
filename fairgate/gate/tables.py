"""Files that a change edits; a person has to weigh edits of tables, since their author can write any number."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fairgate.data.remote import Tracked
from fairgate.gate.baselines import Repository, pointers_at, pointers_here
from fairgate.ground.errors import FairgateError, ModelError
from fairgate.ground.hashing import digest, sha256_bytes, sha256_file
from fairgate.models import local_paths, schemes
from fairgate.models.checkpoints import repositories_of
from fairgate.records import NeededApproval

TABLES: Final = ("scores", "embeddings", "detections", "labels", "answers")
"""Schemes of models that are tables of somebody's numbers or words."""
_MOST_LINKS: Final = 40


def edited_tables(repository: Repository, commit: str, words: str, uris: Sequence[str]) -> list[NeededApproval]:
    """The tables of these model URIs that a base commit (`words`) has, in git or by DVC, with other content."""
    needed = []
    for path in dict.fromkeys(path for uri in uris for path in _paths(uri)):
        digests = edited(repository, commit, path)
        if digests is not None:
            what = f"this change edits {path.as_posix()}, a table that {words} has: any number can be written into it"
            needed.append(NeededApproval(kind="table", what=what, before=digests[0], now=digests[1]))
    return needed


def _paths(uri: str) -> tuple[Path, ...]:
    try:
        return local_paths(uri) if set(schemes(uri)) & set(TABLES) else ()
    except ModelError:  # a URI of another kind; the run reports it
        return ()


def edited(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """The digests of a file or folder before and now, if a commit has it, in git or by DVC, with other content.

    A link is followed to where it led then, and to where it leads now.
    """
    return _in_git(repository, commit, path) or _by_dvc(repository, commit, path)


def _in_git(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    for top, place in _places(repository.root, path):
        work_tree = Repository(top)
        name = _led_to(work_tree, commit, place.relative_to(top).as_posix())
        entries = work_tree.tree(commit, name) if place.exists() else []
        elsewhere = place.resolve() != (top.resolve() / name).resolve()
        if not entries or not (elsewhere or work_tree.differs(commit, name)):
            continue
        try:
            before = {entry.name: sha256_bytes(work_tree.read(commit, entry.name) or b"") for entry in entries}
        except FairgateError:  # Git LFS: known by the blob of its pointer
            before = {entry.name: entry.blob for entry in entries}
        if place.is_dir():
            files = sorted(each for each in place.rglob("*") if each.is_file())
            now = digest({each.relative_to(place).as_posix(): sha256_file(each) for each in files})
            then = digest({each.removeprefix(f"{name}/"): content for each, content in before.items()})
        else:
            then, now = before.get(name, digest(before)), sha256_file(place)
        if then != now:
            return then, now
    return None


def _by_dvc(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """By the MD5 of a file before, as a pointer has it; a folder, and what is in one, by the folder's pointer."""
    for top, place in _places(repository.root, path):
        work_tree = Repository(top)
        try:
            name = _led_to(work_tree, commit, place.relative_to(top).as_posix())
            then = next((pointer for pointer in pointers_at(work_tree, commit) if _holds(pointer, name)), None)
            now = [pointer.md5 for pointer in pointers_here(work_tree) if _holds(pointer, name)]
        except FairgateError:  # the run reports pointers that cannot be read
            return None
        if then is None or not place.exists():
            continue
        if not then.folder and place.is_file():
            with place.open("rb") as handle:
                now = [hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()]
        if now != [then.md5] or (then.folder and work_tree.tree("HEAD", name)):  # git's files lie over DVC's
            here = sha256_file(place) if place.is_file() else sha256_bytes(f"md5:{now}".encode())
            return sha256_bytes(f"md5:{then.md5}".encode()), here
    return None


def _holds(tracked: Tracked, name: str) -> bool:
    return tracked.path == name or (tracked.folder and name.startswith(f"{tracked.path}/"))


def _led_to(repository: Repository, commit: str, name: str) -> str:
    """Where a path led at a commit, with the links followed that git had on the way."""
    for _ in range(_MOST_LINKS):
        parts = name.split("/")
        heads = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        links = (
            entry.name
            for head in heads
            for entry in repository.tree(commit, head)
            if (entry.name, entry.kind) == (head, "link")
        )
        link = next(links, None)
        if link is None:
            return name
        text = os.fsdecode(repository.read(commit, link) or b"")
        name = os.path.normpath(Path(link).parent.joinpath(text, *parts[link.count("/") + 1 :]))
    return name


def _places(root: Path, path: Path) -> Iterator[tuple[Path, Path]]:
    """The work tree and where in it a path leads: as it is written, and with links followed."""
    top = next(iter(repositories_of(root)), root.resolve())
    for place in dict.fromkeys((Path(os.path.normpath(root.resolve() / path)), (root / path).resolve())):
        if place.is_relative_to(top):
            yield top, place
