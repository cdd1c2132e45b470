"""Where objects are read from: DVC's own cache on this machine, then a remote.

DVC's configuration is read at a trusted commit and never from the branch.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO
from urllib.parse import urlparse

from fairgate.ground.errors import DatasetError, FairgateError

_CHUNK = 1 << 20
_S3_ATTEMPTS = "2"
"""How often botocore asks an S3: s3fs asks botocore five times. A server that was silent was given up after seven
minutes with botocore's own five."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Objects in a folder of this machine, which errors call `name`. The branch may have made what is in it: only
    regular files are opened."""

    name: str
    folder: Path

    def open(self, path: str) -> BinaryIO:
        """An object by its path. Raises FileNotFoundError where there is none."""
        handle = os.open(self.folder / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would block
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(path)
        return open(handle, "rb")  # noqa: PTH123 - of a descriptor; whoever calls closes it


class Remote:
    """Objects of a server, through DVC's own filesystem for it, which is made when it is first needed."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.name = f"remote '{name}'"
        self._named, self._config, self._lock = name, config, Lock()
        self._made: tuple[Any, str] | None = None

    def open(self, path: str) -> BinaryIO:
        from dvc.fs import get_cloud_fs

        with self._lock:
            if self._made is None:
                kind, options, folder = get_cloud_fs(self._config, name=self._named)
                self._made = kind(**options), folder
        filesystem, folder = self._made
        stream: BinaryIO = filesystem.open(f"{folder.rstrip('/')}/{path}", "rb")
        return stream


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
                            problem = f"an object could not be written: {error.strerror or error}."
                            raise DatasetError(problem, remedy="make room, then run again") from error
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


def _unread(place: ObjectSource, md5: str, why: str) -> DatasetError:
    return DatasetError(
        f"object {md5} could not be read: {why}.",
        where=place.name,
        remedy="check the address and the login (environment variables, or `dvc remote modify --global`); for S3 and "
        "others DVC needs a package of its own (dvc-s3, dvc-gs, dvc-azure, dvc-ssh). What is fetched already stays",
    )


CONFIG = ".dvc/config"
_FILES = (
    *("credentialpath", "configpath", "keyfile", "cert_path", "key_path", "ssl_verify"),
    *("gdrive_user_credentials_file", "gdrive_service_account_json_file_path"),
)
"""Options of a remote that name a file which decides what runs or who is believed."""

Read = Callable[[str], bytes | None]


@contextlib.contextmanager
def open_store(root: Path, read: Read | None, *, own_settings: bool, shown: str) -> Iterator[Store]:
    """The caches and remotes of a repository.

    `read` returns files of the commit whose configuration counts (None: the one of this working tree does). Files that
    the configuration names inside the repository come from that commit too. `own_settings` adds `.dvc/config.local`.
    While the block runs, the working folder is an empty one: a configured command with a relative path finds nothing
    of the branch. Raises DatasetError where there is no usable configuration; `shown` names it.
    """
    root = root.resolve()
    with tempfile.TemporaryDirectory(prefix="fairgate-dvc-") as scratch:
        # deep, so that a remote's `../../storage` stays below `scratch` and is recognised
        home = root if read is None else Path(scratch).resolve().joinpath(*"abcdefgh", "repository")
        if read is not None:
            text = read(CONFIG)
            if text is None:
                raise DatasetError(
                    f"there is no {CONFIG} at {shown}, and one that a change brings does not count.",
                    where=shown,
                    remedy=f"merge {CONFIG} by itself first (`dvc remote add`), reviewed; or name the commit whose "
                    "configuration counts: --base REF",
                )
            _write(home / CONFIG, text)
        try:
            config = _configured(root, home, Path(scratch).resolve(), read, own_settings)
            places = _places(config, root / ".dvc" / "cache")
        except FairgateError:
            raise
        except Exception as error:  # of DVC, its schema and its parsers
            raise DatasetError(
                f"the configuration of DVC cannot be used: {error}.",
                where=f"{CONFIG} at {shown}",
                remedy="look at it with `dvc remote list` and `dvc config --list`",
            ) from error
        before = dict(os.environ)  # DVC's S3 sets AWS_CONFIG_FILE to a file of this block
        os.environ.setdefault("AWS_MAX_ATTEMPTS", _S3_ATTEMPTS)
        try:
            with contextlib.chdir(scratch):
                yield Store(places)
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]


def _configured(root: Path, home: Path, scratch: Path, read: Read | None, own_settings: bool) -> dict[str, Any]:
    """The sections of the configuration, of system and user first, with every path where it belongs."""
    from dvc.config import Config, merge

    config = Config(dvc_dir=str(home / ".dvc"), local_dvc_dir=str(scratch / "none"), validate=False)
    if read is not None:
        sections = [
            (config["cache"], ("dir",), ()),
            *((remote, ("url",), _FILES) for remote in config["remote"].values()),
        ]
        for options, places, files in sections:
            for key in places:
                if Path(options.get(key) or "").is_relative_to(scratch):
                    options[key] = os.path.normpath(root / os.path.relpath(options[key], home))
            for key in files:
                _bring(options, key, root, home, read)
    if own_settings:
        merge(config, Config(local_dvc_dir=str(root / ".dvc"), validate=False))
    return dict(config)


def _bring(options: dict[str, Any], key: str, root: Path, home: Path, read: Read) -> None:
    """A file that a remote's option names inside the repository, from the commit whose configuration counts."""
    value = str(options.get(key) or "")
    if not value or value.lower() in ("true", "false"):
        return
    path = Path(value) if Path(value).is_absolute() else home / value
    if path.is_relative_to(home):
        name = path.relative_to(home).as_posix()
        content = read(name)
        if content is not None:
            _write(path, content)
            options[key] = str(path)
            return
    elif not path.resolve().is_relative_to(root):
        return
    raise DatasetError(
        f"the remote's `{key}` names a file of the repository that is not in the commit whose configuration counts.",
        where=CONFIG,
        remedy="commit it there, name a file outside of the repository by its absolute path, or give the login by "
        "environment variables",
    )


def _places(config: Mapping[str, Any], cache: Path) -> dict[str | None, tuple[ObjectSource, ...]]:
    here = Folder("DVC's cache on this machine", Path(config["cache"].get("dir") or cache))
    places: dict[str | None, tuple[ObjectSource, ...]] = {}
    for name, options in config["remote"].items():
        if any(str(options.get(key)).lower() == "true" for key in ("version_aware", "worktree")):
            continue  # cloud versioning keeps files by name, not by content
        url = options["url"]
        by_path = not urlparse(url).scheme
        remote: ObjectSource = Folder(f"remote '{name}'", Path(url)) if by_path else Remote(name, config)
        places[name] = (here, remote)
    default = (config["core"].get("remote") or "").lower()
    if default and default not in places:
        raise ValueError(f"the default remote '{default}' is not configured, or uses cloud versioning")
    places[None] = places[default] if default else (here,)
    return places


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
