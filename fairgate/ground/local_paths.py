"""Paths on this machine, told from addresses of stores: `s3://bucket/name` would become a local folder called `s3:`."""

from __future__ import annotations

import re
from pathlib import Path

from fairgate.ground.errors import FairgateError, SettingsError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+")  # a drive of Windows has one letter


def require_local(path: str | Path, where: str, error: type[FairgateError] = SettingsError) -> Path:
    """The path, which an option `where` names. Raises SettingsError, or another `error`, for an address such as
    `s3://bucket/name`."""
    if address := _ADDRESS.match(str(path)):
        scheme = address[0].rstrip("/")  # pathlib leaves a single slash
        raise error(
            f"'{scheme}//{str(path)[address.end() :]}' is an address, and a path on this machine is expected.",
            where=where,
            remedy="name a path, and keep it in a bucket by DVC (`dvc remote add --default store s3://BUCKET/DIR`, "
            "`dvc add PATH`, `dvc push`; elsewhere `fairgate dataset pull`), a cache or a report by CI's cache and "
            "artifacts; or mount the bucket",
        )
    return Path(path)
