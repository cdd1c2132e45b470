"""Turn an assessed check into a result: its verdict, its numbers, its waiver, and the details for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from fairgate.data import TextColumn
from fairgate.formulas.metrics import NullSkew
from fairgate.formulas.statistics import PairedResult
from fairgate.ground.errors import FairgateError, harmless
from fairgate.metrics import Crossing, GroupedRows
from fairgate.probes import LISTED_AGAIN, ProbeScores, text_codes
from fairgate.records import CheckResult, GroupResult, MemberResult, Misclassification, Waiver, WorstSet, status_of
from fairgate.suites.compare import Assessed
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Suite, Waived
from fairgate.suites.verdicts import Judgement, Verdicts, judge

SHOWN = 4
IMAGES_SHOWN = 6
"""Shown where each image is a set of its own."""
MEMBERS_SHOWN = 24


def result_of(assessed: Assessed, index: GroupedRows, suite: Suite, null: NullSkew | None) -> CheckResult:
    """Decide an assessed check."""
    paired, ties = assessed.paired, assessed.ties
    judged = judge(assessed, suite)
    verdict, at = judged.verdict, judged.at if assessed.by_group and judged.at is not None else 0
    value, lo, hi, how, baseline = _shown(assessed, at, judged.at)
    again = assessed.answers[0].more.get(LISTED_AGAIN)
    repeats = assessed.now.repeats + (0 if again is None else int(again[assessed.cell.rows].sum()))
    how += f"; {repeats:,} repeats count once" if repeats else ""
    how += f"; {assessed.now.equal:,} pictures equal another one" if assessed.now.equal else ""
    return CheckResult(
        **_as_planned(assessed.planned),
        value=value,
        status=status_of(value),
        lo=lo,
        hi=hi,
        interval=how,
        baseline=baseline,
        delta=float(paired.delta[at]) if paired else None if baseline is None else value - baseline,
        delta_lo=None if paired is None else float(paired.lo[at]),
        delta_hi=None if paired is None else float(paired.hi[at]),
        p_adjusted=None if paired is None else paired.p,
        test=None if paired is None else _tested(assessed, paired, at),
        only_tempered=assessed.only_tempered and verdict != "pass",
        null_median=None if null is None else null.median,
        null_p95=None if null is None else null.p95,
        tie_at_k=None if ties is None else ties.decided,
        tie_lo=None if ties is None else ties.lowest,
        tie_hi=None if ties is None else ties.highest,
        verdict=verdict,
        n_sets=assessed.n_sets,
        repeats=repeats,
        equal_pictures=assessed.now.equal,
        min_sets=suite.groups.min_sets,
        sets_needed=paired.sets_to_settle if paired is not None and verdict == "inconclusive" else None,
        margin_decided=paired.margin_to_settle if paired is not None and verdict == "inconclusive" else None,
        reason=harmless(judged.reason),
        worst_group=None if judged.at is None else assessed.now.groups[judged.at],
        groups=_groups(assessed, judged.groups),
        worst_sets=_worst_sets(assessed, index, judged) if verdict != "pass" else [],
    )


def undecided(planned: PlannedCheck, error: FairgateError) -> CheckResult:
    """A check that could not be computed: an error that says why, never a pass."""
    return CheckResult(
        **_as_planned(planned), value=None, status="absent", verdict="error", n_sets=0, reason=str(error)
    )


def _as_planned(planned: PlannedCheck) -> dict[str, Any]:
    """The fields that a result has before anything is measured."""
    check, spec = planned.check, planned.spec
    return {
        "id": check.id,
        "subject": planned.subject,
        "word": planned.word,
        "category": planned.category,
        "against": planned.against,
        "metric": check.metric,
        "k": check.k,
        "counted": None if check.settings.counted is None else harmless(check.settings.counted),
        "probe": check.probe,
        "views": planned.views,
        "over": planned.over,
        "rule": check.rule,
        "better": spec.better,
        "bound": planned.bound,
        "tier": check.tier,
    }


def _shown(
    assessed: Assessed, at: int, worst: int | None
) -> tuple[float, float | None, float | None, str, float | None]:
    """Value, its interval and how that was found, and the baseline's value: of the group `at` if groups were compared.
    The baseline of a bound is that of the group whose value it is, the `worst`: a row is about one group."""
    before, limits = assessed.before, assessed.limits
    if not assessed.by_group or limits.group_lo is None or limits.group_hi is None:
        then = None if before is None else before.value
        if before is not None and worst is not None and assessed.paired is None:
            own = float(assessed.now.group_values[worst]) == assessed.now.value
            then = float(before.group_values[worst]) if own else then
        return assessed.now.value, limits.lo, limits.hi, limits.how, then
    baseline = None if before is None else float(before.group_values[at])
    value, lo, hi = (float(numbers[at]) for numbers in (assessed.now.group_values, limits.group_lo, limits.group_hi))
    return value, lo, hi, limits.group_how, baseline


def _tested(assessed: Assessed, paired: PairedResult, at: int) -> str | None:
    """The test by which a comparison, or its group `at`, was decided, with what it draws."""
    cell, how = assessed.cell, str(paired.tested[at])
    if how == "no":
        return None
    if how == "exact":
        return f"exact: few {cell.unit} changed"
    return f"{paired.method} of {cell.drawn}"


def _worst_sets(assessed: Assessed, index: GroupedRows, judged: Judgement) -> list[WorstSet]:
    """The four sets (of single images, six) with the most badness, or, against a baseline, whose badness grew most.

    Right-or-wrong answers tie: among equals, the set with the lowest mean score comes first. Where a group
    settled the check, only sets that hold it. Sets in which nothing is bad are not listed, nor is any of a regression
    that could not be tested.
    """
    if assessed.planned.check.no_worse_than is not None and assessed.paired is None:
        return []
    cell, now = assessed.cell, assessed.now.set_badness()
    badness = now
    if assessed.paired is not None and assessed.before is not None:
        badness = badness - assessed.before.set_badness()
    scores = assessed.answers[0]
    if len(assessed.answers) > 1:  # of several words, the mean similarity
        scores = ProbeScores(np.mean([answer.value for answer in assessed.answers], axis=0))
    score = np.bincount(cell.set_code, scores.value[cell.rows]) / np.bincount(cell.set_code)
    bad = badness > 0  # not of sets without a number (NaN)
    at = judged.at
    if at is not None and (assessed.by_group or judged.groups[at] == judged.verdict):
        holding = cell.sets_with(assessed.now.groups[at])
        bad &= holding | (not holding.any())  # what is named so may be no group of images, but an answer
    worst = np.flatnonzero(bad)
    worst = worst[np.lexsort((score[worst], -badness[worst]))]
    chosen = worst[: IMAGES_SHOWN if cell.unit == "images" else SHOWN]
    return [_worst_set(int(code), assessed, index, scores, float(now[code])) for code in chosen]


def _groups(assessed: Assessed, verdicts: Verdicts) -> list[GroupResult]:
    now, before, limits = assessed.now, assessed.before, assessed.limits
    paired = assessed.paired if assessed.by_group else None
    by_grouping = [len(names) for names in assessed.cell.groups]
    sizes = now.blocks if len(now.blocks) == len(by_grouping) else by_grouping  # means have one block for all groupings
    attributes = [name for name, size in zip(assessed.planned.over_each, sizes, strict=True) for _ in range(size)]
    results = []
    for position, name in enumerate(now.groups):
        value = float(now.group_values[position])
        results.append(
            GroupResult(
                group=name,
                attribute=attributes[position],
                value=value,
                status=status_of(value),
                lo=None if limits.group_lo is None else float(limits.group_lo[position]),
                hi=None if limits.group_hi is None else float(limits.group_hi[position]),
                baseline=None if before is None else float(before.group_values[position]),
                delta=None if paired is None else float(paired.delta[position]),
                delta_lo=None if paired is None else float(paired.lo[position]),
                delta_hi=None if paired is None else float(paired.hi[position]),
                p_adjusted=None if paired is None else float(paired.p_adjusted[position]),
                verdict=verdicts[position],
                n_images=int(now.group_images[position]),
                n_sets=int(now.group_sets[position]),
            )
        )
    return results


def _worst_set(code: int, assessed: Assessed, index: GroupedRows, scores: ProbeScores, spread: float) -> WorstSet:
    cell = assessed.cell
    places = np.flatnonzero(cell.set_code == code)
    rows = cell.rows[places[:MEMBERS_SHOWN]]
    right = scores.truth if scores.right is None else scores.right
    wrong = scores.judged & ~scores.correct if scores.correct is not None else np.zeros(len(scores.value), dtype=bool)
    return WorstSet(
        set_id=str(cell.set_ids[code]),
        subject=str(cell.subject[places[0]]),
        spread=spread if len(rows) > 1 else None,
        members=[
            MemberResult(
                member=str(index.member[row]),
                group=" × ".join(str(values[row]) for values in index.attributes.values()),
                value=float(scores.value[row]),
                predicted=None if scores.predicted is None else str(scores.predicted[row]),
                correct=bool(scores.correct[row]) if scores.correct is not None and scores.judged[row] else None,
                right=str(right[row]) if right is not None and wrong[row] else None,
            )
            for row in rows
        ],
    )


def wrong_answers(
    probe: str, index: GroupedRows, scores: ProbeScores, grouping: Crossing
) -> Iterator[Misclassification]:
    """Wrong answers per subject, group and label; of a group the commonest first. None where nothing was predicted."""
    if scores.predicted is None or scores.correct is None:
        return
    codes, names = index.codes(grouping)
    labels, predicted = text_codes(scores.predicted)
    for subject in TextColumn.of(index.subject).distinct():
        judged = (index.subject == subject) & scores.judged
        totals = np.bincount(codes[judged], minlength=len(names))
        wrong = judged & ~scores.correct
        cells = codes[wrong] * len(labels) + predicted[wrong]
        taken = np.bincount(cells, minlength=len(names) * len(labels)).reshape(len(names), len(labels))
        for group, total, counts in zip(names, totals.tolist(), taken, strict=True):
            for label in np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].tolist():
                counted = {"predicted": str(labels[label]), "count": int(counts[label]), "total": total}
                yield Misclassification(probe=probe, subject=subject, group=group, **counted)


def confusions(
    index: GroupedRows, scores: Mapping[str, ProbeScores], planned: Sequence[PlannedCheck]
) -> list[Misclassification]:
    """Wrong answers per probe, subject, group and predicted label.

    Groups are those of the check that crosses most attributes, or of all attributes where no check has groups: finer
    cells would hold a handful of images each.
    """
    misclassified: list[Misclassification] = []
    for probe, probe_scores in scores.items():
        crossings = [grouping for check in planned if check.check.probe == probe for grouping in check.groupings]
        grouping = max(crossings, key=len, default=tuple(index.attributes))
        misclassified += wrong_answers(probe, index, probe_scores, grouping)
    return misclassified


def waive(checks: Sequence[CheckResult], waivers: Sequence[Waived], today: date) -> list[CheckResult]:
    """Mark the checks that a waiver covers, its last day included. An expired waiver is marked and waives nothing.

    A waiver of one subject takes precedence over one of the whole check.
    """
    by_check: dict[tuple[str, str | None], Waived] = {(waiver.check, waiver.subject): waiver for waiver in waivers}
    marked = []
    for check in checks:
        waiver = by_check.get((check.id, check.about)) or by_check.get((check.id, None))
        if waiver is not None and check.verdict != "pass":
            applied = Waiver(until=waiver.until.isoformat(), reason=waiver.reason, expired=today > waiver.until)
            check = check.model_copy(update={"waiver": applied})  # noqa: PLW2901
        marked.append(check)
    return marked
