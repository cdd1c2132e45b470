"""A folder that was found and hashed, as plain data for another process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairgate.models.checkpoints import HashedFiles, TransformersFolder


def folder_as_data(found: TransformersFolder) -> dict[str, Any]:
    """A folder that was found and hashed, as plain data for the other process."""
    files = found.files
    roles = {role: [str(path), files.hashes[role], list(files.stamps[role])] for role, path in files.paths.items()}
    weights = [str(path) for path in found.weights]
    return {
        "path": str(found.path),
        "kind": found.kind,
        "config": dict(found.config),
        "weights": weights,
        "files": roles,
    }


def folder_of_data(data: Mapping[str, Any]) -> TransformersFolder:
    """The same folder, from that data: a plain one."""
    files: Mapping[str, tuple[str, str, list[int]]] = data["files"]
    hashed = HashedFiles(
        {role: Path(path) for role, (path, _, _) in files.items()},
        {role: digest for role, (_, digest, _) in files.items()},
        {role: tuple(stamp) for role, (_, _, stamp) in files.items()},
    )
    weights = tuple(Path(path) for path in data["weights"])
    return TransformersFolder(Path(data["path"]), data["kind"], data["config"], weights, hashed, plain=True)
