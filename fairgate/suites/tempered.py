"""Two comparisons of one check, at the model's own temperature and at the baseline's: the stricter one counts.

P(true) depends on the temperature, which is a number in the checkpoint: a lower one shrinks every spread and every
gap. A regression of these metrics must therefore be within the margin at both temperatures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fairgate.statistics import PairedResult
from fairgate.statistics.paired import BY_GROUP, Outcome

_STRICTNESS: Final[dict[Outcome, int]] = {"pass": 0, "inconclusive": 1, "fail": 2}


def stricter(own: PairedResult, tempered: PairedResult) -> tuple[PairedResult, bool]:
    """Each group as the stricter comparison has it (its own where both agree), and whether `own` alone is milder."""
    rank = [np.array([_STRICTNESS[one.outcome(at)] for at in range(one.delta.size)]) for one in (own, tempered)]
    counts = rank[1] > rank[0]
    chosen = {name: np.where(counts, getattr(tempered, name), getattr(own, name)) for name in BY_GROUP}
    overall: Outcome = max(own.overall, tempered.overall, key=_STRICTNESS.__getitem__)
    return replace(own, **chosen, overall=overall), _STRICTNESS[tempered.overall] > _STRICTNESS[own.overall]
