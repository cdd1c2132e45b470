"""What passes on its way into a dataset, by subject of the build: pictures, those it holds twice, and groups."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Census:
    """Takes rows one by one; holds eight bytes per image. The dataset's own subjects may put several together."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        self._attributes = attributes
        self._pixels = array("Q")
        self._groups: Counter[tuple[str, str, str]] = Counter()
        self._subject = ""
        self._first: dict[str, int] = {}

    def subject(self, subject: str) -> None:
        """Rows of this subject follow."""
        self._subject = subject
        self._first[subject] = len(self._pixels)

    def add(self, row: Mapping[str, Any], pixels: str | None) -> None:
        """One row of the dataset, as it is stored."""
        if pixels is not None:
            self._pixels.append(int(pixels[:16], 16))
        for attribute in self._attributes:
            self._groups[self._subject, attribute, str(row.get(attribute))] += 1

    def exact(self) -> int:
        """Images whose pixels another image before them has."""
        return len(self._pixels) - len(np.unique(np.frombuffer(self._pixels, dtype=np.uint64)))

    def exact_of(self, subject: str) -> int:
        """The same, within one subject."""
        own = np.frombuffer(self._pixels, dtype=np.uint64)[slice(*self._span(subject))]
        return len(own) - len(np.unique(own))

    def images_of(self, subject: str) -> int:
        """Images of one subject."""
        first, stop = self._span(subject)
        return stop - first

    def groups_of(self, subject: str) -> dict[str, dict[str, int]]:
        """Attribute -> group -> rows of one subject; 0 for a group that it has none of."""
        return {
            attribute: {group: self._groups[subject, attribute, group] for group in groups}
            for attribute, groups in self._attributes.items()
        }

    def _span(self, subject: str) -> tuple[int, int]:
        subjects = list(self._first)
        place = subjects.index(subject)
        stop = self._first[subjects[place + 1]] if place + 1 < len(subjects) else len(self._pixels)
        return self._first[subject], stop
