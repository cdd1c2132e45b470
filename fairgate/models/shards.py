"""A shard of the work on a source's images: which batches belong to a job, and the cache entries that it hands over.

A job scores whole batches of the order in which all images are scored, so that its numbers are those of a run without
shards. Rows of other jobs get copies of its own numbers: probes run on them, and nothing is decided. Such tables
never leave the job (`PIECES`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fairgate.ground.errors import SettingsError
from fairgate.models.cache import CachedArrays, EmbeddingCache
from fairgate.models.contract import ImageSource
from fairgate.models.decoding import SourceLike

PIECES = frozenset({"parts", "detections", "scales", "texts", "prompts", "generated", "edits", "captions", "answers"})
"""Kinds of entries that hold rows which were computed, or nothing about rows. A family's other entries are computed
where the shards meet."""
_UNFINISHED = frozenset({"parts", "scales"})
_NOT_SHARED = _UNFINISHED | {"contents", "generated", "edits"}
"""Kinds of entries of which a job gets no list: what they know of other releases the place where parts meet would have
to score, and pictures are too many."""
_BY_ROW = ("captions", "answers")
"""Kinds whose entries hold, under the same name in every shard, the texts of its own rows in one JSON object."""


class ImageShard(SourceLike):
    """The batches of a source that belong to one of `count` jobs, number 1 to `count`: consecutive ones, one at least.

    Fingerprint, length and row numbers are those of the whole source.
    """

    def __init__(self, source: ImageSource, number: int, count: int) -> None:
        super().__init__(source)
        self.number, self.count = number, count
        self.name = getattr(source, "name", None)

    @property
    def fingerprint(self) -> str:
        """The source's."""
        return self.source.fingerprint

    def owns(self, row: int, batch_size: int) -> bool:
        """Whether the batch that starts at a row belongs to this job. Of fewer batches than jobs, several have one."""
        batches = -(-len(self) // batch_size)
        first, end = ((self.number - 1 + more) * batches // self.count for more in (0, 1))
        return first <= row // batch_size < max(end, first + 1)

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """The source's batches that belong to this job."""
        return (batch for batch in self.source.image_batches(batch_size) if self.owns(int(batch[0][0]), batch_size))


def shard_of(source: ImageSource) -> ImageShard | None:
    """The shard that a source is, or changes or watches; None for a whole one."""
    inner: Any = source
    while inner is not None and not isinstance(inner, ImageShard):
        inner = getattr(inner, "source", None)
    return inner


class CacheAbove(EmbeddingCache):
    """A cache above the user's, from which it reads what it lacks, and to which it passes on what is finished."""

    def __init__(self, folder: Path, root: Path, user: Path | None) -> None:
        super().__init__(folder, root)
        self.user = None if user is None else EmbeddingCache(user, root)

    def read(self, name: str) -> CachedArrays | None:
        """The entry here, or else the user's."""
        return super().read(name) or (self.user.read(name) if self.user else None)

    def below(self, prefix: str) -> Iterator[CachedArrays]:
        """The entries here, then the user's."""
        yield from super().below(prefix)
        yield from self.user.below(prefix) if self.user else ()

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str] | None = None) -> None:
        """Keep an entry here, and in the user's cache unless it is a piece of another one."""
        super().write(name, arrays, notes)
        if self.user and name.partition("/")[0] not in _UNFINISHED:
            self.user.write(name, arrays, notes)


class PartCache(EmbeddingCache):
    """The cache of a job that scores a shard: what it hands over. Raises SettingsError where it cannot be written.

    Entries that are `known` where the parts meet are read from the cache of the `user`, if this machine has them too.
    """

    def __init__(self, folder: Path, root: Path, user: Path | None = None, known: Collection[str] = ()) -> None:
        super().__init__(folder, root)
        self._user, self._met = None if user is None else EmbeddingCache(user, root), known

    def read(self, name: str) -> CachedArrays | None:
        """The entry here, or else the user's that is known."""
        return super().read(name) or (self._user.read(name) if self._user and name in self._met else None)

    def below(self, prefix: str) -> Iterator[CachedArrays]:
        """The entries here, then the user's that are known."""
        yield from super().below(prefix)
        names = sorted(name for name in self._met if name.rpartition("/")[0] == prefix)
        yield from filter(None, map(self._user.read, names)) if self._user else ()

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]], notes: Mapping[str, str] | None = None) -> None:
        """Keep an entry of the PIECES; others may hold rows of other jobs."""
        if name.partition("/")[0] not in PIECES:
            return
        super().write(name, arrays, notes)
        if not self._writable:
            raise SettingsError(
                "the part cannot be written.", where=str(self.folder), remedy="make room there, or name another folder"
            )

    def drop_all(self, prefix: str) -> None:
        """Nothing: pieces are what is handed over."""


def known_names(user: Path | None) -> frozenset[str]:
    """Names of the entries in the user's cache that jobs need not make again."""
    kinds = () if user is None else (each for each in user.glob("*") if each.name not in _NOT_SHARED)
    return frozenset(f"{kind.name}/{name}" for kind in kinds for name in names_in(kind))


def take(part: EmbeddingCache, names: list[str], into: EmbeddingCache) -> str | None:
    """Copy a part's entries, sealed anew; of equal names the first counts, and texts of rows are joined. The name of an
    entry that cannot be read, or that another key sealed; None where there is none."""
    for name in names:
        entry, known, kind = part.read(name), into.read(name), name.partition("/")[0]
        if entry is None:
            return name
        if known is None:
            into.write(name, entry.arrays, entry.notes)
        elif kind in _BY_ROW:
            texts = {**json.loads(entry.notes[kind]), **json.loads(known.notes[kind])}
            into.write(name, known.arrays, {kind: json.dumps(texts)})
    return None


def names_in(folder: Path) -> list[str]:
    """Names of the entries in a cache's folder, sorted."""
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.safetensors"))
