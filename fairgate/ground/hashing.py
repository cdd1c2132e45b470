"""Names for content: digests of files, of bytes, and of plain data."""

from __future__ import annotations

import errno
import hashlib
import json
import stat
from pathlib import Path
from typing import Any

from fairgate.ground.errors import FairgateError


def sha256_bytes(data: bytes) -> str:
    """Hex SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def require_regular(path: Path, error: type[FairgateError]) -> None:
    """Raise `error` for a pipe, socket or device: opening one may wait for ever, and reading one may never end.

    Links are followed. A path that does not exist, or a folder, is left to the caller.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise error(
            "the path is a pipe, a socket or a device, not a file.",
            where=str(path),
            remedy="replace it by a regular file",
        )


def read_bounded(path: Path, most: int) -> bytes:
    """A file's bytes. Raises OSError where it cannot be read, or has more than `most` (a number of MiB)."""
    with path.open("rb") as handle:
        content = handle.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MB", str(path))
    return content


def digest(data: Any) -> str:
    """Hex SHA-256 of plain data (dicts, lists, strings, numbers, booleans, None), whatever the order of keys.

    Raises TypeError for anything else and ValueError for NaN: a digest must not depend on a repr.
    """
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return sha256_bytes(text.encode())
