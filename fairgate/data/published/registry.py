"""Published datasets by name. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from fairgate.data.published.contract import REGISTERED, Published
from fairgate.ground.errors import DatasetError, suggestion

_OWN = (
    "fairface",
    "utkface",
    "social_counterfactuals",
    "pairs",
    "visogender",
    "coco_people",
    "genderbias_vl",
    "pata",
    "chicago_faces",
    "bbq_v",
)
"""Each is a module of this package."""

DATASETS = REGISTERED.with_modules({name: f"{__package__}.{name}" for name in _OWN})
"""What `fairgate dataset get` knows."""


def find_published(name: str) -> Published:
    """A dataset by name. Raises DatasetError for one that is not known."""
    if name not in DATASETS:
        raise DatasetError(
            f"'{name}' is no published dataset that fairgate knows.",
            remedy=suggestion(
                name, DATASETS, f"known: {', '.join(DATASETS)}; others come in by `fairgate dataset import`"
            ),
        )
    return DATASETS[name]
