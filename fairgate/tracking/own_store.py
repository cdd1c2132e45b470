"""A store inside of the checkout belongs to the branch: nothing that decides is read from it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fairgate.ground.ci import in_ci
from fairgate.ground.errors import TrackingError
from fairgate.ground.git import run_git
from fairgate.models.checkpoints import repositories_of
from fairgate.tracking.store_session import redact, sqlite_path

_BESIDE_SQLITE = ("-journal", "-wal", "-shm")
"""Ends of the files from which SQLite rewrites a store when it is next opened."""


def local_place(uri: str) -> Path | None:
    """The file or folder of this disk that an address of a store or of artifacts names; None for a server's.

    >>> local_place("file:///srv/mlruns"), local_place("https://mlflow.example"), local_place("databricks")
    (PosixPath('/srv/mlruns'), None, None)
    """
    if (database := sqlite_path(uri)) is not None:
        return database
    scheme, colon, _ = uri.partition(":")
    if uri in ("databricks", "databricks-uc") or (colon and scheme != "file"):
        return None
    return Path(unquote(urlsplit(uri).path)).absolute()


def require_not_the_branchs(uri: str, root: Path | None = None) -> None:
    """Raises TrackingError for a store, or files of one, that git tracks; in CI, for any in the repository of `root`.

    A branch would decide what such a store contains, and to which address its runs' files are sent.
    """
    place = local_place(uri)
    if place is None:
        return
    for path in {place, place.resolve()}:
        inside = root is not None and in_ci(os.environ) and any(map(path.is_relative_to, repositories_of(root)))
        if inside or any(_in_git(top, path) for top in repositories_of(path.parent)):
            raise TrackingError(
                "this store is inside of the repository, where a branch decides what it contains.",
                where=redact(uri),
                remedy="name a server, or a store that is elsewhere with its files "
                "(--fairness-mlflow sqlite:////srv/fairgate.db)",
            )


def _in_git(top: Path, path: Path) -> bool:
    place = path.parent.resolve() / path.name
    inside = place.relative_to(top).as_posix()
    names = [f"{inside}{end}" for end in ("", *_BESIDE_SQLITE)]
    done = run_git(top, "ls-tree", "-r", "--name-only", "HEAD", "--", *names)
    return done.returncode == 0 and bool(done.stdout.strip())
