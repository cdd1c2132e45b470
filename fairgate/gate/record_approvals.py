"""The approval that an edited record needs."""

from __future__ import annotations

from pathlib import Path

from fairgate.gate.baselines import RESULTS, SCORES, Repository
from fairgate.gate.preparation import Prepared
from fairgate.ground.hashing import sha256_bytes
from fairgate.records import NeededApproval

_NOTHING = "none"


def record_approval(folder: str, prepared: Prepared, what: str) -> NeededApproval:
    """It binds both files of the record in a folder of the repository, before and now."""
    base = prepared.compared.commit if prepared.compared is not None else "HEAD"
    before = [Repository(prepared.root).read(base, f"{folder}/{name}") for name in (RESULTS, SCORES)]
    now = [_bytes(prepared.root / folder / name) for name in (RESULTS, SCORES)]
    digests = [_NOTHING if not any(files) else sha256_bytes(b"\0".join(map(_named, files))) for files in (before, now)]
    return NeededApproval(
        kind="record", what=f"the edited record in {folder} {what}", before=digests[0], now=digests[1]
    )


def _named(content: bytes | None) -> bytes:
    return b"" if content is None else sha256_bytes(content).encode()


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
