"""Embeddings on disk, named by the content they were computed from."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fairgate.atomic import atomic, remove, sweep

FORMAT = "2"  # of "1" the checksum was of arrays alone


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
    same entry. Each carries a checksum of its arrays and notes: a damaged file is reported once as a CacheWarning,
    ignored, and written again. A folder that cannot be written is reported once, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writable = True
        self._swept: set[Path] = set()

    def read(self, name: str) -> CachedArrays | None:
        """The entry of that name, or None where there is none that can be trusted."""
        path = self._path(name)
        try:
            with path.open("rb"):  # safe_open has no error of its own for a missing file
                pass
            with safe_open(path, framework="np") as handle:
                notes = dict(handle.metadata() or {})
                arrays = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 - not a mapping
            written, said = notes.pop("format", None), notes.pop("sha256", None)
            if written == "1" and notes:
                self.drop(name)
                return None
            if written not in ("1", FORMAT) or said != _checksum(arrays, notes):
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
        metadata = {**notes, "format": FORMAT, "sha256": _checksum(tensors, notes)}
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


def _checksum(arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str]) -> str:
    seen = hashlib.sha256()
    for name in sorted(arrays):
        seen.update(f"{name}{arrays[name].shape}".encode())
        seen.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    if notes:  # an entry without any has the checksum that it had in format "1"
        seen.update(json.dumps(notes, sort_keys=True).encode())
    return seen.hexdigest()
