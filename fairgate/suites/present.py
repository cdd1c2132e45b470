"""Every group that a check judges must be shown by some image: known before anything is scored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.errors import SuiteError
from fairgate.suites.catalog import METRICS, RANKED
from fairgate.suites.cell import Cell, Cells, Index
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.queries import galleries_of

NAMED = 3


def require_groups_present(planned: Sequence[PlannedCheck], index: Index) -> None:
    """Raise SuiteError for a check over a group, or a crossing, that the dataset does not show: it would vanish.

    A ranking asks for every group in every gallery: one that a subject lacks has no place in its top k.
    """
    cells = Cells(index)
    for one in planned:
        if not one.groupings:
            continue
        cell = cells.of(one)
        whole = METRICS[one.check.metric].probes != RANKED or bool(one.words)
        galleries = [("", np.arange(len(cell.rows)))] if whole else [(g.name, g.rows) for g in galleries_of(one, cell)]
        for name, rows in galleries:
            absent = _absent(cell, rows)
            if absent:
                shown = ", ".join(absent[:NAMED]) + (f" and {len(absent) - NAMED} more" if len(absent) > NAMED else "")
                of = f" of '{name}'" if name else ""
                raise SuiteError(
                    f"check '{one.item}' is over {one.over}, and no image{of} shows {shown}.",
                    where=one.where,
                    remedy="cross fewer attributes in `over`, or add images of the group to the dataset",
                )


def _absent(cell: Cell, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [
        name
        for codes, names in zip(cell.group_codes, cell.groups, strict=True)
        for name, count in zip(names, np.bincount(codes[rows], minlength=len(names)), strict=True)
        if count == 0
    ]
