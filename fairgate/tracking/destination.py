"""Where a waiting run was meant to go, as its folder says it; believed only where this machine wrote the folder.

The queue lies in the repository, so that a branch can bring entries of its own. An address in one could send what the
environment holds for a tracking server (a token, a password) to a host of the branch's author. So a folder is sealed:
an HMAC of its files and its address, with a key that lies in the person's home and in no repository.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from fairgate.ground.hashing import sha256_file
from fairgate.ground.seals import KeyTrouble, is_sealed, stored_key
from fairgate.ground.seals import seal as sealed
from fairgate.models.checkpoints import repositories_of
from fairgate.tracking.store_session import sqlite_path

FILE: Final = "destination.json"


@dataclass(frozen=True, slots=True)
class Destination:
    """A tracking address without its secrets: `complete` where nothing had to be left out of it, `own` where it is
    known that this machine wrote it."""

    uri: str
    complete: bool
    own: bool = False


_UNKNOWN: Final = Destination("", False)


def destination_of(uri: str) -> Destination:
    """An address as it may be written to disk: without user, password, query and fragment; local paths absolute.

    >>> destination_of("https://me:secret@mlflow.example/api?token=1")
    Destination(uri='https://mlflow.example/api', complete=False, own=False)
    """
    if uri in ("databricks", "databricks-uc"):  # addresses of MLflow that look like a folder's name
        return Destination(uri, True)
    if uri and ":" not in uri:
        return Destination(str(Path(uri).absolute()), True)
    try:
        parts = urlsplit(uri)
    except ValueError:
        return _UNKNOWN
    if (database := sqlite_path(uri)) is not None:
        return Destination(f"{parts.scheme}:///{database}", not (parts.query or parts.fragment))
    if not parts.scheme or ("@" in parts.path and parts.netloc):  # a password with a slash in it looks like a path
        return _UNKNOWN
    host = parts.netloc.rpartition("@")[2]
    complete = not (parts.query or parts.fragment or "@" in parts.netloc)
    return Destination(urlunsplit((parts.scheme, host, parts.path, "", "")), complete)


def seal(entry: Path, destination: Destination) -> None:
    """Write an entry's address with the seal of this machine. Where no key can be stored, nothing is written."""
    key = _own_key(entry, make=True)
    if key is None:
        return
    address = {"uri": destination.uri, "complete": destination.complete}
    (entry / FILE).write_text(json.dumps({**address, "seal": sealed(key, _content(entry, address))}), encoding="utf-8")


def stored_destination(entry: Path) -> Destination | None:
    """Where an entry was meant to go; None where it holds no address. A folder that holds a link is nobody's."""
    path = entry / FILE
    if not path.is_symlink() and not path.exists():
        return None
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 64 << 10:
            return _UNKNOWN
        saved: Any = json.loads(path.read_bytes())
        address = {"uri": saved["uri"], "complete": saved["complete"]}
        key = _own_key(entry, make=False)
        own = key is not None and is_sealed(key, _content(entry, address), saved["seal"])
        return Destination(str(address["uri"]), address["complete"] is True, own)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return _UNKNOWN


def plain(entry: Path) -> bool:
    """Whether an entry is a folder of plain files: no links, pipes or devices, which could lead out of it."""
    if entry.is_symlink():
        return False
    return all(not path.is_symlink() and (path.is_dir() or path.is_file()) for path in entry.rglob("*"))


def _content(entry: Path, address: Mapping[str, Any]) -> dict[str, Any]:
    files = {
        str(path.relative_to(entry)): sha256_file(path)
        for path in sorted(entry.rglob("*"))
        if path.is_file() and path != entry / FILE
    }
    return {"address": address, "files": files}


def _own_key(entry: Path, *, make: bool) -> bytes | None:
    """This person's key on this machine; None if it is not there, cannot be stored or does not count."""
    try:
        home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return stored_key(Path(home) / "fairgate" / "queue.key", repositories_of(entry), make=make)
    except (KeyTrouble, RuntimeError):
        return None
