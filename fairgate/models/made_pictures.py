"""Sources whose pictures are made as they are read: views of a source's pictures, and pictures that a model makes of
prompts or edits, cached one by one. No torch.

A view leaves what a picture shows as it is: a crop of 95% to 100% of each side, anywhere in the picture, brought back
to its size by one of four filters, and mirrored half of the time. Colours and light stay as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from fairgate.ground.errors import ModelError
from fairgate.ground.hashing import digest, sha256_bytes
from fairgate.ground.png import png_of
from fairgate.ground.randomness import stream
from fairgate.models.cache import EmbeddingCache
from fairgate.models.contract import Editing, Generating, ImageSource, Progress
from fairgate.models.decoding import SourceLike, decode_rgb
from fairgate.models.shards import shard_of

SMALLEST_SIDE = 0.95
"""Of a crop, as a share of the picture's side."""

_VERSION = 1
_FILTERS = (Image.Resampling.BILINEAR, Image.Resampling.HAMMING, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS)


def view_of(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A view of a picture, of its size and mode."""
    width, height = picture.size
    side = rng.uniform(SMALLEST_SIDE, 1.0)
    left, top = rng.uniform(0.0, 1.0 - side, size=2) * picture.size
    mirrored, chosen = rng.random() < 0.5, _FILTERS[rng.integers(len(_FILTERS))]
    box = (left, top, min(left + side * width, width), min(top + side * height, height))
    seen = picture.resize(picture.size, chosen, box=box)
    return ImageOps.mirror(seen) if mirrored else seen


class Views(SourceLike):
    """Each picture of a source `number` times, one after another: first as it is, then views of it.

    A view depends on the picture's bytes and on its number alone. Row `number * image + view` holds it, as PNG.
    """

    def __init__(self, source: ImageSource, number: int) -> None:
        super().__init__(source)
        self.number = number

    @property
    def fingerprint(self) -> str:
        """The source's, with the number of views and how they are made."""
        return digest({"views": self.number, "version": _VERSION, "of": self.source.fingerprint})

    @cached_property
    def index(self) -> Any:
        """The source's names, each as often as its image is viewed."""
        columns = {name: getattr(self.source.index, name) for name in ("set_id", "member", "path")}
        return SimpleNamespace(**{name: np.repeat(column, self.number) for name, column in columns.items()})

    def __len__(self) -> int:
        return self.number * len(self.source)

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and encoded images, `batch_size` at most."""
        for rows, blobs in self.source.image_batches(max(1, batch_size // self.number)):
            views = [seen for row, data in zip(rows, blobs, strict=True) for seen in self._views(data, int(row))]
            places = (np.asarray(rows)[:, None] * self.number + np.arange(self.number)).ravel()
            for start in range(0, len(views), batch_size):
                yield places[start : start + batch_size], views[start : start + batch_size]

    def _views(self, data: bytes, row: int) -> list[bytes]:
        picture, content = decode_rgb(data, self.source, row), sha256_bytes(data)
        views = (view_of(picture, stream(0, "view", content, at)) for at in range(1, self.number))
        return [data, *(png_of(view, compress_level=1) for view in views)]  # a view is decoded again at once


def generation_seed(set_id: str, member: str, seed: int) -> int:
    """What seeds the generator of a row's picture: its first noise, then whatever the scheduler draws."""
    return int(stream(seed, "generation", set_id, member).integers(2**63))


def editing_seed(set_id: str, member: str, seed: int) -> int:
    """What seeds the generator of an edit: the VAE's draw, then the noise, then whatever the scheduler draws."""
    return int(stream(seed, "image editing", set_id, member).integers(2**63))


class PictureMaker(Protocol):
    """A loaded model that makes pictures, `rows` in a batch."""

    rows: int

    def __call__(self, given: Any, seeds: Sequence[int], how: Any, /) -> Sequence[Image.Image]:
        """A picture of each prompt, or of each picture, and seed."""
        ...


class MadePictures(SourceLike):
    """A base of sources of pictures that a model makes of a source's rows: PNG, in its order and under its names.

    They are made as they are read, and cached one by one: reading can be interrupted at any time. `loaded` is called
    when a picture is not in the cache.
    """

    def __init__(
        self,
        source: ImageSource,
        how: Editing | Generating,
        seed_of: Callable[[str, str, int], int],
        loaded: Callable[[], PictureMaker],
        cache: EmbeddingCache | None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(source)
        self.how, self._loaded, self._cache, self._progress = how, loaded, cache, progress
        names = zip(source.index.set_id.tolist(), source.index.member.tolist(), strict=True)
        self.seeds = [seed_of(str(set_id), str(member), how.seed) for set_id, member in names]

    @abstractmethod
    def _given(self, batch_size: int) -> Iterator[tuple[NDArray[Any], Sequence[Any]]]:
        """Row numbers, `batch_size` at most, and what their pictures are made of."""

    @abstractmethod
    def _name(self, row: int, given: Any) -> str:
        """The name in the cache of the picture that is made of what is given."""

    def _shown(self, given: Any, _row: int) -> Any:
        """What the model is shown of it."""
        return given

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers and PNG bytes, `batch_size` at most."""
        for rows, given in self._given(batch_size):
            names = {int(row): self._name(int(row), each) for row, each in zip(rows, given, strict=True)}
            known = {row: data for row, name in names.items() if (data := self._read(name)) is not None}
            todo = [(int(row), each) for row, each in zip(rows, given, strict=True) if int(row) not in known]
            maker = self._loaded() if todo else None
            while maker and todo:
                batch, todo = todo[: maker.rows], todo[maker.rows :]
                shown = [self._shown(each, row) for row, each in batch]
                made = maker(shown, [self.seeds[row] for row, _ in batch], self.how)
                for (row, _), picture in zip(batch, made, strict=True):
                    known[row] = png_of(picture)
                    if self._cache:
                        self._cache.write(names[row], {"png": np.frombuffer(known[row], dtype=np.uint8)})
                if self._progress is not None:
                    self._progress(int(rows[0]) + len(known), len(self))
            yield rows, [known[int(row)] for row in rows]

    def _read(self, name: str) -> bytes | None:
        entry = self._cache.read(name) if self._cache else None
        return entry.arrays["png"].tobytes() if entry is not None and "png" in entry.arrays else None


class EditedPictures(MadePictures):
    """The edits of a source's pictures by a prompt; `key` names the model's files and how it runs.

    An edit is cached by the key, the prompt, the picture and its seed: of another release with the same picture in the
    same set, it is the same.
    """

    def __init__(
        self,
        source: ImageSource,
        prompt: str,
        how: Editing,
        key: str,
        loaded: Callable[[], PictureMaker],
        cache: EmbeddingCache | None,
    ) -> None:
        super().__init__(source, how, editing_seed, loaded, cache)
        edit = [prompt, how.strength, how.seed, how.steps, how.guidance]
        self._key = digest({"model": key, "edit": edit})
        self.fingerprint = digest({"edits": self._key, "source": source.fingerprint})

    def _given(self, batch_size: int) -> Iterator[tuple[NDArray[Any], Sequence[bytes]]]:
        return self.source.image_batches(batch_size)

    def _shown(self, given: bytes, _row: int) -> Image.Image:
        return decode_rgb(given, self.source, _row)

    def _name(self, row: int, given: bytes) -> str:
        return f"edits/{self._key}/{digest([sha256_bytes(given), self.seeds[row]])}"


class GeneratedPictures(MadePictures):
    """A picture of every row's prompt; `key` names the model's files and how it runs. Raises ModelError if a row has
    no prompt.

    A picture is cached by the key, its prompt and its seed: another release with the same rows has the same pictures.
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
        super().__init__(source, how, generation_seed, loaded, cache, progress)
        blank = next((row for row, prompt in enumerate(prompts) if not prompt.strip()), None)
        if len(prompts) != len(source) or blank is not None:
            raise ModelError(
                f"{len(prompts):,} prompts came for {len(source):,} rows"
                + (f", and that of row {blank} is empty." if blank is not None else "."),
                where=str(source.folder),
                remedy="give every row a caption to paint, as `fairgate dataset prompts` does",
            )
        self.prompts = list(prompts)
        self._key = digest({"model": key, "steps": how.steps, "guidance": how.guidance})
        self.fingerprint = digest({"pictures": self._key, "rows": [self.prompts, self.seeds]})

    def _given(self, batch_size: int) -> Iterator[tuple[NDArray[Any], Sequence[str]]]:
        shard = shard_of(self.source)
        for start in range(0, len(self), batch_size):
            if shard is None or shard.owns(start, batch_size):
                rows = np.arange(start, min(start + batch_size, len(self)))
                yield rows, self.prompts[start : start + batch_size]

    def _name(self, row: int, given: str) -> str:
        return f"generated/{self._key}/{digest([given, self.seeds[row]])}"
