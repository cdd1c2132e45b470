"""Files that appear whole or not at all, whenever the process that writes them is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".fairgate-draft"
_FORGOTTEN = 24 * 3600.0
"""Seconds after which a draft belongs to a process that was killed."""


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A draft next to `path`, for the block to write; it takes the place of `path` when the block ends well.

    A reader sees the old file or the new one, never half of one, and several processes may write the same file. OSError
    where the folder cannot be written.
    """
    draft = draft_of(path)
    try:
        yield draft
        draft.replace(path)
    finally:
        remove(draft)


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; text in UTF-8, its line ends as they are."""
    with atomic(path) as draft:
        draft.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def draft_of(path: Path) -> Path:
    """A name next to `path` that no other process takes."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")


def is_draft(name: str) -> bool:
    """Whether a file's name is one that `draft_of` gives."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def sweep(folder: Path) -> None:
    """Remove the drafts of a folder that killed processes left, once they are a day old."""
    with contextlib.suppress(OSError):
        for draft in folder.glob(f".*{_SUFFIX}"):
            if time.time() - draft.stat().st_mtime > _FORGOTTEN:
                remove(draft)


def remove(path: Path) -> None:
    """Remove a file that may not be there, or may not be touched: either way nobody reads it."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
