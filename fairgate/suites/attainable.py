"""Checks that no model can meet: of groups that no image shows, or with bounds that even a fair ranker misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fairgate.formulas.metrics import NullSkew
from fairgate.ground.errors import SuiteError, listed
from fairgate.metrics import Cells, FairRankings, GroupedRows, galleries_of
from fairgate.suites.plan import PlannedCheck

NAMED = 3


def require_groups_present(planned: Sequence[PlannedCheck], index: GroupedRows) -> None:
    """Raise SuiteError for a check over a group, or a crossing, that the dataset does not show: it would vanish.

    A ranking needs every group in every gallery: one that a subject lacks has no place in its top k.
    """
    cells = Cells(index)
    for ranked in (check for check in planned if check.groupings):
        cell = cells.of(ranked.subject, ranked.groupings)
        galleries = [("", np.arange(len(cell.rows)))]
        if ranked.metric.spec.rankings and not ranked.words:
            galleries = [(gallery.name, gallery.rows) for gallery in galleries_of(ranked.request(), cell)]
        for name, rows in galleries:
            absent = [
                group
                for codes, groups in zip(cell.group_codes, cell.groups, strict=True)
                for group, count in zip(groups, np.bincount(codes[rows], minlength=len(groups)), strict=True)
                if count == 0
            ]
            if absent:
                shown = listed(absent, NAMED)
                of = f" of '{name}'" if name else ""
                raise SuiteError(
                    f"check '{ranked.item}' is over {ranked.over}, and no image{of} shows {shown}.",
                    where=ranked.where,
                    remedy="cross fewer attributes in `over`, or add images of the group to the dataset",
                )


def fair_rankers(planned: Sequence[PlannedCheck], index: GroupedRows, min_sets: int = 0) -> dict[str, NullSkew]:
    """By check item, what a perfectly fair ranker has: for every check that counts a top k over groups.

    `p95` is the value that the fair ranker is no worse than 95% of the time: the 5% quantile where higher is better.
    Raises SuiteError for a k beyond a gallery.
    """
    cells, rankings = Cells(index), FairRankings()
    fair_chances: dict[str, NullSkew] = {}
    for ranked in (check for check in planned if check.groupings):
        cell = cells.of(ranked.subject, ranked.groupings)
        sizes = dict.fromkeys(ranked.words, len(cell.rows)) or Counter(cell.subject.tolist())
        for name, images in sizes.items():
            if ranked.metric.counts_groups and (ranked.check.k or 0) > images:
                raise SuiteError(
                    f"check '{ranked.check.id}' ranks the top {ranked.check.k} of '{name}', which has {images} images.",
                    where=ranked.where,
                    remedy=f"choose k below {images}",
                )
        fair = ranked.metric.fair_chance(ranked.request(min_sets), cell, rankings)
        if fair is not None:
            fair_chances[ranked.item] = fair
    return fair_chances


def require_attainable(planned: Sequence[PlannedCheck], null: Mapping[str, NullSkew]) -> None:
    """Raise SuiteError for a bound that a perfectly fair ranker misses half of the time."""
    for ranked in planned:
        check, fair = ranked.check, null.get(ranked.item)
        if fair is None or check.rule == "no_worse_than":
            continue
        if check.bound >= fair.median if check.rule == "at_most" else check.bound <= fair.median:
            continue
        higher = ranked.metric.spec.better == "higher"
        name = check.metric.replace("_at_k", f"@{check.k}").replace("_", " ")
        raise SuiteError(
            f"check '{check.id}' wants {name} of {check.rule.replace('_', ' ')} {check.bound:g}, and a perfectly fair "
            f"ranker would have {fair.median:.3g} half of the time on '{ranked.about or 'all subjects'}' "
            f"({'at least' if higher else 'at most'} {fair.p95:.3g} in 95 of 100 rankings).",
            where=ranked.where,
            remedy=f"{'lower' if higher else 'raise'} the bound beyond the fair ranker's 95% point, {fair.p95:.3g}, or "
            "rank more images (larger k)",
        )
