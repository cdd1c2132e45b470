"""The name of a dataset's content: it moves with a pixel or a label, and with nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from fairgate.errors import DatasetError
from fairgate.hashing import digest, sha256_bytes


def _plain(value: object) -> object:
    """A stored value as JSON data; bytes by their hash."""
    if isinstance(value, bytes):
        return {"sha256": sha256_bytes(value)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


class ContentHash:
    """Running SHA-256 over rows in stored order: every column, and the decoded pixels of the image.

    Files, row groups, compression, shard cuts, the order of columns and the image encoder do not enter. For JPEG
    the decoder does: libjpeg-turbo's default decoder is bit-exact over versions and processors.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, columns: Mapping[str, object], pixels: str | None) -> None:
        """Take in one row: its columns as Parquet gives them back (without `image`), its pixel hash or None.

        Raises DatasetError for a value that has no one spelling (NaN, a date, ...).
        """
        try:
            row = digest({"columns": {name: _plain(value) for name, value in columns.items()}, "pixels": pixels})
        except (TypeError, ValueError) as error:
            raise DatasetError(
                f"a column holds a value that cannot be fingerprinted: {error}.",
                where=f"set '{columns.get('set_id')}', member '{columns.get('member')}'",
                remedy="store text, whole numbers, finite numbers, booleans, bytes or lists of them; "
                "None where nothing was measured",
            ) from error
        self._hash.update(bytes.fromhex(row))

    def hexdigest(self) -> str:
        """The fingerprint of all rows so far."""
        return self._hash.hexdigest()
