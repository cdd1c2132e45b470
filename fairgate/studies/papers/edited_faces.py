"""Edits of a release's people, measured: who is perceived in them, and the skin of average faces before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Dataset
from fairgate.formulas.metrics import individual_typology_angle, skin_mask
from fairgate.ground.errors import DatasetError, listed
from fairgate.ground.hashing import digest
from fairgate.ground.randomness import stream
from fairgate.metrics import Floats
from fairgate.models import ImageSource, decode_rgb
from fairgate.studies.papers.chosen_images import ChosenImages
from fairgate.studies.papers.contract import ResampledNumber

SHOWN = 10
"""Pictures of a row of a sheet."""
FACE = 128
"""Pixels of the longer side of an average of pictures that are not aligned, of which nothing is measured."""


@dataclass(frozen=True)
class SeenPictures:
    """What is seen in pictures (images,): the perceived group, the angle of the skin (NaN: none), and the
    face, black where none was found; the word that an edit is taken for, if that is asked; and whether each watched
    attribute is seen, (images, attributes)."""

    perceived: NDArray[Any]
    angles: Floats
    faces: NDArray[np.uint8]
    with_face: NDArray[np.bool_]
    shown: list[bytes] = field(default_factory=list)
    word: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=object))
    watched: Floats = field(default_factory=lambda: np.empty((0, 0)))


def joined(parts: Sequence[SeenPictures], places: Sequence[NDArray[np.int64]]) -> SeenPictures:
    """What is seen in the pictures of all parts, each at its places among all, (images of the part,)."""
    order = np.argsort(np.concatenate(places), kind="stable")
    shown = [data for part in parts for data in part.shown]
    columns = ("perceived", "angles", "faces", "with_face", "word", "watched")
    whole: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in columns}
    return SeenPictures(shown=[shown[at] for at in order], **whole)


Cut = Callable[[Any], Any]
"""The face of a decoded picture, as a picture; None where none is found."""


def upright_faces() -> Cut:
    """Cuts out the largest face, turned upright and centred by five landmarks (the extra `faces`). Raises ModelError
    where that is not installed."""
    from fairgate.models.generation import DlibFinder

    finder = DlibFinder()

    def cut(picture: Any) -> Any:
        return next((face.chip for face in finder.find(picture)), None)

    return cut


def faces_of(
    source: ImageSource, cut: Cut, rule: Any, longest: int | None = None
) -> tuple[Floats, NDArray[np.uint8], NDArray[np.bool_], list[bytes]]:
    """Angles (images,), faces (images, h, w, 3), whether one is found (images,), and the PNG of every picture. Faces
    have the size of the first that is found, scaled down to `longest` pixels."""
    angles = np.full(len(source), np.nan)
    faces: list[Any] = [None] * len(source)
    blobs: list[bytes] = [b""] * len(source)
    size: tuple[int, int] | None = None
    for rows, batch in source.image_batches(32):
        for row, data in zip(rows.tolist(), batch, strict=True):
            blobs[row] = data
            if (picture := cut(decode_rgb(data, source, row))) is None:
                continue
            pixels = np.asarray(picture)
            angles[row] = individual_typology_angle(pixels, skin_mask(pixels, rule=rule)).degrees
            scale = 1.0 if longest is None else min(1.0, longest / max(picture.size))
            size = size or (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
            faces[row] = np.asarray(picture.resize(size))
    width, height = size or (1, 1)
    missing = np.zeros((height, width, 3), dtype=np.uint8)
    with_face = np.array([face is not None for face in faces])
    return angles, np.stack([missing if face is None else face for face in faces]), with_face, blobs


def average(faces: NDArray[Any], weights: Floats) -> NDArray[np.uint8]:
    """The weighted mean of faces (images, h, w, 3), rounded to 8 bits; of equal weights, `metrics.average_face`."""
    mean = np.tensordot(weights / weights.sum(), faces.astype(np.float64, copy=False), axes=1)
    return np.floor(mean + 0.5).astype(np.uint8)


def angle(face: NDArray[np.uint8], rule: Any) -> float:
    """The typology angle of a face's skin, NaN where it has none."""
    return individual_typology_angle(face, skin_mask(face, rule=rule)).degrees


def weights_of(set_ids: NDArray[Any], draws: int, seed: int) -> Floats:
    """Weights of images, (draws, images), in resamples of their sets; they sum to the images.

    Images of one set depend on each other: they are drawn together, and groups of the same sets are drawn alike.
    """
    sets, own = np.unique(set_ids, return_inverse=True)
    rng = stream(seed, "image editing study", "resamples", digest(sets.tolist()))
    counts = rng.multinomial(len(sets), np.full(len(sets), 1 / len(sets)), size=draws)
    weights = counts[:, own].astype(np.float64)
    return np.asarray(weights * (len(own) / weights.sum(axis=1, keepdims=True)))


def resampled(numbers: Floats, weights: Floats) -> ResampledNumber:
    """The mean of numbers (images,), and in resamples by weights (draws, images)."""
    return ResampledNumber(float(numbers.mean()), weights @ numbers / len(numbers), len(numbers))


def first_of_groups(blobs: Sequence[bytes], chosen: ChosenImages) -> list[bytes]:
    """The pictures that a sheet shows, of every group; of the others nothing."""
    rows = (np.flatnonzero(chosen.groups == code)[:SHOWN].tolist() for code in range(len(chosen.names)))
    shown = {row for own in rows for row in own}
    return [data if row in shown else b"" for row, data in enumerate(blobs)]


def labels_of(groups: Sequence[str], labels: Mapping[str, str]) -> dict[str, str] | None:
    """The texts for groups, by the names that a release records: man and Male are male, woman and Female female.

    None where a text or a group is left over, or two are of the same.
    """
    of = {_SAME.get(group.casefold(), group.casefold()): group for group in groups}
    by_group = {of.get(_SAME.get(name.casefold(), name.casefold()), ""): text for name, text in labels.items()}
    return by_group if len(by_group) == len(labels) == len(groups) and set(by_group) == set(groups) else None


def required_labels(release: Dataset, attribute: str, labels: Mapping[str, str], form: str) -> dict[str, str]:
    """The same, of an attribute's groups. Raises DatasetError where the release records others, naming both; `form` is
    what is written for one."""
    recorded = release.manifest.attributes
    if attribute not in recorded:
        raise DatasetError(
            f"the release has no attribute '{attribute}'.",
            where=str(release.folder),
            remedy=f"give --attribute (recorded: {', '.join(recorded)})",
        )
    by_group = labels_of(recorded[attribute], labels)
    if by_group is None:
        raise DatasetError(
            f"the release has other groups of '{attribute}' ({listed(recorded[attribute], 10)}) than there are labels "
            f"({listed(list(labels), 10)}).",
            where=str(release.folder),
            remedy=f"give a --label {form} for each of the release's groups, or another --attribute (recorded: "
            f"{', '.join(recorded)})",
        )
    return by_group


_SAME = {"man": "male", "woman": "female"}


Key = tuple[str, float, int]
"""Class, strength and crossed group."""


@dataclass(frozen=True)
class FoundEdits:
    """What was done (prompts `labels` for the groups of `attribute`, `words` by class, `strengths`, whether faces are
    `aligned`), `weights` of all images in resamples of their sets, (draws, images), and what was seen."""

    labels: Mapping[str, str]
    attribute: str
    words: Mapping[str, Sequence[str]]
    strengths: Sequence[float]
    aligned: bool
    weights: Floats
    chosen: ChosenImages
    before: SeenPictures
    edits: dict[tuple[str, float], SeenPictures] = field(default_factory=dict)
    """By word and strength."""
    flips: dict[Key, ResampledNumber] = field(default_factory=dict)
    lighter: dict[Key, ResampledNumber] = field(default_factory=dict)
    words_shown: dict[Key, ResampledNumber] = field(default_factory=dict)
    """Shares of edits that are taken for their own word; only of a study with refined prompts."""
    drift: dict[tuple[str, Key], ResampledNumber] = field(default_factory=dict)
    """By watched attribute: how many more edits show it than originals, as a share."""
    originals: dict[int, ResampledNumber] = field(default_factory=dict)
    after: dict[Key, ResampledNumber] = field(default_factory=dict)
    faces: dict[Key | int, NDArray[np.uint8]] = field(default_factory=dict)

    @property
    def without_face(self) -> int:
        """Originals and edits in which no face was found."""
        return sum(int((~pictures.with_face).sum()) for pictures in (self.before, *self.edits.values()))
