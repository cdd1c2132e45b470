"""The files of a download: a folder, and what its archives unpack to; nothing leaves either."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeVar

from fairgate.data import TarHeader, inside, read_labels, reading
from fairgate.ground.errors import DatasetError, disk_errors, listed
from fairgate.ground.hashing import read_bounded, require_regular, sha256_file

Key = TypeVar("Key")
LARGEST_IMAGE = 64 << 20
MOST_FILES = 2_000_000
GROWTH = 30
"""How many times its own size an archive may unpack to; pictures hardly shrink, and JSON does about tenfold."""
SPARE = 64 << 20
_TOO_LARGE = f"it unpacks to more than {GROWTH} times its size"
_PIECE = 1 << 20
_LARGEST_HEADER = 2 << 20
"""Bytes of a tar up to a file's content, with the names and notes before it, which are held in memory."""


class SourceFiles:
    """Regular files below a folder, and those in its archives, which are unpacked into `scratch` once.

    Archives (.zip, .tar, .tar.gz, .tgz) are those that `archives` names as patterns. They may hold plain files only: no
    link, no device, no path that leads out, no file twice. Links below the folder are followed to files in it. `name`
    is the dataset's, for messages.
    """

    def __init__(self, folder: Path, scratch: Path, archives: tuple[str, ...] = (), name: str = "NAME") -> None:
        if not folder.is_dir():
            raise DatasetError(
                "the folder does not exist.", where=str(folder), remedy="give the folder that holds the download"
            )
        self.folder = folder
        self.archives = sorted({path for pattern in archives for path in folder.glob(pattern) if path.is_file()})
        self._scratch = scratch
        self._name = name

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Every file by its path below the folder, or in its archive, with `/`. Raises DatasetError for an archive
        that holds something else than plain files, and for a path that two of them have."""
        by_path: dict[str, Path] = {}
        for root in (self.folder, *(_unpacked(each, self._scratch) for each in self.archives)):
            for path in _walk(root):
                name = path.relative_to(root).as_posix()
                put_once(by_path, name, path, f"'{name}' is there twice.")
        return by_path

    def matching(self, *patterns: str) -> list[Path]:
        """The files whose path ends as one of the patterns says (`*.parquet`, `OO/OO_*.tsv`), by path."""
        return [path for name, path in sorted(self.paths.items()) if any(map(PurePosixPath(name).match, patterns))]

    def one(self, *patterns: str) -> Path:
        """The only file that matches. Raises DatasetError where there is none, or there are several."""
        matches = self.matching(*patterns)
        if len(matches) != 1:
            what = f"{len(matches)} files are called" if matches else "no file is called"
            raise DatasetError(
                f"{what} {' or '.join(patterns)}.",
                where=str(self.folder),
                remedy=f"keep one of {listed([str(path) for path in matches])}"
                if matches
                else f"give the folder that the download is in; `fairgate dataset get {self._name}` says what it holds",
            )
        return matches[0]

    def by_tail(self, parts: int) -> dict[str, Path]:
        """Files by the last parts of their path: `val/1.jpg`. Raises DatasetError where two share theirs."""
        tails: dict[str, Path] = {}
        for name, path in self.paths.items():
            tail = "/".join(PurePosixPath(name).parts[-parts:])
            if PurePosixPath(name).suffix.lower() in _PICTURES:
                put_once(tails, tail, path, f"two images are called '{tail}'.")
            tails[tail] = path
        return tails

    def pictures_by_name(self) -> dict[str, Path]:
        """Pictures by their name without its ending. Raises DatasetError where two share theirs."""
        by_name: dict[str, Path] = {}
        for tail, path in self.by_tail(1).items():
            name = PurePosixPath(tail).stem
            if PurePosixPath(tail).suffix.lower() in _PICTURES:
                put_once(by_name, name, path, f"two pictures are called '{name}'.")
        return by_name

    def relative(self, path: Path) -> str:
        """A file's name in the manifest."""
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else path.name


ABSENT: Final = "image is not there"
_PICTURES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif"})


def put_once(paths: dict[Key, Path], key: Key, path: Path, problem: str) -> None:
    """Keep a file under a key. Raises DatasetError where another file has it."""
    if key in paths:
        raise DatasetError(
            problem,
            where=f"{paths[key]} and {path}",
            remedy="keep one: an archive or what it unpacks to, and one download in a folder",
        )
    paths[key] = path


def label_lines(path: Path, key: str, *columns: str) -> Iterator[tuple[dict[str, str], str]]:
    """Fields and place of each line of a CSV file. Raises DatasetError where it lacks a column, and for a second line
    with the same `key`."""
    labels = read_labels(path)
    for column in (key, *columns):
        labels.column(column, "the published table has")
    first: dict[str, int] = {}
    for line, fields in labels:
        if first.setdefault(fields[key], line) != line:
            raise DatasetError(
                f"'{fields[key][:80]}' has two lines.",
                where=f"{labels.place(first[fields[key]])} and {labels.place(line)}",
                remedy="take the table as it was published",
            )
        yield fields, labels.place(line)


def require_groups(groups: Mapping[str, object], known: Mapping[str, Sequence[str]], place: str) -> None:
    """Raises DatasetError for a group that its attribute does not have."""
    for attribute, group in groups.items():
        if group not in known[attribute]:
            raise DatasetError(
                f"{group!r} is no {attribute} of this dataset.",
                where=place,
                remedy=f"take the labels as they were published: {', '.join(known[attribute])}",
            )


def read_image(path: Path) -> bytes:
    """A picture's bytes. Raises DatasetError where the file cannot be read or is very large."""
    require_regular(path, DatasetError)
    with disk_errors(
        DatasetError, "the image file cannot be read", path, "replace the file, or fetch the download again"
    ):
        return read_bounded(path, LARGEST_IMAGE)


def _walk(root: Path) -> Iterator[Path]:
    """Regular files below a folder; hidden ones and links that lead out of it are passed over."""
    home, count = root.resolve(), 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__MACOSX")))
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or not stat.S_ISREG(_mode(path)) or not path.resolve().is_relative_to(home):
                continue
            count += 1
            if count > MOST_FILES:
                raise DatasetError(
                    f"the folder holds more than {MOST_FILES:,} files.",
                    where=str(root),
                    remedy="give the folder of this download alone",
                )
            yield path


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:  # a link to nothing, or in a ring
        return 0


def _unpacked(archive: Path, scratch: Path) -> Path:
    """The folder that holds an archive's files, named by the archive's content: unpacked once, whole or not at all."""
    require_regular(archive, DatasetError)
    target = scratch / sha256_file(archive)[:32]
    if target.is_dir():
        return target
    partial = scratch / f".{uuid.uuid4().hex}.partial"
    remedy = "make room there, or name another folder with --downloads"
    try:
        with disk_errors(DatasetError, "the archive cannot be unpacked", scratch, remedy):
            partial.mkdir(parents=True)
            with _archive(archive):
                budget = _most(archive)
                for name, source in _members(archive):
                    budget -= _copy(source, partial / inside(name, str(archive)), budget)
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


@contextmanager
def _archive(path: Path) -> Iterator[None]:
    """Raises DatasetError where the block cannot read an archive."""
    with reading("the archive", path, "the archive as it was published"):
        try:
            yield
        except (zipfile.BadZipFile, tarfile.TarError, RuntimeError) as error:  # RuntimeError: encrypted
            raise ValueError(str(error)) from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """(path, content) of each file of an archive; ValueError for anything else than files and folders."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            if len(opened.infolist()) > MOST_FILES:
                raise ValueError(f"it holds more than {MOST_FILES:,} files and folders")
            for entry in opened.infolist():
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise ValueError(f"'{entry.filename}' is a link or a device")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"'{entry.filename}' is compressed in a way that is not read")
                if not entry.is_dir():
                    with opened.open(entry) as source:
                        yield entry.filename, source
        return
    yield from _tar_members(archive)


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    # gzip's own reader: that of tarfile raises TypeError for a header that is cut short
    opened: IO[bytes] = archive.open("rb") if archive.suffix == ".tar" else gzip.open(archive)  # type: ignore[assignment] # noqa: SIM115
    with opened:
        packed = _Rationed(opened, _most(archive))
        with tarfile.open(fileobj=packed, mode="r|", tarinfo=TarHeader) as stream:  # type: ignore[call-overload]
            count = 0
            while (member := stream.next()) is not None:
                stream.members.clear()  # tarfile would remember every one, and what holds for all after it
                stream.pax_headers.clear()
                count += 1
                if count > MOST_FILES:
                    raise ValueError(f"it holds more than {MOST_FILES:,} files and folders")
                if not member.isdir():
                    plain = member.isreg() and member.sparse is None
                    content = stream.extractfile(member) if plain else None
                    if content is None:
                        raise ValueError(f"'{member.name}' is a link or a device, or sparse")
                    packed.ahead = packed.left
                    yield member.name.removeprefix("./"), content
                packed.ahead = _LARGEST_HEADER


class _Rationed:
    """Gives tarfile `left` bytes at most, and `ahead` until the next file's content: what a packed archive unpacks to
    is known only as it comes."""

    def __init__(self, source: IO[bytes], left: int) -> None:
        self._source = source
        self.left = left
        self.ahead = _LARGEST_HEADER

    def read(self, size: int) -> bytes:
        piece = self._source.read(size)
        self.left -= len(piece)
        self.ahead -= len(piece)
        if self.left < 0:
            raise ValueError(_TOO_LARGE)
        if self.ahead < 0:
            raise ValueError(f"a header in it has more than {_LARGEST_HEADER:,} bytes")
        return piece


def _most(archive: Path) -> int:
    return archive.stat().st_size * GROWTH + SPARE


def _copy(source: IO[bytes], target: Path, most: int) -> int:
    """Write one file of an archive and return its bytes; what its header says of its size is not believed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        with target.open("xb") as out:
            while piece := source.read(_PIECE):
                written += len(piece)
                if written > most:
                    raise ValueError(_TOO_LARGE)
                out.write(piece)
    except FileExistsError:
        raise ValueError(f"'{target.name}' is in it twice") from None
    return written
