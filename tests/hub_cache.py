"""A hand-made cache of the hub: a model's snapshot of links to blobs, as huggingface_hub lays it out."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def put_into_cache(hub: Path, name: str, folder: Path, commit: str = COMMIT) -> Path:
    """A copy of a folder as a model that was fetched; the snapshot."""
    repository = hub / f"models--{name.replace('/', '--')}"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / commit
    blobs.mkdir(parents=True, exist_ok=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            blob = blobs / hashlib.sha256(path.read_bytes()).hexdigest()
            shutil.copyfile(path, blob)
            link = snapshot / path.relative_to(folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(Path(*[".."] * (len(link.relative_to(repository).parts) - 1), "blobs", blob.name))
    return snapshot
