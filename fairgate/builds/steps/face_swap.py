"""Photographs of one person into pairs: the face swapped for another photograph's (GenSwap, the weak baseline of Smith
et al. 2023, appendix A.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from PIL.Image import Image, Resampling

from fairgate.builds.steps.contract import Drop, Maker, Meter, SetRows
from fairgate.builds.steps.person_photographs import BOX, PHOTO, Photographs, Rectangle, box_of, pasted, whole_box
from fairgate.builds.steps.pictures import picture, spending
from fairgate.ground.errors import DatasetError
from fairgate.models.generation import Detector


@dataclass(frozen=True, slots=True)
class FacePool:
    """Photographs of faces: group -> paths under `folder`, in a fixed order."""

    folder: Path
    of: Mapping[str, tuple[str, ...]]

    def open(self, path: str) -> Image:
        """A face as RGB. Raises DatasetError naming the file."""
        try:
            return picture((self.folder / path).read_bytes())
        except (OSError, DatasetError) as error:
            raise DatasetError(
                f"a face cannot be read: {getattr(error, 'problem', error)}",
                where=str(self.folder / path),
                remedy="give the faces' folder, whole",
            ) from error


@dataclass(frozen=True, slots=True)
class FindFace(Maker):
    """The largest face of the photograph's person, as a rectangle in the photograph. Drops `no_face`."""

    detector: Detector
    photographs: Photographs
    text: str
    box_threshold: float
    text_threshold: float

    reads: ClassVar[tuple[str, ...]] = (PHOTO, *BOX)
    writes: ClassVar[tuple[str, ...]] = ("face_left", "face_top", "face_right", "face_bottom", "face_score")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            crop = self.photographs.crop(rows)
            with spending(self.detector, meter):
                (faces,) = self.detector.detect(
                    [crop], self.text, box_threshold=self.box_threshold, text_threshold=self.text_threshold
                )
            placed = [(whole_box((face.left, face.top, face.right, face.bottom), *crop.size), face) for face in faces]
            seen = [(box, face) for box, face in placed if _area(box)]
            if not seen:
                rows.drop = Drop("no_face", measured=0.0, limit=1.0)
                continue
            (left, top, right, bottom), face = max(seen, key=lambda each: (_area(each[0]), each[1].score))
            x, y, _, _ = box_of(rows)
            corners = (left + x, top + y, right + x, bottom + y)
            rows.columns.update(zip(self.writes, (*corners, float(face.score)), strict=True))


@dataclass(frozen=True, slots=True)
class SwapFace(Maker):
    """A member for every group: the photograph with a face of that group, drawn from the set's own stream."""

    photographs: Photographs
    faces: FacePool

    reads: ClassVar[tuple[str, ...]] = (PHOTO, "face_left", "face_top", "face_right", "face_bottom")
    writes: ClassVar[tuple[str, ...]] = ("member", "image", "gender", "face")

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        for rows in sets:
            photo = self.photographs.open(rows)
            left, top, right, bottom = (int(rows.columns[column]) for column in self.reads[1:])
            rows.rows = []
            for group, choices in self.faces.of.items():
                path = choices[int(rows.stream("face", group).integers(len(choices)))]
                face = self.faces.open(path).resize((right - left, bottom - top), Resampling.LANCZOS)
                image = pasted(photo, face, (left, top, right, bottom))
                rows.rows.append({"member": group, "image": image, "gender": group, "face": path})
            meter.count("swaps", len(rows.rows))


def _area(box: Rectangle) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])
