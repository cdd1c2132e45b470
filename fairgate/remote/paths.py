"""Which paths a pointer or a listing may name: files of its own repository, and none that a program would run."""

from __future__ import annotations

import posixpath

from fairgate.errors import DatasetError, first_harmful

MAX_PATH, MAX_NAME, MAX_DEPTH = 2048, 255, 64
_RESERVED = frozenset({".git", ".dvc", ".github", ".hg", "pyvenv.cfg", "site-packages", "dist-packages"})
"""Names that git, DVC, GitHub and Python act on. What else makes a virtual environment is seen when it is there."""


def inside(path: str, folder: str, where: str) -> str:
    """The path of an output, which starts at `folder`, from the repository's root. DatasetError where it leaves it."""
    if "://" in path or path.startswith(("/", "~")):
        raise _refused(path, "is no path of this repository", where)
    joined = posixpath.normpath(posixpath.join(folder, path))
    if joined == "." or joined.split("/")[0] == "..":
        raise _refused(path, "leads out of the repository", where)
    return checked(joined, where)


def checked(path: str, where: str) -> str:
    """A path as it is, where every part of it is a plain name. Raises DatasetError for any other."""
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise _refused(path, "leads elsewhere", where)
    if first_harmful([path]) is not None or "\\" in path or "\n" in path:
        raise _refused(path, "has characters that no file name needs", where)
    if len(parts) > MAX_DEPTH or len(path) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in parts):
        raise _refused(path, "is too long or too deep", where)
    if reserved := [part for part in parts if part.casefold() in _RESERVED]:
        raise _refused(path, f"has a part '{reserved[0]}', which programs act on", where)
    return path


def _refused(path: str, why: str, where: str) -> DatasetError:
    shown = path if len(path) < 200 else f"{path[:200]}…"
    return DatasetError(
        f"'{shown}' {why}: nothing is written there.",
        where=where,
        remedy="track data in a folder of its own: `dvc add FOLDER`",
    )
