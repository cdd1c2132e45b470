"""Seals: which files this machine wrote, and which ones a branch or another job brought.

A seal is an HMAC-SHA256 with a key that no repository contains. Whoever cannot read the key cannot make a seal.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairgate.ground.atomic import atomic_write, draft_of, remove
from fairgate.ground.hashing import read_bounded

KEY_BYTES: Final = 32
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyTrouble(Exception):
    """Why a stored key does not count: the problem, and the remedy after a semicolon."""


def seal(key: bytes, content: Any) -> str:
    """Hex HMAC-SHA256 of plain data (dicts, lists, strings, numbers), whatever the order of its keys."""
    return hmac.new(key, json.dumps(content, sort_keys=True).encode(), "sha256").hexdigest()


def is_sealed(key: bytes, content: Any, claimed: object) -> bool:
    """Whether `claimed` is the seal of that content."""
    return isinstance(claimed, str) and hmac.compare_digest(seal(key, content).encode(), claimed.encode())


@dataclass(frozen=True, slots=True)
class SealedNotes:
    """A folder that remembers which texts were noted under which names; a note without this key's seal is not there."""

    folder: Path
    key: bytes

    def has(self, name: str, text: str) -> bool:
        """Whether that text was noted under the name, with this key."""
        path = self.folder / name
        with contextlib.suppress(OSError, ValueError):
            return not path.is_fifo() and is_sealed(self.key, [name, text], read_bounded(path, 1 << 10).decode())
        return False

    def add(self, name: str, text: str) -> None:
        """Note a text under a name. A folder that cannot be written forgets it."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self.folder / name, seal(self.key, [name, text]))


def stored_key(path: Path, outside: Iterable[Path] = (), *, make: bool = True) -> bytes | None:
    """The key in a file that only this person can read; made first where there is none, by one of several processes.

    `outside`: folders (the repository) that may not contain it. None if there is no key and none is to be made. Raises
    KeyTrouble for a key in such a folder, a link, a file of another person or that others may read, and a folder that
    cannot be written.
    """
    if any(map(path.resolve().is_relative_to, outside)):
        raise KeyTrouble(f"{path} is inside of the repository; keep the user's configuration elsewhere")
    try:
        if make and not os.path.lexists(path):
            _make(path)
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyTrouble(f"{path}: {error.strerror or error}; make it a file that you can read and write") from error


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = draft_of(path)
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # a neighbour was faster, and its key is this person's
            os.link(draft, path)
    finally:
        remove(draft)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a link is an OSError, a pipe does not wait
    with open(handle, "rb") as file:  # noqa: PTH123 - of a descriptor
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise KeyTrouble(f"{path} is not a regular file; remove it")
        if status.st_uid != os.geteuid():
            raise KeyTrouble(f"{path} belongs to another user; remove it")
        if status.st_mode & _OTHERS:
            raise KeyTrouble(f"{path} can be read or written by others; remove it, and a new one is made")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeyTrouble(f"{path} does not contain a key; remove it, and a new one is made")
    return key
