"""Every group that a check judges must be shown by some image: known before anything is scored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.errors import SuiteError
from fairgate.suites.decide import Index, cell_of
from fairgate.suites.plan import PlannedCheck

NAMED = 3


def require_groups_present(planned: Sequence[PlannedCheck], index: Index) -> None:
    """Raise SuiteError for a check over a group, or a crossing, that the dataset does not show: it would vanish."""
    for one in planned:
        if not one.groupings:
            continue
        cell = cell_of(index, one)
        counts = cell.group_images()
        absent = [cell.group_names()[position] for position in np.flatnonzero(counts == 0)]
        if absent:
            shown = ", ".join(absent[:NAMED]) + (f" and {len(absent) - NAMED} more" if len(absent) > NAMED else "")
            raise SuiteError(
                f"check '{one.item}' is over {one.over}, and no image shows {shown}.",
                where=one.where,
                remedy="cross fewer attributes in `over`, or add images of the group to the dataset",
            )
