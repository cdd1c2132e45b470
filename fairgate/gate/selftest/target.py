"""Which group loses in a planted bias: one that a check judges, with enough sets for a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Index
from fairgate.ground.errors import DatasetError
from fairgate.metrics import Cells, Crossing
from fairgate.probes import ProbeScores
from fairgate.records import CROSS
from fairgate.suites import PlannedCheck, Suite

Bools = NDArray[np.bool_]


class Detection(IntEnum):
    """How a check detects a bias, the best first."""

    GROUPS = 0
    """It compares groups with the baseline."""
    USE_OF_GROUPS = 1
    """It compares how useful the model is to groups, which a bias may leave as it is."""
    WHOLE = 2
    """It compares a number over all members of a set, in which a group is a part."""
    BOUND_ON_GROUPS = 3
    BOUND = 4
    BLIND = 5
    """It compares how useful the model is to everybody."""


@dataclass(frozen=True, slots=True)
class Group:
    """The images that lose: their name, their parts (`dark`, `female`), which rows they are, and the checks that judge
    them on enough sets."""

    name: str
    parts: tuple[str, ...]
    rows: Bools
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A group as one check sees it: `sets` are those of the check's cell that count for a verdict."""

    detection: Detection
    grouping: Crossing
    name: str
    sets: int
    item: str


def group_to_harm(
    suite: Suite, index: Index, answers: dict[str, ProbeScores], planned: Sequence[PlannedCheck]
) -> Group:
    """The group to take from: of the best checks that can decide, the finest crossing's group with most images; of
    several, the one with the lowest scores, so that the loss cannot make the model fairer.

    Raises DatasetError where no check is about two groups, and where each group of one has fewer than `min_sets` sets.
    """
    everything = list(_seen(suite, index, planned))
    seen = [check for check in everything if check.detection != Detection.BLIND] or everything
    enough = [check for check in seen if check.sets >= suite.groups.min_sets]
    if not enough:
        raise _undecidable(suite, index, seen)
    best = min(check.detection for check in enough)
    finest = max(len(check.grouping) for check in enough if check.detection == best)
    value = answers[_first_probe(suite)].value
    checks: dict[tuple[Crossing, str], list[str]] = {}
    for check in enough:
        if (check.detection, len(check.grouping)) == (best, finest):
            checks.setdefault((check.grouping, check.name), []).append(check.item)

    def order(key: tuple[Crossing, str]) -> tuple[int, float]:
        rows = _rows(index, *key)
        return -int(rows.sum()), float(value[rows].mean())

    chosen = min(checks, key=order)
    of = () if best == Detection.BLIND else tuple(dict.fromkeys(checks[chosen]))
    return Group(chosen[1], tuple(chosen[1].split(CROSS)), _rows(index, *chosen), of)


def _seen(suite: Suite, index: Index, planned: Sequence[PlannedCheck]) -> Iterator[_Seen]:
    """Every group of every check of two groups or more; without anchors, which planted scores are not compared with."""
    cells, chosen = Cells(index), suite.groups.attributes
    whole = tuple(index.attributes) if chosen == "each" else tuple(chosen)
    for check in planned:
        if check.against == "anchor":
            continue
        cell = cells.of(check.subject, check.groupings)
        for grouping in check.groupings or (whole,):
            codes, names = index.codes(grouping)
            here = np.asarray(codes)[cell.rows]
            present = [name for code, name in enumerate(names) if (here == code).any()]
            for name in present if len(present) > 1 else ():
                if check.check.first is None or name in (check.check.first, check.check.second):
                    members = cell.set_code[here == names.index(name)]
                    sets = len(np.unique(members)) if check.groupings else cell.n_sets
                    yield _Seen(_detection(check), grouping, name, sets, check.item)


def _detection(check: PlannedCheck) -> Detection:
    use = check.metric.spec.utility
    if check.check.no_worse_than is None:
        return Detection.BOUND_ON_GROUPS if check.groupings else Detection.BOUND
    if check.groupings:
        return Detection.USE_OF_GROUPS if use else Detection.GROUPS
    return Detection.BLIND if use else Detection.WHOLE


def _rows(index: Index, grouping: Crossing, name: str) -> Bools:
    codes, names = index.codes(grouping)
    return np.asarray(np.asarray(codes) == names.index(name))


def _undecidable(suite: Suite, index: Index, seen: Sequence[_Seen]) -> DatasetError:
    if not seen:
        chosen = suite.groups.attributes
        return DatasetError(
            "all images are of one group: no group can be treated worse than another.",
            where=CROSS.join(index.attributes if chosen == "each" else chosen),
            remedy="use a dataset that shows several groups",
        )
    most = max(seen, key=lambda check: check.sets)
    by_group = most.detection in (Detection.GROUPS, Detection.USE_OF_GROUPS, Detection.BOUND_ON_GROUPS)
    about = f"'{most.name}', has" if by_group else "all of them, have"
    return DatasetError(
        f"no check of suite '{suite.suite}' can decide about a bias, planted or real: of all groups that one looks at, "
        f"the largest, {about} {most.sets} sets in {most.item}, and a verdict takes {suite.groups.min_sets}.",
        where="groups.min_sets",
        remedy="compare coarser groups (`over: each`, or without `by: subject`), bring more sets, or lower min_sets",
    )


def _first_probe(suite: Suite) -> str:
    """A classification if there is one: its numbers mean the same for every subject."""
    for name, probe in suite.probes.items():
        if probe.compared_as == "classification":
            return name
    name, probe = next(iter(suite.probes.items()))
    return probe.names(name)[0]
