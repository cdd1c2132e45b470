"""Photographs: with labels, or with one person in them; how they are selected, labelled by captions, and cropped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from PIL.Image import Image

from fairgate.builds.steps.caption_gender import WORDS, GenderWords, image_gender, named_gender, neutralise, with_gender
from fairgate.builds.steps.contract import Batches, Drop, Judge, Maker, Meter, SetRows
from fairgate.builds.steps.pictures import GENERATOR, HOW, SEED, picture, png, spending
from fairgate.data import UnreadableImage, decode
from fairgate.ground.errors import DatasetError
from fairgate.models.generation import FaceReader, Matcher

PHOTO = "photo"
"""The member that is the photograph's own person; also the column with the photograph's file name."""
BOX = ("box_left", "box_top", "box_right", "box_bottom")
ANNOTATED_SIZE = "annotated_size"
"""(width, height) that boxes count in; taken away once the photograph is seen to have it."""
NOT_MADE = {"instruction": "", "guidance": 0.0, SEED: 0, HOW: "", GENERATOR: ""}
"""Columns of edits, for the photograph's own person, which is a row like them in the pilot."""

Rectangle = tuple[int, int, int, int]
"""(left, top, right, bottom) in whole pixels."""


def whole_box(corners: Sequence[float], width: int, height: int) -> Rectangle:
    """The smallest rectangle of whole pixels around a box, inside an image of this size.

    >>> whole_box((-0.5, 2.2, 7.9, 12.0), 10, 10)
    (0, 2, 8, 10)
    """
    left, top, right, bottom = corners
    return (
        max(0, math.floor(left)),
        max(0, math.floor(top)),
        min(width, math.ceil(right)),
        min(height, math.ceil(bottom)),
    )


def pasted(photo: Image, edit: Image, box: Rectangle) -> Image:
    """The photograph with its person replaced; outside the box no pixel changes. The edit has the box's size."""
    if edit.size != (box[2] - box[0], box[3] - box[1]):
        raise DatasetError(
            f"an edit of {edit.size[0]} x {edit.size[1]} px does not fit its place of {box[2] - box[0]} x "
            f"{box[3] - box[1]} px.",
            remedy="use an editor that keeps the size of what it edits",
        )
    whole = photo.copy()
    whole.paste(edit, box[:2])
    return whole


@dataclass(frozen=True, slots=True)
class Photographs:
    """The folder of the photographs: opens them, and refuses one that has changed since the build began."""

    folder: Path

    def open(self, rows: SetRows) -> Image:
        """The photograph of a set as RGB. Raises DatasetError where it is gone, damaged, or no longer the same."""
        from fairgate.ground.hashing import sha256_bytes

        path = self.folder / rows.columns[PHOTO]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DatasetError(
                f"a photograph cannot be read: {error.strerror}.",
                where=str(path),
                remedy="give the images' folder, whole",
            ) from error
        digest = sha256_bytes(data)
        if rows.columns.setdefault("photo_sha256", digest) != digest:
            raise DatasetError(
                "a photograph has changed since the build began.",
                where=str(path),
                remedy="put the photograph back, or build anew from the changed folder",
            )
        try:
            return picture(data)
        except DatasetError as error:
            raise DatasetError(error.problem, where=str(path), remedy=error.remedy) from error

    def crop(self, rows: SetRows) -> Image:
        """The person's part of the photograph. Raises DatasetError where the photograph has not its annotated size."""
        photo = self.open(rows)
        annotated = rows.columns.pop(ANNOTATED_SIZE, photo.size)
        if photo.size != annotated:
            raise DatasetError(
                f"a photograph is {photo.width} x {photo.height} px, and {annotated[0]} x {annotated[1]} px in its "
                "annotations, so that boxes are elsewhere.",
                where=str(self.folder / rows.columns[PHOTO]),
                remedy="give the photographs as they were annotated, neither resized nor to be turned (EXIF)",
            )
        return photo.crop(box_of(rows))


def box_of(rows: SetRows) -> Rectangle:
    """Where the person is, as `OnePerson` wrote it."""
    left, top, right, bottom = (int(rows.columns[column]) for column in BOX)
    return left, top, right, bottom


@dataclass(frozen=True, slots=True)
class OnePerson(Maker):
    """Keeps a photograph with exactly one person box, and writes the box in whole pixels.

    Drops `no_person`, `several_persons` (regions of several persons, `iscrowd`, count as two) and `small_person` where
    a side is shorter than `min_side` pixels. Starting sets have `persons` (JSON), `crowds`, `width` and `height`.
    """

    min_side: int = 1

    reads: ClassVar[tuple[str, ...]] = ("persons", "crowds", "width", "height")
    writes: ClassVar[tuple[str, ...]] = (*BOX, ANNOTATED_SIZE)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            persons = json.loads(rows.columns.pop("persons"))
            count = len(persons) + 2 * rows.columns.pop("crowds")
            width, height = rows.columns.pop("width"), rows.columns.pop("height")
            if count != 1:
                rows.drop = Drop("several_persons" if count else "no_person", measured=float(count), limit=1.0)
                continue
            box = whole_box(persons[0], width, height)
            side = min(box[2] - box[0], box[3] - box[1])
            if side < self.min_side:
                rows.drop = Drop("small_person", measured=float(side), limit=float(self.min_side))
                continue
            rows.columns.update(zip(BOX, box, strict=True))
            rows.columns[ANNOTATED_SIZE] = (width, height)


@dataclass(frozen=True, slots=True)
class LabelByCaptions(Maker):
    """The gender that the captions name, and the captions without it; `captions` and `neutral_captions` are JSON.

    Drops `no_gender_named` and `both_genders_named`, with the number of captions that name one.
    """

    words: GenderWords = WORDS

    reads: ClassVar[tuple[str, ...]] = ("captions",)
    writes: ClassVar[tuple[str, ...]] = ("original_gender", "neutral_caption", "neutral_captions")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            captions = json.loads(rows.columns["captions"])
            gender = image_gender(captions, self.words)
            if gender is None:
                naming = sum(named_gender(caption, self.words) != "none" for caption in captions)
                rows.drop = Drop("both_genders_named" if naming else "no_gender_named", measured=float(naming))
                continue
            neutral = [neutralise(caption, self.words) for caption in captions]
            rows.columns["original_gender"] = gender
            rows.columns["neutral_caption"] = neutral[0].strip()
            rows.columns["neutral_captions"] = json.dumps(neutral)


@dataclass(frozen=True, slots=True)
class CropPerson(Maker):
    """The photograph's own person as the first member: its crop, its group, and its embedding where there is a matcher.

    Without a matcher `embedding` is not written: GenSwap has no filter.
    """

    photographs: Photographs
    matcher: Matcher | None = None
    batch: int = 64
    _batches: Batches = field(default_factory=lambda: Batches(what="crops"), init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = (PHOTO, *BOX, "original_gender")
    writes: ClassVar[tuple[str, ...]] = ("photo_sha256", "member", "image", "gender")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        crops = [self.photographs.crop(rows) for rows in sets]
        for rows, crop in zip(sets, crops, strict=True):
            rows.rows = [{"member": PHOTO, "image": png(crop), "gender": rows.columns["original_gender"]}]
        if (matcher := self.matcher) is None:
            return
        with spending(matcher, meter):
            vectors = self._batches(lambda images: list(matcher.embed_images(images)), crops, self.batch, meter)
        for rows, vector in zip(sets, vectors, strict=True):
            rows.rows[0].update(embedding=vector, **NOT_MADE)


@dataclass(frozen=True, slots=True)
class WholePhotograph(Maker):
    """The whole photograph in place of its person's crop."""

    photographs: Photographs

    reads: ClassVar[tuple[str, ...]] = (PHOTO, "member", "image")
    writes: ClassVar[tuple[str, ...]] = ("image",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            rows.rows[0]["image"] = self.photographs.open(rows)


@dataclass(frozen=True, slots=True)
class PerceivePerson(Maker):
    """What a face reader perceives in the photograph's own person: `perceived_ATTRIBUTE`, "" where it finds no face.

    A fact of the set, before any edit; no set is dropped for it.
    """

    reader: FaceReader
    attributes: tuple[str, ...]
    batch: int = 16
    _batches: Batches = field(default_factory=lambda: Batches(what="crops"), init=False, repr=False, compare=False)

    reads: ClassVar[tuple[str, ...]] = ("image",)

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        crops = [picture(rows.rows[0]["image"]) for rows in sets]
        with spending(self.reader, meter):
            seen = self._batches(self.reader.read, crops, self.batch, meter)
        for rows, faces in zip(sets, seen, strict=True):
            for attribute in self.attributes:
                rows.columns[f"perceived_{attribute}"] = faces[0].perceived(attribute) if faces else ""


@dataclass(frozen=True, slots=True)
class DescribeMembers(Maker):
    """Every member's captions, put into its group; `caption` is the first that names a gender."""

    words: GenderWords = WORDS

    reads: ClassVar[tuple[str, ...]] = ("captions", "member", "gender")
    writes: ClassVar[tuple[str, ...]] = ("caption", "captions")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            captions = json.loads(rows.columns.pop("captions"))
            gendered = next(place for place, text in enumerate(captions) if named_gender(text, self.words) != "none")
            for row in rows.rows:
                put = [with_gender(text, row["gender"], self.words) for text in captions]
                row["caption"] = put[gendered].strip()
                row["captions"] = json.dumps(put)


@dataclass(frozen=True, slots=True)
class Labelled(Judge):
    """Drops `no_label` where a photograph has no declared group of an attribute."""

    attributes: Mapping[str, Sequence[str]]

    reads: ClassVar[tuple[str, ...]] = ("member",)

    def judge(self, rows: SetRows) -> Drop | None:
        [row] = rows.rows
        known = all(row.get(attribute) in groups for attribute, groups in self.attributes.items())
        return None if known else Drop("no_label", member=str(row["member"]))


@dataclass(frozen=True, slots=True)
class ReadPhotograph(Maker):
    """Reads the file at `path` under `folder`, or of that name (`by_name`); its bytes are stored unchanged.

    Writes `shorter_side` in pixels. Drops `absent` where there is no such file, and `unreadable`. Other trouble of the
    disk stops the build.
    """

    folder: Path
    by_name: bool = False

    reads: ClassVar[tuple[str, ...]] = ("path",)
    writes: ClassVar[tuple[str, ...]] = ("image", "shorter_side")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            [row] = rows.rows
            path = self.folder / (Path(row["path"]).name if self.by_name else row["path"])
            try:
                data = path.read_bytes()
                size = decode(data).size
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                rows.drop = Drop("absent", member=str(row["member"]))
            except UnreadableImage:
                rows.drop = Drop("unreadable", member=str(row["member"]))
            else:
                row["image"] = data
                rows.columns["shorter_side"] = min(size)
