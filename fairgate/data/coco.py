"""COCO-style annotations: the captions of every image, and the boxes of the persons in it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.data.labels import inside
from fairgate.errors import DatasetError

Corners = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels."""


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


def read_coco(captions: Path, instances: Path, *, category: str = "person") -> list[AnnotatedImage]:
    """Every captioned image, by ascending id, with the boxes of one category.

    `captions` is a file like captions_val2017.json, `instances` like instances_val2017.json. Raises DatasetError for a
    file that cannot be read, is not such a file, does not know the category, or names a file outside the folder.
    """
    texts = _read(captions, "images", "annotations")
    boxes = _read(instances, "annotations", "categories")
    wanted = {_get(entry, "id", instances) for entry in boxes["categories"] if entry.get("name") == category}
    if not wanted:
        raise DatasetError(
            f"there is no category '{category}'.",
            where=f"{instances}: categories",
            remedy=f"categories: {', '.join(str(entry.get('name')) for entry in boxes['categories'])}",
        )
    said: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for note in texts["annotations"]:
        said[_get(note, "image_id", captions)].append((_get(note, "id", captions), _get(note, "caption", captions)))
    found: dict[int, list[Corners]] = defaultdict(list)
    crowds: dict[int, int] = defaultdict(int)
    for note in boxes["annotations"]:
        if note.get("category_id") not in wanted:
            continue
        image = _get(note, "image_id", instances)
        if note.get("iscrowd"):
            crowds[image] += 1
        else:
            left, top, width, height = _get(note, "bbox", instances)
            found[image].append((left, top, left + width, top + height))
    by_id = {_get(entry, "id", captions): entry for entry in texts["images"]}
    return [
        AnnotatedImage(
            image_id=image,
            file=str(inside(str(_get(entry, "file_name", captions)), f"{captions}: image {image}")),
            width=int(_get(entry, "width", captions)),
            height=int(_get(entry, "height", captions)),
            captions=tuple(text for _, text in sorted(said[image])),
            persons=tuple(found[image]),
            crowds=crowds[image],
        )
        for image, entry in sorted(by_id.items())
        if said[image]
    ]


def _read(path: Path, *keys: str) -> dict[str, list[dict[str, Any]]]:
    """The file's object. Outlines of objects, most of a large file, are let go as they are met."""

    def lean(entry: dict[str, Any]) -> dict[str, Any]:
        entry.pop("segmentation", None)
        return entry

    try:
        with path.open(encoding="utf-8") as text:
            whole = json.load(text, object_hook=lean)
    except FileNotFoundError:
        raise DatasetError(
            "the annotations do not exist.", where=str(path), remedy="give the path of a COCO-style JSON file"
        ) from None
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"the annotations cannot be read: {error}.", where=str(path), remedy="give a COCO-style JSON file, whole"
        ) from error
    for key in keys:
        if not isinstance(whole, dict) or not isinstance(whole.get(key), list):
            raise DatasetError(
                f"the annotations have no list '{key}'.",
                where=str(path),
                remedy="give files like COCO's captions_val2017.json and instances_val2017.json",
            )
    return whole  # type: ignore[no-any-return]


def _get(entry: dict[str, Any], key: str, path: Path) -> Any:
    if key not in entry:
        raise DatasetError(
            f"an entry has no '{key}'.",
            where=f"{path}: {json.dumps(entry)[:200]}",
            remedy="give a COCO-style JSON file",
        )
    return entry[key]
