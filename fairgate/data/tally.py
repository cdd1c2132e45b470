"""Counting images per subject, group and intersection, one row at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from fairgate.data.manifest import CROSS, Counts


def crossings(attributes: Sequence[str]) -> list[tuple[str, ...]]:
    """The intersections that a manifest counts: every pair of attributes, and all of them together."""
    crossed: list[tuple[str, ...]] = list(combinations(attributes, 2))
    return crossed if len(attributes) < 3 else [*crossed, tuple(attributes)]


class Tally:
    """Counts rows as they pass; `counts()` is the manifest's summary of them."""

    def __init__(self, attributes: Mapping[str, Sequence[str]]) -> None:
        self._attributes = attributes
        self._cells: Counter[tuple[str, ...]] = Counter()

    def add(self, row: Mapping[str, object]) -> None:
        """Count one row by its subject and groups."""
        self._cells[(str(row["subject"]), *(str(row[attribute]) for attribute in self._attributes))] += 1

    def counts(self) -> Counts:
        """Everything counted so far, in declared order."""
        subjects = sorted({cell[0] for cell in self._cells})
        position = {attribute: place for place, attribute in enumerate(self._attributes, start=1)}
        by_group: Counter[tuple[str, str]] = Counter()
        by_subject_group: Counter[tuple[str, str, str]] = Counter()
        by_subject: Counter[str] = Counter()
        for cell, count in self._cells.items():
            by_subject[cell[0]] += count
            for attribute, place in position.items():
                by_group[attribute, cell[place]] += count
                by_subject_group[cell[0], attribute, cell[place]] += count
        return Counts(
            subjects={subject: by_subject[subject] for subject in subjects},
            groups={
                attribute: {group: by_group[attribute, group] for group in groups}
                for attribute, groups in self._attributes.items()
            },
            subject_groups={
                subject: {
                    attribute: {group: by_subject_group[subject, attribute, group] for group in groups}
                    for attribute, groups in self._attributes.items()
                }
                for subject in subjects
            },
            intersections={
                CROSS.join(crossed): self._crossed(crossed, [position[attribute] for attribute in crossed])
                for crossed in crossings(list(self._attributes))
            },
        )

    def _crossed(self, attributes: tuple[str, ...], places: list[int]) -> dict[str, int]:
        counted: Counter[tuple[str, ...]] = Counter()
        for cell, count in self._cells.items():
            counted[tuple(cell[place] for place in places)] += count
        order = [{group: rank for rank, group in enumerate(self._attributes[attribute])} for attribute in attributes]

        def rank(groups: tuple[str, ...]) -> list[int]:
            return [ranks.get(group, len(ranks)) for ranks, group in zip(order, groups, strict=True)]

        return {CROSS.join(groups): counted[groups] for groups in sorted(counted, key=rank)}
