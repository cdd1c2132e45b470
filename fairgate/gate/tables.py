"""Tables that a change edits: their author can write any number, so that a person has to weigh them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fairgate.baselines import Repository, pointers_at
from fairgate.checkpoints import repositories_of
from fairgate.errors import FairgateError, ModelError
from fairgate.hashing import digest, sha256_bytes, sha256_file
from fairgate.models import local_paths, schemes
from fairgate.records import NeededApproval

TABLES: Final = ("scores", "embeddings", "detections", "labels", "answers")
"""Schemes of models that are tables of somebody's numbers or words."""


def edited_tables(repository: Repository, commit: str, words: str, uris: Sequence[str]) -> list[NeededApproval]:
    """The tables of these model URIs that a base commit (`words`) has, in git or by DVC, with other content."""
    needed = []
    for path in dict.fromkeys(path for uri in uris for path in _paths(uri)):
        digests = _in_git(repository, commit, path) or _by_dvc(repository, commit, path)
        if digests is not None:
            what = f"this change edits {path.as_posix()}, a table that {words} has: any number can be written into it"
            needed.append(NeededApproval(kind="table", what=what, before=digests[0], now=digests[1]))
    return needed


def _paths(uri: str) -> tuple[Path, ...]:
    try:
        return local_paths(uri) if set(schemes(uri)) & set(TABLES) else ()
    except ModelError:  # a URI of another kind; the run reports it
        return ()


def _in_git(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """The digests of a table in git before and now, if it is edited; a folder's by its files."""
    for top, place in _places(repository.root, path):
        work_tree, name = Repository(top), place.relative_to(top).as_posix()
        if not place.exists() or not (entries := work_tree.tree(commit, name)) or not work_tree.differs(commit, name):
            continue
        try:
            before = {entry.name: sha256_bytes(work_tree.read(commit, entry.name) or b"") for entry in entries}
        except FairgateError:  # Git LFS: known by the blob of its pointer
            before = {entry.name: entry.blob for entry in entries}
        if not place.is_dir():
            return before[name], sha256_file(place)
        files = sorted(each for each in place.rglob("*") if each.is_file())
        return digest(before), digest({each.relative_to(top).as_posix(): sha256_file(each) for each in files})
    return None


def _by_dvc(repository: Repository, commit: str, path: Path) -> tuple[str, str] | None:
    """The digests of a table that DVC tracks at a commit, if it is edited: of its MD5 before, as a pointer has it."""
    for top, place in _places(repository.root, path):
        name = place.relative_to(top).as_posix()
        try:
            known = {each.path: each for each in pointers_at(Repository(top), commit)}
        except FairgateError:  # the run reports pointers that cannot be read
            return None
        if name not in known or not place.is_file():
            continue
        with place.open("rb") as handle:
            now = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if now != known[name].md5:
            return sha256_bytes(f"md5:{known[name].md5}".encode()), sha256_file(place)
    return None


def _places(root: Path, path: Path) -> Iterator[tuple[Path, Path]]:
    """The work tree and where in it a path leads: as it is written, and with links followed."""
    top = next(iter(repositories_of(root)), root.resolve())
    for place in dict.fromkeys((Path(os.path.normpath(root.resolve() / path)), (root / path).resolve())):
        if place.is_relative_to(top):
            yield top, place
