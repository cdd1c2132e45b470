"""All checks of a suite, decided together: one correction over the whole file, whatever part of it is shown."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from threadpoolctl import ThreadpoolController

from fairgate.data import give_back
from fairgate.formulas.metrics import NullSkew
from fairgate.formulas.statistics import PairedResult, Resamples
from fairgate.ground.errors import FairgateError
from fairgate.ground.randomness import stream
from fairgate.metrics import Cell, Cells, Drawn, Floats, GroupedRows, Limits, Measure, cells_of, measure, resample
from fairgate.probes import ProbeScores
from fairgate.records import Against, CheckResult, Tier
from fairgate.suites.compare import Assessed, CheckComparison, compare, decide_family, numbers_of, stricter
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.result import result_of, undecided
from fairgate.suites.schema import Suite

_NO_LIMITS = Limits(None, None, "no interval was asked for")

Null = Mapping[str, NullSkew]
Scores = Mapping[str, ProbeScores]


def decide(
    planned: Sequence[PlannedCheck],
    index: GroupedRows,
    suite: Suite,
    candidate: Scores,
    others: Mapping[Against, Scores],
    null: Null,
    tempered: Mapping[Against, Scores] | None = None,
    *,
    intervals: bool = True,
    resamples: dict[str | None, Resamples] | None = None,
) -> list[CheckResult]:
    """Measure, compare and decide every planned check; `null` holds the fair ranker's value by check item.

    Comparisons with the baseline and with the anchor, whose scores are `others`, are one family; those of checks that
    are only watched are one of their own. `tempered` holds the
    candidate's scores at the temperature that gives a probe the baseline's (or anchor's) mean answer entropy;
    regressions of P(true) metrics on these probes are decided at both temperatures, in the same family, and the
    stricter verdict counts. Without `intervals`, values of regressions have none, which decide nothing there and take
    most of the time: for simulations, which read verdicts alone, and which share `resamples`, by subject, between
    decisions about as many sets.

    A check that cannot be measured is an error that says why, and is no part of the family.
    """
    one_thread = _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas")
    with one_thread:  # more threads mostly wait: half as much time again, or twice
        sets = {} if resamples is None else resamples
        cells = cells_of(index)
        cells.cross(crossing for check in planned for crossing in check.groupings)
        table = _Table(cells, suite, candidate, others, tempered or {}, intervals, sets)
        by_check = dict[int, tuple[Assessed, list[CheckComparison]] | CheckResult]()
        for place in sorted(range(len(planned)), key=lambda place: planned[place].answers):  # they share sums
            try:
                by_check[place] = table.assess(planned[place])
            except FairgateError as error:
                by_check[place] = undecided(planned[place], error)
            give_back()
        assessed = [by_check[place] for place in range(len(planned))]
        of_tier: dict[Tier, list[CheckComparison]] = {"gate": [], "watch": []}
        for each in assessed:
            if not isinstance(each, CheckResult):
                of_tier[each[0].planned.check.tier] += each[1]
        decided = {tier: iter(decide_family(parts, suite.decision)) for tier, parts in of_tier.items()}
        results = []
        for each in assessed:
            if isinstance(each, CheckResult):
                results.append(each)
                continue
            settled = table.settle(*each, [next(decided[each[0].planned.check.tier]) for _ in each[1]])
            results.append(result_of(settled, index, suite, null.get(settled.planned.item)))
        return results


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> ThreadpoolController:
    """The thread pools of the libraries that are loaded. A search takes 4 ms; it is repeated after an import."""
    return ThreadpoolController()


@dataclass(frozen=True, slots=True)
class _Table:
    """What every check of a run reads: scores, cells and resampled sets, of which those of one subject are shared."""

    cells: Cells
    suite: Suite
    candidate: Scores
    others: Mapping[Against, Scores]
    tempered: Mapping[Against, Scores]
    intervals: bool
    resamples: dict[str | None, Resamples]
    known: list[Floats] = field(default_factory=list)

    def assess(self, planned: PlannedCheck) -> tuple[Assessed, list[CheckComparison]]:
        """A check measured and resampled, and its comparisons: none, one, or one at either temperature.

        Raises a FairgateError for what cannot be measured.
        """
        cell, rule = self.cells.of(planned.subject, planned.groupings), self.suite.decision
        answers: Sequence[ProbeScores] = [self.candidate[name] for name in planned.answers]
        other, before = self.others.get(planned.against or "baseline", {}), None
        if all(name in other for name in planned.answers):
            answers, theirs = planned.metric.read_together(answers, [other[name] for name in planned.answers])
            before = self._measure(planned, cell, theirs)
        now = self._measure(planned, cell, answers)
        candidates: list[Measure] = []
        if before is not None and planned.check.no_worse_than is not None:
            candidates = [now, *self._at_their_temperature(planned, cell)]
        # A test of means resamples by itself; other statistics are compared in these draws.
        both = [*candidates, before] if candidates and before is not None and now.by_draws else [now]
        sets = self._sets(planned.subject, cell)
        wanted = self.intervals or planned.check.no_worse_than is None
        drawn = resample(both, cell.n_sets, rule.draws, sets) if wanted or now.by_draws else []
        limits, ties = self._limits(planned, cell, now, drawn[0]) if wanted else _NO_LIMITS, now.ties
        numbers = partial(numbers_of, planned, cell, known=self.known)
        then = None if before is None else numbers(before)
        assessed = Assessed(planned, cell, answers, numbers(now), then, limits, None, None if ties is None else ties())
        compared = []
        for at, measured in enumerate(candidates):
            assert before is not None
            own = now.compared(drawn[at]) if now.by_draws else None
            deltas = None if own is None else own - before.compared(drawn[-1])
            part = compare(self.suite, planned, cell, measured, before, deltas, sets, own)
            compared.append(replace(part, now=numbers(part.now)))
        return assessed, compared

    def settle(self, assessed: Assessed, parts: Sequence[CheckComparison], results: Sequence[PairedResult]) -> Assessed:
        """The check with its decided comparison, or the stricter of two, and the numbers that belong to it."""
        if len(results) < 2:
            return replace(assessed, paired=results[0], now=parts[0].now) if results else assessed
        paired, only_tempered = stricter(*results)
        assessed = replace(
            assessed, paired=paired, only_tempered=only_tempered, only_own=stricter(*reversed(results))[1]
        )
        if not only_tempered or assessed.limits is _NO_LIMITS:
            return assessed
        planned, cell, now, rule = assessed.planned, assessed.cell, parts[1].now, self.suite.decision
        answers = [self.tempered[planned.against or "baseline"][name] for name in planned.answers]
        again = self._measure(planned, cell, answers)
        drawn = resample([again], cell.n_sets, rule.draws, self._sets(planned.subject, cell))[0]
        return replace(assessed, answers=answers, now=now, limits=self._limits(planned, cell, now, drawn))

    def _at_their_temperature(self, planned: PlannedCheck, cell: Cell) -> list[Measure]:
        """The candidate's second measure, where the metric depends on the temperature and its probe was tempered."""
        scores = self.tempered.get(planned.against or "baseline", {})
        if not planned.metric.spec.tempered or not all(name in scores for name in planned.answers):
            return []
        return [self._measure(planned, cell, [scores[name] for name in planned.answers])]

    def _measure(self, planned: PlannedCheck, cell: Cell, answers: Sequence[ProbeScores]) -> Measure:
        return measure(planned.request(self.suite.groups.min_sets), cell, answers)

    def _limits(self, planned: PlannedCheck, cell: Cell, now: Measure, drawn: Drawn) -> Limits:
        metric = planned.metric
        limits = metric.interval(planned.request(), cell, now, drawn, self.suite.decision.alpha)
        return limits.inside(metric.spec)

    def _sets(self, subject: str | None, cell: Cell) -> Resamples:
        """The resampled sets of a subject: a correction over tests that share them holds under any dependence."""
        if subject not in self.resamples or self.resamples[subject].n_sets != cell.n_sets:
            rule = self.suite.decision
            rng = stream(rule.seed, "sets", self.suite.suite, subject or "")
            self.resamples[subject] = Resamples(cell.n_sets, rule.draws, rng)
        return self.resamples[subject]
