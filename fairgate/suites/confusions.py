"""Who is taken for whom: wrong answers, counted per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fairgate.probes import ProbeScores
from fairgate.records import Misclassification
from fairgate.suites.cell import Index
from fairgate.suites.plan import PlannedCheck


def confusions(
    index: Index, scores: Mapping[str, ProbeScores], planned: Sequence[PlannedCheck]
) -> list[Misclassification]:
    """Who is taken for whom, per probe, subject and group; only wrong answers are listed.

    Groups are those of the check that crosses most attributes (all attributes, where none asks for groups): beyond what
    a suite asks for, cells would hold a handful of images each.
    """
    found: list[Misclassification] = []
    for probe, one in scores.items():
        if one.predicted is None or one.correct is None:
            continue
        asked = [grouping for check in planned if check.check.probe == probe for grouping in check.groupings]
        codes, names = index.codes(max(asked, key=len, default=tuple(index.attributes)))
        for subject in dict.fromkeys(index.subject.tolist()):
            rows = np.flatnonzero(index.subject == subject)
            totals = np.bincount(codes[rows], minlength=len(names))
            wrong = rows[~one.correct[rows]]
            taken: dict[tuple[int, str], int] = {}
            for row in wrong.tolist():
                key = (int(codes[row]), str(one.predicted[row]))
                taken[key] = taken.get(key, 0) + 1
            found += [
                Misclassification(
                    probe=probe,
                    subject=subject,
                    group=names[code],
                    predicted=label,
                    count=count,
                    total=int(totals[code]),
                )
                for (code, label), count in sorted(taken.items())
            ]
    return found
