"""All checks of a suite, decided together: one correction over the whole file, whatever part of it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fairgate.errors import FairgateError
from fairgate.metrics import NullSkew
from fairgate.probes import ProbeScores
from fairgate.randomness import stream
from fairgate.records import Against, CheckResult
from fairgate.statistics import (
    PairedResult,
    Resamples,
    bonferroni,
    holm,
    image_regression,
    paired_statistic_test,
    paired_test,
)
from fairgate.suites.assessed import Assessed
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Cell, Cells, Floats, Index
from fairgate.suites.interval import limits_of
from fairgate.suites.measure import Measure, measure
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.resample import resample
from fairgate.suites.result import result_of, undecided
from fairgate.suites.schema import Suite
from fairgate.suites.ties import ties_of

Null = Mapping[str, NullSkew]

__all__ = ["Index", "decide"]


def decide(
    planned: Sequence[PlannedCheck],
    index: Index,
    suite: Suite,
    candidate: Mapping[str, ProbeScores],
    baseline: Mapping[str, ProbeScores] | None,
    null: Null,
    anchor: Mapping[str, ProbeScores] | None = None,
) -> list[CheckResult]:
    """Measure, compare and decide every planned check; `null` holds the fair ranker's value by check item.

    Comparisons with the baseline and with the anchor are one family.

    A check that cannot be measured is an error that says why, and counts in the correction as one that shows nothing.
    """
    table = _Table(index, suite, candidate, {"baseline": baseline or {}, "anchor": anchor or {}})
    assessed: list[Assessed | CheckResult] = []
    for one in planned:
        try:
            assessed.append(table.assess(one))
        except FairgateError as error:
            assessed.append(undecided(one, error))
    p_of = _corrected(assessed, suite)
    return [
        one
        if isinstance(one, CheckResult)
        else result_of(one, index, suite, p_of.get(one.planned.item), null.get(one.planned.item))
        for one in assessed
    ]


def _corrected(assessed: Sequence[Assessed | CheckResult], suite: Suite) -> dict[str, float]:
    """Adjusted p by check item, over every comparison that was asked for."""
    raw: dict[str, float] = {}
    for one in assessed:
        if isinstance(one, CheckResult):
            raw |= {one.item: 1.0} if one.rule == "no_worse_than" else {}
        elif one.paired is not None:
            raw[one.planned.item] = one.paired.p
    if not raw:
        return {}
    corrected = (holm if suite.decision.correction == "holm" else bonferroni)(np.array(list(raw.values())))
    return dict(zip(raw, corrected.tolist(), strict=True))


class _Table:
    """What every check of a run reads: scores, cells and resampled sets, of which those of one subject are shared."""

    def __init__(
        self,
        index: Index,
        suite: Suite,
        candidate: Mapping[str, ProbeScores],
        others: Mapping[Against, Mapping[str, ProbeScores]],
    ) -> None:
        self._cells = Cells(index)
        self._suite = suite
        self._candidate = candidate
        self._others = others
        self._resamples: dict[str | None, Resamples] = {}

    def assess(self, planned: PlannedCheck) -> Assessed:
        """A check measured, compared and resampled. Raises a FairgateError for what cannot be measured."""
        check, rule = planned.check, self._suite.decision
        cell = self._cells.of(planned)
        answers = [self._candidate[name] for name in planned.answers]
        now, before = measure(planned, cell, answers), None
        other = self._others[planned.against or "baseline"]
        if all(name in other for name in planned.answers):
            before = measure(planned, cell, [other[name] for name in planned.answers])
        testable = now.group_sets.min(initial=2) >= 2  # one set has no spread; `min_sets` says so in the result
        compared = before is not None and check.no_worse_than is not None and testable
        # A test of means resamples by itself; other statistics are compared in these draws.
        both = [now, before] if compared and before is not None and now.by_draws else [now]
        sets = self._sets(planned.subject, cell)
        drawn = resample(both, cell.n_sets, rule.draws, sets)
        limits = limits_of(planned, cell, now, drawn[0], rule.alpha)
        paired = None
        if compared and before is not None:
            paired = self._compare(planned, cell, now, before, drawn[0].value - drawn[-1].value, sets)
        return Assessed(planned, cell, answers, now, before, limits, paired, ties_of(planned, cell, answers))

    def _sets(self, subject: str | None, cell: Cell) -> Resamples:
        """The resampled sets of a subject: a correction over tests that share them holds under any dependence."""
        if subject not in self._resamples:
            rule = self._suite.decision
            rng = stream(rule.seed, "sets", self._suite.suite, subject or "")
            self._resamples[subject] = Resamples(cell.n_sets, rule.draws, rng)
        return self._resamples[subject]

    def _compare(
        self, planned: PlannedCheck, cell: Cell, now: Measure, before: Measure, deltas: Floats, sets: Resamples
    ) -> PairedResult:
        check, rule = planned.check, self._suite.decision
        harm: Literal["lower", "higher"] = "lower" if METRICS[check.metric].better == "higher" else "higher"
        asked: dict[str, Any] = {"margin": planned.bound, "alpha": rule.alpha, "harm": harm}
        if now.paired is not None and before.paired is not None:
            return paired_test(now.paired, before.paired, rng=sets, draws=rule.draws, **asked)
        if now.images is not None and before.images is not None:
            # Images are resampled within their groups, so that resamples of all images do not fit.
            rng = stream(rule.seed, "images", self._suite.suite, planned.item)
            (codes,), (names,) = cell.group_codes, cell.groups
            return image_regression(
                now.images, before.images, codes, groups=len(names), rng=rng, draws=rule.draws, **asked
            )
        return paired_statistic_test(now.value - before.value, deltas, n_sets=len(now.badness), **asked)
