"""Pictures that a model makes of prompts, as a source: made as they are read, and cached one by one. No torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import Generating, ImageSource, Progress
from fairgate.models.decoding import SourceLike
from fairgate.models.shards import shard_of

if TYPE_CHECKING:
    from PIL.Image import Image


def generation_seed(set_id: str, member: str, seed: int) -> int:
    """What seeds the generator of a row's picture: its first noise, then whatever the scheduler draws."""
    return int(stream(seed, "generation", set_id, member).integers(2**63))


class PictureMaker(Protocol):
    """A loaded model that makes pictures, `rows` in a batch."""

    @property
    def rows(self) -> int: ...

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int], how: Generating) -> Sequence[Image]:
        """A picture of each prompt and seed."""
        ...


class CachedPictures(SourceLike):
    """A base of sources whose pictures are made as they are read, and cached as PNG."""

    _cache: EmbeddingCache | None

    @abstractmethod
    def _name(self, row: int) -> str:
        """A picture's name in the cache."""

    def _read(self, row: int) -> bytes | None:
        entry = self._cache.read(self._name(row)) if self._cache else None
        return entry.arrays["png"].tobytes() if entry is not None and "png" in entry.arrays else None

    def _written(self, rows: Iterable[int], pictures: Iterable[Image]) -> dict[int, bytes | None]:
        """The pictures by row, as PNG, after they are cached."""
        stored: dict[int, bytes | None] = {row: png_of(picture) for row, picture in zip(rows, pictures, strict=True)}
        for row, data in stored.items():
            if self._cache and data is not None:
                self._cache.write(self._name(row), {"png": np.frombuffer(data, dtype=np.uint8)})
        return stored


class GeneratedPictures(CachedPictures):
    """A picture of every row's prompt as a source: PNG, in the order and under the names of a source's rows.

    `loaded` is called when a picture is not in the cache; `key` names the model's files and how it runs. A picture is
    cached by the key, its prompt and its seed: another release with the same rows has the same pictures. Reading can be
    interrupted at any time: what is made stays in the cache. Raises ModelError unless every row has a prompt.
    """

    def __init__(
        self,
        source: ImageSource,
        prompts: Sequence[str],
        how: Generating,
        key: str,
        loaded: Callable[[], PictureMaker],
        cache: EmbeddingCache | None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(source)
        blank = next((row for row, prompt in enumerate(prompts) if not prompt.strip()), None)
        if len(prompts) != len(source) or blank is not None:
            raise ModelError(
                f"{len(prompts):,} prompts came for {len(source):,} rows"
                + (f", and that of row {blank} is empty." if blank is not None else "."),
                where=str(source.folder),
                remedy="give every row a caption to paint, as `fairgate dataset prompts` does",
            )
        self.prompts, self.how = list(prompts), how
        index = source.index
        names = zip(index.set_id.tolist(), index.member.tolist(), strict=True)
        self.seeds = [generation_seed(str(set_id), str(member), how.seed) for set_id, member in names]
        self._key = digest({"model": key, "steps": how.steps, "guidance": how.guidance})
        self.fingerprint = digest({"pictures": self._key, "rows": [self.prompts, self.seeds]})
        self._loaded, self._cache, self._progress = loaded, cache, progress

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and PNG bytes, `batch_size` at most."""
        shard = shard_of(self.source)
        for start in range(0, len(self), batch_size):
            if shard is not None and not shard.owns(start, batch_size):
                continue
            rows = range(start, min(start + batch_size, len(self)))
            known = {row: self._read(row) for row in rows}
            todo = [row for row in rows if known[row] is None]
            if todo:
                maker = self._loaded()
                for first in range(0, len(todo), maker.rows):
                    some = todo[first : first + maker.rows]
                    made = maker([self.prompts[row] for row in some], [self.seeds[row] for row in some], self.how)
                    known |= self._written(some, made)
                    if self._progress is not None:
                        done = sum(1 for data in known.values() if data is not None)
                        self._progress(start + done, len(self))
            yield np.arange(rows.start, rows.stop), [data for row in rows if (data := known[row]) is not None]

    def _name(self, row: int) -> str:
        return f"generated/{self._key}/{digest([self.prompts[row], self.seeds[row]])}"
