"""A release of captioned photographs of one person each, as `photographs`, `gensynth` and `genswap` build it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.builds.steps import BOX
from fairgate.data import Dataset, decode
from fairgate.ground.errors import DatasetError
from fairgate.ground.hashing import digest
from fairgate.ground.png import png_of

Rows = NDArray[np.intp]
ATTRIBUTE = "gender"
_TEXT = ("captions", "neutral_captions")
MOST_CAPTIONS = 20
"""Captions of an image that are taken; COCO has five."""
MAX_SIDE = 100_000


@dataclass(frozen=True, eq=False)
class Captioned:
    """A release under the name that tables call it. `captions` and `neutral_captions` have a tuple of texts per row."""

    name: str
    dataset: Dataset

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The recipes' columns, in stored order, with `p_real` where the release has it. Raises DatasetError."""
        wanted = [*_TEXT, *BOX]
        found: dict[str, list[Any]] = {name: [] for name in wanted}
        for shard in self.dataset.manifest.shards:
            parquet = self.dataset.parquet(shard)
            names = parquet.schema_arrow.names
            if absent := [name for name in wanted if name not in names]:
                raise self._wrong(f"has no column '{absent[0]}'.")
            held = [*wanted, *(["p_real"] if "p_real" in names else [])]
            for group in range(parquet.num_row_groups):
                table = self.dataset.read_group(parquet, shard, group, columns=held)
                for name in held:
                    found.setdefault(name, []).extend(table[name].to_pylist())
        for name in _TEXT:
            found[name] = [self._texts(one, name) for one in found[name]]
        return found

    def require(self, recipe: str) -> None:
        """Raise DatasetError where it is not of this recipe, or lacks what a study of captions needs: before any model
        is loaded."""
        if (made := self.dataset.manifest.recipe.get("name")) != recipe:
            raise DatasetError(
                f"dataset '{self.dataset.manifest.ref}' is of recipe '{made}', and is given as '{self.name}'.",
                where=str(self.dataset.folder),
                remedy=f"name a release or build of recipe '{recipe}' there",
            )
        assert self.groups
        for row in range(len(self.columns["captions"])):
            self.box(row)

    def _texts(self, stored: object, column: str) -> tuple[str, ...]:
        try:
            texts = json.loads(stored) if isinstance(stored, str) else None
        except (ValueError, RecursionError):
            texts = None
        found = [one for one in texts if isinstance(one, str) and one.strip()] if isinstance(texts, list) else []
        if found != texts or not 0 < len(found) <= MOST_CAPTIONS:
            raise self._wrong(f"has a row whose '{column}' is no JSON list of 1 to {MOST_CAPTIONS} captions.")
        return tuple(found)

    def _wrong(self, problem: str) -> DatasetError:
        return DatasetError(
            f"dataset '{self.dataset.manifest.ref}' {problem}",
            where=str(self.dataset.folder),
            remedy="build it with one of the recipes photographs, gensynth, gensynth_unfiltered, genswap",
        )

    @cached_property
    def set_id(self) -> NDArray[Any]:
        """The photograph of every row."""
        return self.dataset.index.set_id

    @cached_property
    def owner(self) -> Rows:
        """The photograph of every row, coded 0, 1, ..."""
        return np.unique(self.set_id, return_inverse=True)[1]

    @cached_property
    def groups(self) -> tuple[str, str]:
        """The two groups of the attribute, in order. Raises DatasetError where there are others."""
        names = self.dataset.manifest.attributes.get(ATTRIBUTE, [])
        if len(names) != 2:
            raise self._wrong(f"has {len(names)} groups of '{ATTRIBUTE}', and two are compared.")
        return names[0], names[1]

    @cached_property
    def codes(self) -> Rows:
        """The group of every row: 0 the first, 1 the second."""
        assert self.groups
        return self.dataset.index.codes(ATTRIBUTE)[0]

    @cached_property
    def own(self) -> Rows:
        """A row for each photograph: its first."""
        return np.unique(self.set_id, return_index=True)[1]

    def rows_of(self, set_ids: NDArray[Any]) -> Rows:
        """Rows whose photograph is one of these."""
        return np.flatnonzero(np.isin(self.set_id, set_ids))

    def box(self, row: int) -> tuple[int, int, int, int]:
        """Where the person is: (left, top, right, bottom)."""
        corners = [self.columns[name][row] for name in BOX]
        if not all(isinstance(one, int) and 0 <= one <= MAX_SIDE for one in corners):
            raise self._wrong(f"has a row whose box is {corners}, and not four whole numbers of pixels.")
        left, top, right, bottom = corners
        if left >= right or top >= bottom:
            raise self._wrong(f"has a row whose box is empty: {corners}.")
        return left, top, right, bottom


@dataclass(frozen=True)
class PersonInBlack:
    """The pictures of a release with the person's box in black: a source for models. Rows and names are its own."""

    release: Captioned

    @property
    def fingerprint(self) -> str:
        """Of the content and of the boxes."""
        boxes = [self.release.box(row) for row in range(len(self))]
        return digest({"of": self.release.dataset.fingerprint, "black": boxes})

    @property
    def name(self) -> str:
        """The release's: what was fitted on it is not shown its pictures either."""
        return self.release.dataset.name

    @property
    def folder(self) -> Any:
        return self.release.dataset.folder

    @property
    def index(self) -> Any:
        return self.release.dataset.index

    def __len__(self) -> int:
        return len(self.release.dataset)

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """As PNG."""
        from PIL import ImageDraw

        for rows, encoded in self.release.dataset.image_batches(batch_size):
            blacked = []
            for row, data in zip(rows.tolist(), encoded, strict=True):
                picture = decode(data).convert("RGB")
                left, top, right, bottom = self.release.box(row)
                ImageDraw.Draw(picture).rectangle((left, top, right - 1, bottom - 1), fill="black")
                blacked.append(png_of(picture))
            yield rows, blacked
