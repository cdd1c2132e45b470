"""What several models answered to one probe, on one subject or on all: the input of every comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairgate.ground.errors import SettingsError, did_you_mean
from fairgate.ground.randomness import stream
from fairgate.metrics import Cell, Cells, Crossing, GroupedRows
from fairgate.probes import ProbeScores
from fairgate.suites import Suite


@dataclass(frozen=True, slots=True)
class AuditData:
    """The dataset and how an audit looks at it. `groupings`: each attribute, then those that are crossed, the finest
    last; `reference` is the group of each attribute that others are measured against."""

    index: GroupedRows
    suite: Suite
    attributes: Mapping[str, Sequence[str]]
    groupings: tuple[Crossing, ...]
    counterfactual: bool
    reference: Mapping[str, str]

    @property
    def subjects(self) -> list[str]:
        """Subjects in stored order."""
        return list(dict.fromkeys(self.index.subject.tolist()))

    def cells(self) -> Iterator[tuple[str | None, Cell]]:
        """The images of all subjects together (None) and, where there are several, of each."""
        cells = Cells(self.index)
        for subject in [None, *self.subjects] if len(self.subjects) > 1 else [None]:
            yield subject, cells.of(subject, self.groupings)

    def random(self, purpose: str, *names: str | int) -> np.random.Generator:
        """The stream of one purpose."""
        return stream(self.suite.decision.seed, "audit", purpose, self.suite.suite, *names)


def viable_groupings(
    index: GroupedRows, attributes: Sequence[str], min_sets: int, unit: str = "set"
) -> tuple[tuple[Crossing, ...], dict[Crossing, str]]:
    """Each attribute, and all of them crossed; where some group would hold too few sets, every pair that does not.

    Also the crossings that are left out, each with its emptiest group in words, counted in units.
    """
    crossed: list[Crossing] = []
    left_out: dict[Crossing, str] = {}
    for width in sorted({2, len(attributes)}, reverse=True):
        for grouping in () if crossed or width < 2 else combinations(attributes, width):
            if (thin := _thinnest(index, grouping, min_sets, unit)) is None:
                crossed.append(grouping)
            else:
                left_out[grouping] = thin
    return (*((name,) for name in attributes), *crossed), left_out


def _thinnest(index: GroupedRows, grouping: Crossing, min_sets: int, unit: str) -> str | None:
    """The group with the fewest sets, where that are too few."""
    codes, names = index.codes(grouping)
    _, sets = np.unique(index.set_id, return_inverse=True)
    groups = np.unique(np.stack([np.asarray(codes), sets]), axis=1)[0]
    counts = np.bincount(groups, minlength=len(names))
    fewest = int(counts.argmin())
    if counts[fewest] >= min_sets:
        return None
    held_by = f"{counts[fewest]:,} {unit}{'' if counts[fewest] == 1 else 's'}"
    return f"{names[fewest]} has {held_by}, and a group needs {min_sets} (groups.min_sets)"


Answers = Mapping[str, ProbeScores]
"""One probe's scores by the short name of the model."""


def share_limits(value: float, lo: float, hi: float, n_sets: int, alpha: float) -> tuple[float, float]:
    """Limits of a share from its resamples; binomial ones where it is 0 or 1, since all resamples agree then."""
    if value in {0.0, 1.0} and lo == hi:
        edge = (alpha / 2) ** (1 / n_sets)
        return (edge, 1.0) if value == 1.0 else (0.0, 1.0 - edge)
    return lo, hi


def reference_groups(attributes: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> dict[str, str]:
    """The reference group of each attribute: the wanted one, or the first that the dataset declares.

    Raises SettingsError for a group that no attribute has, and for two of one attribute.
    """
    chosen: dict[str, str] = {}
    for group in wanted:
        homes = [name for name, groups in attributes.items() if group in groups]
        if not homes or homes[0] in chosen:
            recorded = [name for groups in attributes.values() for name in groups]
            problem = f"two reference groups of '{homes[0]}' were given" if homes else f"there is no group '{group}'"
            raise SettingsError(
                f"{problem}.",
                where="--reference",
                remedy=" ".join(filter(None, [did_you_mean(group, recorded), f"groups: {', '.join(recorded)}"])),
            )
        chosen[homes[0]] = group
    return {name: chosen.get(name, groups[0]) for name, groups in attributes.items()}
