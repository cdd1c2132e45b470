"""Which detectors read texts, and the classes that one knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairgate.ground.errors import ModelError, did_you_mean, listed

READ_TEXTS = frozenset({"grounding-dino", "owlvit", "owlv2"})
"""Types of which a text is looked for, and not one of the model's own classes."""


def class_names(config: Mapping[str, Any], where: str) -> dict[int, str]:
    """The names of a model's classes, by number, as its config gives them. Raises ModelError for one without."""
    given = config.get("id2label")
    try:
        found = {int(number): str(name) for number, name in given.items()} if isinstance(given, dict) else {}
    except ValueError:
        found = {}
    if not found:
        raise ModelError(
            "the config does not name the classes that the model detects (id2label).",
            where=where,
            remedy="save the model with its labels: config.id2label = {0: 'person', ...}",
        )
    return found


def class_number(names: Mapping[int, str], what: str, where: str) -> int:
    """The number of a class by its name. Raises ModelError where no class, or more than one, is called so."""
    found = [number for number, name in names.items() if name == what]
    if len(found) != 1:
        raise ModelError(
            f"{'no class' if not found else f'{len(found)} classes'} of the model {'are' if found else 'is'} called "
            f"'{what}'.",
            where=where,
            remedy=did_you_mean(what, names.values()) or f"its classes: {listed(list(names.values()), 8)}",
        )
    return found[0]
