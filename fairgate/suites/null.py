"""What chance alone gives: MaxSkew@K of a perfectly fair ranker, and bounds that even it would miss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.errors import SuiteError
from fairgate.metrics import NullSkew, expected_max_skew
from fairgate.randomness import stream
from fairgate.suites.decide import Index
from fairgate.suites.plan import PlannedCheck

NULL_DRAWS = 2000


def null_skews(planned: Sequence[PlannedCheck], index: Index) -> dict[str, NullSkew]:
    """The fair ranker's MaxSkew@K by check item, for every check that measures it.

    Raises SuiteError for a k beyond the gallery, and for a bound below what a fair ranker has half of the time.
    """
    return {one.item: skew for one in planned if (skew := _null_skew(one, index)) is not None}


def _null_skew(one: PlannedCheck, index: Index) -> NullSkew | None:
    """MaxSkew@K of a perfectly fair ranker on this check's gallery, and a refusal of bounds that even it would miss."""
    check = one.check
    if check.metric != "max_skew_at_k" or check.k is None:
        return None
    subject = one.subject or str(index.subject[0])
    of_subject = index.subject == subject
    if check.k > of_subject.sum():
        raise SuiteError(
            f"check '{check.id}' ranks the top {check.k} of '{subject}', which has {of_subject.sum()} images.",
            where=one.where,
            remedy=f"choose k below {of_subject.sum()}",
        )
    worst: NullSkew | None = None
    for grouping in one.groupings:
        codes, names = index.codes(grouping)
        per_group = np.bincount(np.asarray(codes)[of_subject], minlength=len(names))
        null = expected_max_skew(check.k, check.desired, per_group, NULL_DRAWS, stream(0, "null", *grouping, check.k))
        worst = null if worst is None or null.median > worst.median else worst
    if worst is not None and check.at_most is not None and check.at_most < worst.median:
        raise SuiteError(
            f"check '{check.id}' wants MaxSkew@{check.k} of at most {check.at_most:g}, and a perfectly fair "
            f"ranker would have {worst.median:.2f} half of the time on '{subject}' (95%: {worst.p95:.2f}).",
            where=one.where,
            remedy="raise the bound above the fair ranker's 95% point, or rank more images (larger k)",
        )
    return worst
