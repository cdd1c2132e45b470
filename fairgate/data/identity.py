"""Which content is this? Computed from what is read: what a manifest says of its own content is a claim."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fairgate.atomic import atomic_write
from fairgate.data.set_integrity import Kind
from fairgate.data.shard_reader import ShardReader
from fairgate.data.verify import find_problems
from fairgate.errors import DatasetError
from fairgate.hashing import digest

ReadSoFar = Callable[[int, int], None]
"""Receives the number of pictures read so far, and how many there are."""

_RULES: Final = 1
"""Raised whenever `verify` or the decoder of pictures becomes stricter: what older rules accepted is read again."""
_HARMLESS: Final[frozenset[Kind]] = frozenset({"extra_shard"})
"""A Parquet file that the manifest does not name is never read."""


def require_intact(dataset: ShardReader, memory: Path | None, progress: ReadSoFar | None) -> str:
    """The fingerprint of a dataset's content, once its shards, columns, pictures and counts are what its manifest says.

    All of it is read and decoded (about 3,500 small PNG pictures a second on two cores). `memory` is a folder that
    remembers, by the digest of the whole manifest, what was found intact: the shards are hashed then, and nothing is
    decoded. A manifest names its shards by SHA-256, so that no other content can have its place. Raises DatasetError.
    """
    dataset.check_shards()
    manifest = dataset.manifest
    name, said = digest([_RULES, version("pillow"), manifest.to_json()]), f"{manifest.ref} {manifest.fingerprint}\n"
    if memory is not None and _remembers(memory / name, said):
        return manifest.fingerprint

    def seen(row: int, _sha256: str) -> None:
        if progress is not None:
            progress(row + 1, manifest.n_rows)

    problems = [problem for problem in find_problems(dataset, seen) if problem.kind not in _HARMLESS]
    if problems:
        worst = next((problem for problem in problems if problem.kind == "wrong_fingerprint"), problems[0])
        more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise DatasetError(
            f"dataset '{manifest.ref}' cannot be scored: {worst.what}{more}",
            where=worst.where,
            remedy=f"`fairgate dataset verify {manifest.ref}` names every problem; run `fairgate dataset pull --force "
            "datasets.dvc`, or release other content as a new version (`fairgate release`)",
        )
    if memory is not None:
        with contextlib.suppress(OSError):  # then it is read again next time; the embedding cache says so once
            memory.mkdir(parents=True, exist_ok=True)
            atomic_write(memory / name, said)
    return manifest.fingerprint


def _remembers(mark: Path, said: str) -> bool:
    try:
        return mark.read_text(encoding="utf-8") == said
    except (OSError, ValueError):
        return False
