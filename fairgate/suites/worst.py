"""The sets to look at first: those that speak loudest against a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairgate.probes import ProbeScores
from fairgate.records import MemberResult, WorstSet
from fairgate.suites.cell import Cell
from fairgate.suites.measure import Measure

SHOWN = 4
IMAGES_SHOWN = 6
"""Shown where each image is a set of its own."""
MEMBERS_SHOWN = 24


class _Columns(Protocol):
    @property
    def member(self) -> NDArray[Any]: ...
    @property
    def attributes(self) -> Mapping[str, NDArray[Any]]: ...


def worst_sets(
    cell: Cell,
    index: _Columns,
    scores: ProbeScores,
    now: Measure,
    before: Measure | None,
    *,
    group: str | None = None,
    shown: int | None = None,
) -> list[WorstSet]:
    """The `shown` (4; of single images 6) sets with the most badness, or, against a baseline, whose badness grew most.

    Right-or-wrong answers tie: among equals, the set with the lowest mean score comes first. With `group`, only sets
    that hold the group. Sets in which nothing is bad are not listed.
    """
    most = shown if shown is not None else IMAGES_SHOWN if cell.unit == "images" else SHOWN
    badness = now.badness if before is None else now.badness - before.badness
    score = np.bincount(cell.set_code, scores.value[cell.rows]) / np.bincount(cell.set_code)
    loudest = np.lexsort((score, -badness))
    holding = cell.sets_with(group) if group is not None else np.ones(cell.n_sets, dtype=bool)
    chosen = loudest[holding[loudest] & (badness[loudest] > 0)][:most]
    return [_worst_set(int(code), cell, index, scores, float(now.badness[code])) for code in chosen]


def _worst_set(code: int, cell: Cell, index: _Columns, scores: ProbeScores, badness: float) -> WorstSet:
    rows = cell.rows[np.flatnonzero(cell.set_code == code)[:MEMBERS_SHOWN]]
    return WorstSet(
        set_id=str(cell.set_ids[code]),
        subject=str(cell.subject[np.flatnonzero(cell.set_code == code)[0]]),
        spread=badness if len(rows) > 1 else None,
        members=[
            MemberResult(
                member=str(index.member[row]),
                group=" × ".join(str(values[row]) for values in index.attributes.values()),
                value=float(scores.value[row]),
                predicted=None if scores.predicted is None else str(scores.predicted[row]),
                correct=None if scores.correct is None else bool(scores.correct[row]),
            )
            for row in rows
        ],
    )
