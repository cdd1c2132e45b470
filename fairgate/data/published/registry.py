"""Which published datasets there are, and the file of each: the only place that names them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from fairgate.data.published.contract import Published
from fairgate.ground.errors import DatasetError, suggestion

_FILES: Final = {
    "fairface": "fairface",
    "utkface": "utkface",
    "social_counterfactuals": "social_counterfactuals",
    "pairs": "pairs",
    "visogender": "visogender",
    "coco_people": "coco_people",
    "genderbias_vl": "genderbias_vl",
    "pata": "pata",
    "chicago_faces": "chicago_faces",
    "bbq_v": "bbq_v",
}
"""Dataset to module of this package; each has one `DATASET`."""


def published_names() -> list[str]:
    """The datasets that `fairgate dataset get` knows."""
    return list(_FILES)


def find_published(name: str) -> Published:
    """A dataset by name. Raises DatasetError for one that is not known."""
    if name not in _FILES:
        raise DatasetError(
            f"'{name}' is no published dataset that fairgate knows.",
            remedy=suggestion(name, _FILES, f"known: {', '.join(_FILES)}; others come in by `fairgate dataset import`"),
        )
    found = import_module(f"{__package__}.{_FILES[name]}").DATASET
    assert isinstance(found, Published)
    return found
