"""A folder that was found and hashed, as plain data for another process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairgate.models.checkpoints import HashedFiles, TransformersFolder


def files_as_data(files: HashedFiles) -> dict[str, Any]:
    """Path, digest and stamp of each file, by role."""
    return {role: [str(path), files.hashes[role], list(files.stamps[role])] for role, path in files.paths.items()}


def files_of_data(data: Mapping[str, Any]) -> HashedFiles:
    """The same files, from that data."""
    return HashedFiles(
        {role: Path(path) for role, (path, _, _) in data.items()},
        {role: hashed for role, (_, hashed, _) in data.items()},
        {role: tuple(stamp) for role, (_, _, stamp) in data.items()},
    )


def folder_as_data(found: TransformersFolder) -> dict[str, Any]:
    """A folder that was found and hashed, as plain data for the other process."""
    named = {"path": str(found.path), "kind": found.kind, "weights": [str(path) for path in found.weights]}
    return {**named, "config": dict(found.config), "files": files_as_data(found.files)}


def folder_of_data(data: Mapping[str, Any]) -> TransformersFolder:
    """The same folder, from that data: a plain one."""
    files, weights = files_of_data(data["files"]), tuple(Path(path) for path in data["weights"])
    return TransformersFolder(Path(data["path"]), data["kind"], data["config"], weights, files, plain=True)
