"""Write files below one folder, atomically and never through a link."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from fairgate.ground.atomic import draft_of, is_draft
from fairgate.ground.errors import DatasetError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def folder_of(root: Path, parts: tuple[str, ...], *, make: bool) -> Iterator[int | None]:
    """A descriptor of the folder `parts` below `root`, opened name by name; None where it is not there and not made.

    Raises DatasetError where a name is a link, no folder, or makes a virtual environment.
    """
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(parts, start=1):
            with contextlib.suppress(FileExistsError):
                if make:
                    os.mkdir(name, dir_fd=handle)
            try:
                below = os.open(name, _FOLDER, dir_fd=handle)
            except FileNotFoundError:
                yield None
                return
            except OSError as error:
                raise _refused(parts[:depth], error) from error
            os.close(handle)
            handle = below
            if _there(handle, "pyvenv.cfg"):
                raise DatasetError(
                    "the folder is a Python environment: nothing is written into it.",
                    where="/".join(parts[:depth]),
                    remedy="track data in a folder of its own: `dvc add FOLDER`",
                )
        yield handle
    finally:
        os.close(handle)


def read_file(root: Path, path: str, most: int) -> bytes | None:
    """A regular file that no link leads to, of at most `most` bytes; None where there is none."""
    with _opened(root, path) as file:
        content = None if file is None else file.read(most + 1)
    if content is not None and len(content) > most:
        raise DatasetError(f"the file is longer than {most:,} bytes.", where=path, remedy="restore it from main")
    return content


def is_object(root: Path, path: str, md5: str) -> bool | None:
    """Whether the file at a path has this content; None where nothing is there."""
    with _opened(root, path) as file:
        if file is None:
            return None
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5


def place(root: Path, path: str, write: Callable[[BinaryIO], bool]) -> int | None:
    """Put a file at a path once `write` has written all of it to a draft; its bytes, None where `write` had nothing.

    The draft replaces a file or link of that name. Raises DatasetError where the path leads through a link.
    """
    *parents, name = path.split("/")
    with folder_of(root, tuple(parents), make=True) as folder:
        assert folder is not None
        draft = draft_of(Path(name)).name
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(draft, flags, 0o644, dir_fd=folder), "w+b") as file:  # noqa: PTH123 - of a descriptor
                if not write(file):
                    return None
                size = file.tell()
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except IsADirectoryError as error:
            raise _refused((*parents, name), error) from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
        return size


def others(root: Path, path: str, expected: set[str]) -> list[str]:
    """Files and links in a folder that are not among the expected paths; drafts of a killed run are removed."""
    with folder_of(root, tuple(path.split("/")), make=False) as top:
        if top is None:
            return []
        paths = []
        for folder, folders, files, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            links = [part for part in folders if stat.S_ISLNK(os.lstat(part, dir_fd=handle).st_mode)]
            for name in (*files, *links):
                if is_draft(name):
                    os.unlink(name, dir_fd=handle)
                    continue
                whole = os.path.normpath(f"{path}/{folder}/{name}")
                if whole not in expected:
                    paths.append(whole)
        return sorted(paths)


def remove(root: Path, path: str) -> None:
    """Remove a file or link, and the folders that this leaves empty: of a release, they would be one without files."""
    *parents, name = path.split("/")
    with folder_of(root, tuple(parents), make=False) as folder:
        if folder is not None:
            os.unlink(name, dir_fd=folder)
    while parents:
        *parents, name = parents
        with folder_of(root, tuple(parents), make=False) as folder:
            if folder is None:
                return
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:  # it holds other files
                return


@contextlib.contextmanager
def _opened(root: Path, path: str) -> Iterator[BufferedReader | None]:
    """The regular file at a path that no link leads through; None where nothing is there."""
    parts = tuple(path.split("/"))
    with folder_of(root, parts[:-1], make=False) as folder:
        if folder is None or not _there(folder, parts[-1]):
            yield None
            return
        try:
            handle = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            raise _refused(parts, error) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise _refused(parts, OSError(errno.EINVAL, "not a regular file"))
        with open(handle, "rb") as file:  # noqa: PTH123 - of a descriptor
            yield file


def _there(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _refused(parts: tuple[str, ...], error: OSError) -> DatasetError:
    link = error.errno in (errno.ELOOP, errno.ENOTDIR)
    return DatasetError(
        f"{'a link, or a file where a folder is meant' if link else error.strerror}: nothing is written through it.",
        where="/".join(parts),
        remedy="remove it (`git rm`, or `rm`), and fetch again",
    )
