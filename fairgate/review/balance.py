"""Whether subjects and groups have equally many images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from fairgate.data import Manifest
from fairgate.data.manifest import CROSS


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The smallest and largest count of one comparison; `ratio` is smallest / largest, 1 where all are equal."""

    among: str
    smallest: str
    few: int
    largest: str
    many: int

    @property
    def ratio(self) -> float:
        """Between 0 (something has no image) and 1."""
        return self.few / self.many if self.many else 1.0

    @property
    def tolerance(self) -> float:
        """The smallest tolerance that lets this pass, in whole hundredths."""
        return -(-100 * (self.many - self.few) // self.many) / 100 if self.many else 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the smallest count falls short of the largest by that share at most, 0.3 being three tenths."""
        return self.many - self.few <= Decimal(str(tolerance)) * self.many


def most_unequal(manifest: Manifest) -> Imbalance:
    """The comparison with the smallest ratio: subjects, groups, groups of each subject, full intersections.

    What has no image counts as 0 within a subject or an intersection, unless the dataset is not counterfactual: there
    nobody promised it, and a subject can be one of a group alone ("an Asian man").
    """
    return min((_extremes(among, counts) for among, counts in _compared(manifest)), key=lambda one: one.ratio)


def _compared(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, int]]]:
    counts = manifest.counts
    yield "subjects", counts.subjects
    for attribute, groups in counts.groups.items():
        yield f"groups of {attribute}", groups
    for subject, attributes in counts.subject_groups.items():
        for attribute, groups in attributes.items():
            promised = groups if manifest.counterfactual else {name: count for name, count in groups.items() if count}
            yield f"groups of {attribute} for subject '{subject}'", promised
    for crossed, cells in counts.intersections.items():
        possible = math.prod(len(manifest.attributes[name]) for name in crossed.split(CROSS))
        absent = {"an absent intersection": 0} if manifest.counterfactual and len(cells) < possible else {}
        yield f"intersections of {crossed}", {**cells, **absent}


def _extremes(among: str, counts: Mapping[str, int]) -> Imbalance:
    smallest, largest = min(counts, key=lambda name: counts[name]), max(counts, key=lambda name: counts[name])
    return Imbalance(among, smallest, counts[smallest], largest, counts[largest])
