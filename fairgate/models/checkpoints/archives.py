"""Zip archives, as torch saves checkpoints: none may unpack to far more than itself, or be read in two ways."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from fairgate.ground.errors import ModelError

_SPARE_BYTES = 64 << 20  # the code in a TorchScript archive is compressed


def is_archive(path: Path) -> bool:
    """Whether a file says that it is a zip archive, a broken one too."""
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":  # torch goes by it; some releases of Python do not call a broken one a zip
            return True
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # one that spans several disks, say
        return True


def require_uncompressed(path: Path) -> None:
    """Raises ModelError for a zip archive that unpacks to far more than itself: torch compresses no tensor."""
    _require_one_directory(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ModelError(
            f"the checkpoint is truncated or damaged ({error}).", where=str(path), remedy="save or download it again"
        ) from error
    unpacked, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if unpacked > size + _SPARE_BYTES:
        raise ModelError(
            f"the archive of {size:,} bytes unpacks to {unpacked:,}.",
            where=str(path),
            remedy="save it with torch.save, which compresses no tensor, or better as .safetensors",
        )


def _require_one_directory(path: Path) -> None:
    """Raises ModelError for an archive whose list of files is not right before its end, as torch writes it.

    Python looks for the list there, torch where the end record says: the sizes that were checked would be another's.
    """
    length = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(length - 98, 0))
        tail = file.read().rjust(98, b"\0")
    record, locator, end = tail[:56], tail[56:76], tail[76:]
    size, offset = struct.unpack("<II", end[12:20])
    start, agree = length - 22, end.startswith(b"PK\x05\x06") and end.endswith(b"\0\0")  # and no comment
    if locator.startswith(b"PK\x06\x07"):
        start -= 76
        agree &= record.startswith(b"PK\x06\x06") and struct.unpack("<Q", locator[8:16])[0] == start
        wide = struct.unpack("<QQ", record[40:])
        agree &= all(small in (large, 0xFFFFFFFF) for small, large in zip((size, offset), wide, strict=True))
        size, offset = wide
    if not agree or offset + size != start:
        raise ModelError(
            "the checkpoint is truncated or damaged (the archive's list of files is not at its end).",
            where=str(path),
            remedy="save it again with torch.save, or better as .safetensors",
        )
