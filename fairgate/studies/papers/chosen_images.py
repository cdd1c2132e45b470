"""Whose images of a release a study is of: the groups of `--over`, crossed, and of them who `--where` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import CROSS, Dataset, Index, rows_of_groups
from fairgate.ground.errors import SettingsError
from fairgate.ground.hashing import digest
from fairgate.ground.randomness import stream
from fairgate.probes import taken_rows
from fairgate.studies.papers.contract import Typed, named_texts


def _where(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    chosen: dict[str, tuple[str, ...]] = {}
    for typed in given:
        for attribute, groups in named_texts([typed], "--where", "race=Black,White").items():
            chosen[attribute] = (*chosen.get(attribute, ()), *groups.split(","))
    return chosen


Where = Annotated[dict[str, tuple[str, ...]], Typed(_where)]
"""Groups by attribute, typed as ATTRIBUTE=GROUP,GROUP."""
OVER = "Attribute whose groups are crossed; repeat. Default: all of the release."
WHERE = "Only images of these groups, ATTRIBUTE=GROUP,GROUP; repeat."


@dataclass(frozen=True)
class ChosenImages:
    """Some images of a release, as a source; `groups` (images,) and `names` say who is shown, over `attributes`."""

    release: Dataset
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    names: list[str]
    attributes: list[str]

    @property
    def fingerprint(self) -> str:
        """Of the release, and of the rows."""
        return digest([self.release.fingerprint, self.rows.tolist()])

    @property
    def folder(self) -> Path:
        """The release's."""
        return self.release.folder

    @property
    def index(self) -> Index:
        """The release's columns at these rows."""
        return taken_rows(self.release.index, self.rows)

    @property
    def by_attribute(self) -> Mapping[str, Mapping[str, list[int]]]:
        """Attribute -> group of it -> the crossed groups that belong to it."""
        by_group: dict[str, dict[str, list[int]]] = {attribute: {} for attribute in self.attributes}
        for code, name in enumerate(self.names):
            for attribute, part in zip(self.attributes, name.split(CROSS), strict=True):
                by_group[attribute].setdefault(part, []).append(code)
        return by_group

    def __len__(self) -> int:
        return len(self.rows)

    def image_batches(self, batch_size: int) -> Iterator[tuple[NDArray[Any], list[bytes]]]:
        """Row numbers among the chosen, and bytes."""
        place = {int(row): at for at, row in enumerate(self.rows)}
        chosen = (
            (place[int(row)], data)
            for rows, blobs in self.release.image_batches(batch_size)
            for row, data in zip(rows, blobs, strict=True)
            if int(row) in place
        )
        while batch := list(islice(chosen, batch_size)):
            yield np.array([at for at, _ in batch]), [data for _, data in batch]


def choose(
    release: Dataset,
    images: int | None,
    seed: int,
    *,
    over: Sequence[str] = (),
    where: Mapping[str, Sequence[str]] | None = None,
) -> ChosenImages:
    """`images` of every group at random (None: all), the same sets for all groups where a release has counterfactual
    sets. Raises DatasetError for an attribute or a group that the release lacks, and where nobody is left."""
    attributes = list(dict.fromkeys(over)) or list(release.manifest.attributes)
    kept = rows_of_groups(release, where or {})
    crossed, every = release.index.codes(attributes)
    present, codes = np.unique(crossed[kept], return_inverse=True)
    names = [every[code] for code in present.tolist()]
    if images is None:
        return ChosenImages(release, kept, codes, names, attributes)
    set_ids = release.index.set_id[kept]
    drawn = {set_id: stream(seed, "image editing study", set_id).random() for set_id in dict.fromkeys(set_ids)}
    order = np.argsort([drawn[set_id] for set_id in set_ids], kind="stable")
    places = np.sort(np.concatenate([order[codes[order] == code][:images] for code in range(len(names))]))
    return ChosenImages(release, kept[places], codes[places], names, attributes)


def require_over(attribute: str, over: Sequence[str]) -> None:
    """Raises SettingsError where groups are chosen without the attribute that is compared."""
    if over and attribute not in over:
        raise SettingsError(
            f"'{attribute}', which is compared, is not among the attributes whose groups are crossed.",
            where="--over",
            remedy=f"add --over {attribute}, or give another --attribute",
        )
