"""Who is taken for whom: wrong answers, counted per group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairgate.probes import ProbeScores
from fairgate.records import Misclassification
from fairgate.suites.decide import Index


def confusions(index: Index, scores: Mapping[str, ProbeScores]) -> list[Misclassification]:
    """Who is taken for whom, per probe, subject and crossed group; only wrong answers are listed."""
    codes, names = index.codes(tuple(index.attributes))
    found: list[Misclassification] = []
    for probe, one in scores.items():
        if one.predicted is None or one.correct is None:
            continue
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
