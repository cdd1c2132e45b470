"""Embeddings on disk, named by the content they were computed from."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fairgate.ground.atomic import atomic, remove, sweep
from fairgate.ground.errors import SettingsError
from fairgate.ground.hashing import digest
from fairgate.ground.seals import KEY_BYTES, KeyTrouble, is_sealed, seal, stored_key
from fairgate.models.checkpoints import repositories_of

KEY_VARIABLE = "FAIRGATE_CACHE_KEY"
_SHORTEST_KEY = 16
_OF_THIS_PROCESS = secrets.token_bytes(KEY_BYTES)


class CacheWarning(UserWarning):
    """The cache could not be read or written; the run goes on without it."""


@dataclass(frozen=True, slots=True)
class CachedArrays:
    """One cached file: arrays by name, and notes in text."""

    arrays: dict[str, NDArray[Any]]
    notes: dict[str, str]


class EmbeddingCache:
    """A folder of safetensors files. Never the reason that a run fails.

    Files appear whole or not at all (written under another name, then renamed), so that several processes may write the
    same entry. Each carries a checksum of its arrays and notes, sealed with this machine's key (`cache_key`): an entry
    that was made without the key is computed again, without a message. A damaged file is reported once as a
    CacheWarning, ignored, and written again. A folder that cannot be written is reported once, too.

    `root` is the repository whose models are judged, which may not contain the key. Entries count without a seal if
    they are not to be `sealed`: somebody else vouches for the folder.
    """

    def __init__(self, folder: Path, root: Path | None = None, *, sealed: bool = True) -> None:
        self.folder = folder
        self._key, self._sealed = cache_key(root), sealed
        self._writable = True
        self._swept: set[Path] = set()

    def read(self, name: str) -> CachedArrays | None:
        """The entry of that name, or None where there is none that can be trusted."""
        path = self._path(name)
        try:
            if path.is_fifo():  # opening one would wait for ever
                raise ValueError("it is a pipe")
            with path.open("rb"):  # safe_open has no error of its own for a missing file
                pass
            with safe_open(path, framework="np") as handle:
                notes = dict(handle.metadata() or {})
                checksum, claimed = notes.pop("sha256", None), notes.pop("seal", None)
                if checksum is None:
                    raise ValueError("it has no checksum")
                if self._sealed and not is_sealed(self._key, [name, checksum], claimed):
                    return None
                arrays = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 - not a mapping
            if checksum != _checksum(arrays, notes):
                raise ValueError("its checksum does not match")
            return CachedArrays(arrays, notes)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, SafetensorError, ValueError) as error:
            warnings.warn(
                f"cached file {path} cannot be used and is computed again ({error})", CacheWarning, stacklevel=2
            )
            self.drop(name)
            return None

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str] | None = None) -> None:
        """Keep arrays (float32, or bytes as uint8) and notes under a name, replacing what is there."""
        if not self._writable:
            return
        path = self._path(name)
        tensors = {
            key: np.ascontiguousarray(value, dtype=np.uint8 if value.dtype == np.uint8 else np.float32)
            for key, value in arrays.items()
        }
        notes = dict(notes or {})
        checksum = _checksum(tensors, notes)
        metadata = {**notes, "sha256": checksum, "seal": seal(self._key, [name, checksum])}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent not in self._swept:
                self._swept.add(path.parent)
                sweep(path.parent)
            with atomic(path) as draft:
                save_file(tensors, draft, metadata=metadata)
        except (OSError, SafetensorError) as error:
            self._writable = False
            warnings.warn(
                f"cache folder {self.folder} cannot be written: embeddings are not kept ({error}); make room there, or "
                "name another folder (--fairness-cache DIR)",
                CacheWarning,
                stacklevel=2,
            )

    def below(self, prefix: str) -> Iterator[CachedArrays]:
        """The entries directly below a prefix that can be trusted, in order of their names."""
        try:
            names = sorted(f"{prefix}/{path.stem}" for path in (self.folder / prefix).glob("*.safetensors"))
        except OSError:  # an unreadable folder holds nothing for us; writing will say so
            return
        yield from filter(None, map(self.read, names))

    def drop(self, name: str) -> None:
        """Forget one entry. A folder that cannot be written keeps it; reading it again warns again."""
        remove(self._path(name))

    def drop_all(self, prefix: str) -> None:
        """Forget everything below a prefix."""
        shutil.rmtree(self.folder / prefix, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"


class PicturesOfRun(EmbeddingCache):
    """What a run without a cache keeps until it ends: the pictures that models make, which probes read several times,
    and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._key, self._sealed = folder, _OF_THIS_PROCESS, True
        self._writable, self._swept = True, set()

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str] | None = None) -> None:
        """Keep a picture."""
        if name.partition("/")[0] in ("generated", "edits"):
            super().write(name, arrays, notes)


def remembered(cache: EmbeddingCache | None, decided_by: Mapping[str, Any], read: Callable[[], Any]) -> Any:
    """What `read` returns, plain data that these contents and versions decide: from the cache if it is there, so that
    a library is not imported to open a model whose numbers are there as well."""
    name = f"opened/{digest(decided_by)}"
    entry = cache.read(name) if cache else None
    if entry is not None and "read" in entry.notes:
        return json.loads(entry.notes["read"])
    made = read()
    if cache:
        cache.write(name, {}, {"read": json.dumps(made)})
    return made


def require_cache_outside(folder: Path, root: Path) -> None:
    """Raises SettingsError for a cache inside of the repository, also by `..` or through a link."""
    real = folder.resolve()
    if any(map(real.is_relative_to, repositories_of(root))):
        raise SettingsError(
            "the cache is inside of the repository, where a branch can commit entries of its own.",
            where=str(folder),
            remedy="name a folder outside of it (--fairness-cache, FAIRGATE_CACHE; the default is below "
            "XDG_CACHE_HOME or HOME), or `off`",
        )


def cache_key(root: Path | None = None) -> bytes:
    """The key that seals what is cached: FAIRGATE_CACHE_KEY, or that of `fairgate/cache-key` in the user's
    configuration folder (XDG_CONFIG_HOME), which is made once.

    If that file cannot be made or does not count (`stored_key`), a CacheWarning gives the reason, and the key is one of
    this process: later runs compute again. `root` is the repository, which may not contain the file. Raises
    SettingsError for a key of fewer than 16 characters.
    """
    given = os.environ.get(KEY_VARIABLE, "")
    if given:
        if len(given) < _SHORTEST_KEY:
            raise SettingsError(
                f"the key of the cache has {len(given)} characters, and can be guessed.",
                where=KEY_VARIABLE,
                remedy=f"set a random key: {KEY_VARIABLE}=$(openssl rand -hex 32)",
            )
        return hashlib.sha256(os.fsencode(given)).digest()
    try:
        home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        key = stored_key(Path(home) / "fairgate" / "cache-key", () if root is None else repositories_of(root))
    except (KeyTrouble, RuntimeError) as trouble:  # RuntimeError: a user without a home
        warnings.warn(
            f"later runs cannot use what this one caches: no key could be stored ({trouble}); or set {KEY_VARIABLE}",
            CacheWarning,
            stacklevel=3,
        )
        key = None
    return key or _OF_THIS_PROCESS


def _checksum(arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str]) -> str:
    layout = [(name, str(arrays[name].dtype), arrays[name].shape) for name in sorted(arrays)]
    content = hashlib.sha256(json.dumps([layout, sorted(notes.items())]).encode())
    for name in sorted(arrays):
        content.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return content.hexdigest()
