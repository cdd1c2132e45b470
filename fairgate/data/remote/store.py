"""Where objects are read from: DVC's own cache on this machine, then a remote."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from fairgate.ground.errors import DatasetError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Folder:
    """Objects in a folder of this machine. The branch may have made what is in it: only regular files are opened.

    `name` is how errors name it, `jobs` how many objects are read at once.
    """

    name: str
    folder: Path
    jobs: int = 4

    def open(self, path: str) -> BinaryIO:
        """An object by its path. Raises FileNotFoundError where there is none."""
        handle = os.open(self.folder / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would block
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(path)
        return open(handle, "rb")  # noqa: PTH123 - of a descriptor; whoever calls closes it


class Remote:
    """Objects of a server, through DVC's own filesystem for it, which is made when it is first needed."""

    def __init__(self, name: str, make: Callable[[], tuple[Any, str]]) -> None:
        self.name, self.jobs = f"remote '{name}'", 16
        self._make, self._lock = make, Lock()
        self._made: tuple[Any, str] | None = None

    def open(self, path: str) -> BinaryIO:
        with self._lock:
            self._made = self._made or self._make()
        filesystem, folder = self._made
        found: BinaryIO = filesystem.open(f"{folder.rstrip('/')}/{path}", "rb")
        return found


ObjectSource = Folder | Remote


@dataclass(frozen=True, slots=True)
class Store:
    """Objects by MD5, from the first place that has them."""

    places: Mapping[str | None, tuple[ObjectSource, ...]]
    """By the name of a remote; None for the default one."""

    def copy(self, md5: str, suffix: str, into: BinaryIO, remote: str | None = None, most: int | None = None) -> bool:
        """Write an object to an open, empty file; False where no place has it.

        What a place holds under a wrong name does not count. Raises DatasetError where it is damaged everywhere, is
        longer than `most` bytes, or a remote does not answer.
        """
        damaged: list[str] = []
        for place in self._of(remote):
            into.seek(0)
            into.truncate()
            digest = hashlib.md5(usedforsecurity=False)
            try:
                with place.open(f"files/md5/{md5[:2]}/{md5[2:]}{suffix}") as source:
                    while chunk := source.read(_CHUNK):
                        digest.update(chunk)
                        try:
                            into.write(chunk)
                        except OSError as error:
                            said = f"an object could not be written: {error.strerror or error}."
                            raise DatasetError(said, remedy="make room, then run again") from error
                        if most is not None and into.tell() > most:
                            raise _unread(place, md5, f"it is longer than {most:,} bytes")
            except FileNotFoundError:
                continue
            except DatasetError:
                raise
            except Exception as error:  # every filesystem has exceptions of its own
                raise _unread(place, md5, f"{type(error).__name__}: {error}") from error
            if digest.hexdigest() == md5:
                return True
            damaged.append(place.name)
        if damaged:
            raise DatasetError(
                f"object {md5}{suffix} has other content than its name says.",
                where=", ".join(damaged),
                remedy="restore it from where the data was made: `dvc push` there; somebody may have replaced it",
            )
        return False

    def _of(self, remote: str | None) -> tuple[ObjectSource, ...]:
        remote = remote and remote.lower()  # as DVC reads them
        if remote in self.places:
            return self.places[remote]
        known = ", ".join(sorted(name for name in self.places if name is not None)) or "none"
        raise DatasetError(
            f"the remote '{remote}' is not in the configuration that counts.",
            where=".dvc/config",
            remedy=f"merge the change of .dvc/config first; remotes there: {known}",
        )

    @property
    def jobs(self) -> int:
        """How many objects may be on their way at once."""
        return min(16, max((place.jobs for places in self.places.values() for place in places), default=1))


def _unread(place: ObjectSource, md5: str, why: str) -> DatasetError:
    return DatasetError(
        f"object {md5} could not be read: {why}.",
        where=place.name,
        remedy="check the address and the login (environment variables, or `dvc remote modify --global`); for S3 and "
        "others DVC needs a package of its own (dvc-s3, dvc-gs, dvc-azure, dvc-ssh). What is fetched already stays",
    )
