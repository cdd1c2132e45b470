"""Two comparisons of one check, at the model's own temperature and at the baseline's: the stricter one counts.

P(true) depends on the temperature, which is a number in the checkpoint: a lower one shrinks every spread and every
gap. A regression of these metrics must therefore be within the margin at both temperatures.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairgate.records import STRICTNESS
from fairgate.statistics import PairedResult
from fairgate.statistics.paired import BY_GROUP, Outcome


def stricter(own: PairedResult, tempered: PairedResult) -> tuple[PairedResult, bool]:
    """Each group as the stricter comparison has it (its own where both agree), and whether `own` alone is milder."""
    rank = [np.array([STRICTNESS[one.outcome(at)] for at in range(one.delta.size)]) for one in (own, tempered)]
    counts = rank[1] > rank[0]
    chosen = {name: np.where(counts, getattr(tempered, name), getattr(own, name)) for name in BY_GROUP}
    overall: Outcome = max(own.overall, tempered.overall, key=STRICTNESS.__getitem__)
    return replace(own, **chosen, overall=overall), STRICTNESS[tempered.overall] > STRICTNESS[own.overall]
