"""Somebody else's report, as an archive: only the record and its scores are taken out, within limits.

The job that made it ran a pull request's checkpoint, or even its code, so nothing about it is trusted.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Final

from fairgate.ground.errors import FairgateError
from fairgate.ground.hashing import require_regular
from fairgate.reports import results

MAX_ARCHIVE: Final = 512 * 1024 * 1024
"""Bytes of an archive."""
MAX_ENTRIES: Final = 1000
TAKEN: Final = {results.FILE_NAME: results.MAX_BYTES, "scores.parquet": MAX_ARCHIVE}
"""Files that are taken out of an archive, and their most bytes when unpacked; everything else is left in it."""

_MAX_DIRECTORY: Final = 1024 * 1024
_END, _END_BYTES, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_LOCATOR_OF_64_BIT, _LOCATOR_BYTES = b"PK\x06\x07", 20
_REMEDY: Final = "take the artifact that a gate's run uploaded, whole; a report of fairgate has five files"


def unpack_report(archive: Path, folder: Path) -> list[str]:
    """Take results.json, and scores.parquet where there is one, out of a zip archive into a new folder.

    Returns the names of the files that were left in it. FairgateError for whatever is no honest artifact: too large,
    too many entries, names that lead elsewhere, links, encryption, one name twice, sizes that are not as declared.
    """
    try:
        _require_small_directory(archive)
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _require_honest(entries, archive)
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise _refused("the folder to unpack into is not empty", folder, "name a new folder")
            for entry in entries:
                if entry.filename in TAKEN:  # zipfile reads what the header declares, and fails on anything else
                    with opened.open(entry) as source, (folder / entry.filename).open("xb") as target:
                        shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise _refused(f"the archive is damaged or forged ({error})", archive) from error
    except OSError as error:
        raise _refused(f"the archive cannot be unpacked ({error.strerror or error})", archive) from error
    return sorted(entry.filename for entry in entries if entry.filename not in TAKEN)


def _require_small_directory(archive: Path) -> None:
    """Look at the end of the archive before zipfile does, which reads a directory of any size into memory."""
    require_regular(archive, FairgateError)
    size = archive.stat().st_size
    if size > MAX_ARCHIVE:
        raise _refused(f"the archive has {size / 2**20:,.0f} MB; the limit is {MAX_ARCHIVE // 2**20} MB", archive)
    with archive.open("rb") as stream:
        stream.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT - _LOCATOR_BYTES))
        tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise _refused("the file is not a zip archive", archive)
    directory = int.from_bytes(tail[at + 12 : at + 16], "little")
    larger = tail[max(0, at - _LOCATOR_BYTES) : at].startswith(_LOCATOR_OF_64_BIT)
    if larger or directory > _MAX_DIRECTORY:
        raise _refused("the archive's table of contents is larger than any report's", archive)


def _require_honest(entries: list[zipfile.ZipInfo], archive: Path) -> None:
    if len(entries) > MAX_ENTRIES:
        raise _refused(f"the archive has {len(entries):,} entries; the limit is {MAX_ENTRIES:,}", archive)
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise _refused("the archive holds one name twice", archive)
    if results.FILE_NAME not in names:
        raise _refused(f"the archive holds no {results.FILE_NAME}", archive)
    for entry in entries:
        if (fault := _fault(entry)) is not None:
            raise _refused(f"the archive's entry {entry.filename[:80]!r} {fault}", archive)


def _fault(entry: zipfile.ZipInfo) -> str | None:
    """What is wrong with an entry, judged by its header alone."""
    name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
    parts = name.rstrip("/").split("/")
    if not name.isprintable() or "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts):
        return "has a name that leads elsewhere"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed in a way that artifacts are not"
    limit = TAKEN.get(name)
    if limit is not None and entry.file_size > limit:
        return f"would unpack to {entry.file_size / 2**20:,.0f} MB; the limit is {limit // 2**20} MB"
    return None


def _refused(problem: str, where: Path, remedy: str = _REMEDY) -> FairgateError:
    return FairgateError(f"{problem}.", where=str(where), remedy=remedy)
