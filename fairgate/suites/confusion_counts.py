"""Confusions: wrong answers, counted per group and predicted label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fairgate.measures import Crossing, GroupedRows
from fairgate.probes import ProbeScores
from fairgate.records import Misclassification
from fairgate.suites.plan import PlannedCheck


@dataclass(frozen=True, slots=True)
class Confusion:
    """The number of images of one subject and group that were predicted as another label."""

    subject: str
    group: str
    predicted: str
    count: int
    total: int


def wrong_answers(index: GroupedRows, scores: ProbeScores, grouping: Crossing) -> Iterator[Confusion]:
    """Wrong answers per subject, group and label; of a group the commonest first. None where nothing was predicted."""
    if scores.predicted is None or scores.correct is None:
        return
    codes, names = index.codes(grouping)
    for subject in dict.fromkeys(index.subject.tolist()):
        rows = np.flatnonzero(index.subject == subject)
        totals = np.bincount(codes[rows], minlength=len(names))
        wrong = rows[~scores.correct[rows]].tolist()
        taken = Counter((int(codes[row]), str(scores.predicted[row])) for row in wrong)
        for (code, label), count in sorted(taken.items(), key=lambda one: (one[0][0], -one[1], one[0][1])):
            yield Confusion(subject, names[code], label, count, int(totals[code]))


def confusions(
    index: GroupedRows, scores: Mapping[str, ProbeScores], planned: Sequence[PlannedCheck]
) -> list[Misclassification]:
    """Wrong answers per probe, subject, group and predicted label.

    Groups are those of the check that crosses most attributes, or of all attributes where no check has groups: finer
    cells would hold a handful of images each.
    """
    found: list[Misclassification] = []
    for probe, one in scores.items():
        crossings = [grouping for check in planned if check.check.probe == probe for grouping in check.groupings]
        grouping = max(crossings, key=len, default=tuple(index.attributes))
        found += [Misclassification(probe=probe, **asdict(taken)) for taken in wrong_answers(index, one, grouping)]
    return found
