"""COCO-style annotations: the captions of every image, and the boxes of the persons in it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fairgate.data.labels import inside, reading
from fairgate.ground.errors import DatasetError

# Read by hand, not by pydantic: outlines are dropped while the file is parsed, and only one category is checked.
Corners = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels."""
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class AnnotatedImage:
    """One image of a COCO-style folder. `file` is relative to the images' folder."""

    image_id: int
    file: str
    width: int
    height: int
    captions: tuple[str, ...]
    persons: tuple[Corners, ...]
    crowds: int
    """Annotations that mark a group of persons as one region (`iscrowd`)."""

    def columns(self) -> dict[str, str | int | float]:
        """The annotations as columns of a set, for `fairgate.builds.steps.person_photographs`; lists as JSON."""
        return {
            "captions": json.dumps(self.captions),
            "persons": json.dumps(self.persons),
            "crowds": self.crowds,
            "width": self.width,
            "height": self.height,
        }


def read_coco(captions: Path, instances: Path, *, category: str = "person") -> list[AnnotatedImage]:
    """Every captioned image, by ascending id, with the boxes of one category.

    `captions` is a file like captions_val2017.json, `instances` like instances_val2017.json. Raises DatasetError for a
    file that cannot be read, is not such a file, does not know the category, or names a file outside the folder; an
    entry that holds something else than COCO's do is named.
    """
    texts = _read(captions, "images", "annotations")
    boxes = _read(instances, "annotations", "categories")
    categories = boxes["categories"]
    names = {_get(entry, "id", _whole, instances): _get(entry, "name", _text, instances) for entry in categories}
    wanted = {number for number, name in names.items() if name == category}
    if not wanted:
        raise DatasetError(
            f"there is no category '{category}'.",
            where=f"{instances}: categories",
            remedy=f"categories: {', '.join(names.values())}",
        )
    said = _by_image(texts["annotations"], captions)
    found: dict[int, list[Corners]] = defaultdict(list)
    crowds: dict[int, int] = defaultdict(int)
    for note in boxes["annotations"]:
        if _get(note, "category_id", _whole, instances) not in wanted:
            continue
        image = _get(note, "image_id", _whole, instances)
        if note.get("iscrowd"):
            crowds[image] += 1
        else:
            found[image].append(_get(note, "bbox", _corners, instances))
    by_id = {_get(entry, "id", _whole, captions): entry for entry in texts["images"]}
    return [
        AnnotatedImage(
            image_id=image,
            file=str(inside(_get(entry, "file_name", _text, captions), f"{captions}: image {image}")),
            width=_get(entry, "width", _whole, captions),
            height=_get(entry, "height", _whole, captions),
            captions=tuple(said[image]),
            persons=tuple(found[image]),
            crowds=crowds[image],
        )
        for image, entry in sorted(by_id.items())
        if image in said
    ]


def read_captions(path: Path) -> dict[int, list[str]]:
    """The captions of every image, by the captions' numbers. Raises DatasetError as `read_coco` does."""
    return _by_image(_read(path, "annotations")["annotations"], path)


def _by_image(notes: list[dict[str, Any]], path: Path) -> dict[int, list[str]]:
    said: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for note in notes:
        text = (_get(note, "id", _whole, path), _get(note, "caption", _text, path))
        said[_get(note, "image_id", _whole, path)].append(text)
    return {image: [text for _, text in sorted(texts)] for image, texts in said.items()}


def _read(path: Path, *keys: str) -> dict[str, list[dict[str, Any]]]:
    """The file's object. Outlines of objects, most of a large file, are let go as they are met."""

    def lean(entry: dict[str, Any]) -> dict[str, Any]:
        entry.pop("segmentation", None)
        return entry

    with reading("the annotation file", path, "a whole COCO-style JSON file"), path.open(encoding="utf-8") as text:
        whole = json.load(text, object_hook=lean)
    for key in keys:
        if not isinstance(whole, dict) or not isinstance(whole.get(key), list):
            raise DatasetError(
                f"the annotations have no list '{key}'.",
                where=str(path),
                remedy="give files like COCO's captions_val2017.json and instances_val2017.json",
            )
    return whole  # type: ignore[no-any-return]


def _get(entry: Any, key: str, read: Callable[[Any], _Value], path: Path) -> _Value:
    """What an entry holds under a key; `read` raises ValueError, saying what should be there instead."""
    if not isinstance(entry, dict):
        problem = "an entry is no object"
    elif key not in entry:
        problem = f"an entry has no '{key}'"
    else:
        try:
            return read(entry[key])
        except ValueError as error:
            problem = f"'{key}' of an entry is not {error}"
    raise DatasetError(
        f"{problem}.", where=f"{path}: {json.dumps(entry)[:200]}", remedy="give a COCO-style JSON file"
    ) from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise ValueError("a whole number")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def _corners(value: Any) -> Corners:
    numbers = isinstance(value, list) and all(isinstance(each, int | float) for each in value)
    if not numbers or len(value) != 4 or not all(abs(each) <= 1e9 for each in value):  # NaN is no number of pixels
        raise ValueError("four numbers: left, top, width and height in pixels")
    left, top, width, height = value
    return left, top, left + width, top + height
