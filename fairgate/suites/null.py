"""What chance alone gives: a rank metric of a perfectly fair ranker, and bounds that even it would miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import SuiteError
from fairgate.metrics import NullSkew, ndkl_of_ranking
from fairgate.randomness import stream
from fairgate.suites.catalog import METRICS
from fairgate.suites.cell import Cells, Floats, Index
from fairgate.suites.measure import Parts, large_enough, parts_of, value_of
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.queries import Gallery, galleries_of
from fairgate.suites.ranking import answer_of_counts, places_of_groups

NULL_DRAWS = 2000


def fair_rankers(planned: Sequence[PlannedCheck], index: Index, min_sets: int = 0) -> dict[str, NullSkew]:
    """By check item, what a perfectly fair ranker has: for every check that counts a top k over groups.

    Of several subjects or words it is the average's, and of several groupings the worst one's, as the check has it,
    without groups in fewer than `min_sets` sets: the top k of every query is a random draw from its gallery,
    independent of the others'. `p95` is the value that the fair ranker is no worse than 95% of the time: the 5%
    quantile where higher is better. Raises SuiteError for a k beyond a gallery.
    """
    simulation = _Simulation(Cells(index), min_sets)
    found: dict[str, NullSkew] = {}
    for one in planned:
        if one.groupings and METRICS[one.check.metric].ranks:
            found[one.item] = simulation.of(one)
    return found


def require_attainable(planned: Sequence[PlannedCheck], null: Mapping[str, NullSkew]) -> None:
    """Raise SuiteError for a bound that a perfectly fair ranker misses half of the time."""
    for one in planned:
        if one.item in null:
            _require_attainable(one, null[one.item])


class _Simulation:
    """Fair rankings, drawn once for each composition of a gallery: subjects often have the same one."""

    def __init__(self, cells: Cells, min_sets: int) -> None:
        self._cells = cells
        self._min_sets = min_sets
        self._drawn: dict[tuple[object, ...], tuple[Floats, ...]] = {}

    def of(self, one: PlannedCheck) -> NullSkew:
        """The check's value over fair rankings."""
        cell = self._cells.of(one)
        check, galleries = one.check, galleries_of(one, cell)
        rng = stream(0, "fair ranker", check.metric, check.k or 0, len(galleries))
        queries = []
        for gallery in galleries:
            _require_images(one, gallery)
            order = rng.permutation(NULL_DRAWS)  # one composition, another query: the same draws, in another order
            queries.append([parts[order] for parts in self._parts(one, gallery)])
        better = METRICS[check.metric].better
        kept, blocks = places_of_groups(galleries[0].groupings)
        sets = cell.group_sets()[kept]
        enough = large_enough(sets, blocks, METRICS[check.metric], self._min_sets)
        parts: Parts = tuple(zip(*queries, strict=True))
        parts = parts_of(parts, blocks, enough) if enough.any() else parts
        values = value_of(parts, "max" if better == "lower" else "min")
        median, worse = np.quantile(values, [0.5, 0.95 if better == "lower" else 0.05], method="inverted_cdf")
        return NullSkew(mean=float(values.mean()), median=float(median), p95=float(worse), draws=NULL_DRAWS)

    def _parts(self, one: PlannedCheck, gallery: Gallery) -> tuple[Floats, ...]:
        """(draws, parts) for every grouping."""
        check, present = one.check, np.bincount(gallery.joint)
        folds = tuple(grouping.of.tobytes() + grouping.kept.tobytes() for grouping in gallery.groupings)
        key = (check.metric, check.k, check.desired, present.tobytes(), folds)
        if key not in self._drawn:
            rng = stream(0, "fair ranking", check.metric, check.k or 0)
            self._drawn[key] = _simulated(one, gallery, present, rng)
        return self._drawn[key]


def _simulated(
    one: PlannedCheck, gallery: Gallery, present: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Floats, ...]:
    check, k = one.check, one.check.k or 0
    shown = rng.multivariate_hypergeometric(present, k, size=NULL_DRAWS, method="marginals")
    ranked = None
    if check.metric == "ndkl_at_k":
        places = np.repeat(np.tile(np.arange(len(present)), NULL_DRAWS), shown.ravel()).reshape(NULL_DRAWS, k)
        ranked = rng.permuted(places, axis=1)
    found = []
    for grouping in gallery.groupings:
        held = grouping.fold(present[None, :].astype(np.float64))
        if ranked is not None:
            shares = held[0] / held.sum() if check.desired == "dataset" else np.full(grouping.size, 1 / grouping.size)
            found.append(ndkl_of_ranking(grouping.of[ranked], shares)[:, None])
        else:
            top = grouping.fold(shown.astype(np.float64))
            found.append(answer_of_counts(check.metric, top, held, check.desired, grouping)[0])
    return tuple(found)


def _require_images(one: PlannedCheck, gallery: Gallery) -> None:
    images = len(gallery.rows)
    if (one.check.k or 0) > images:
        raise SuiteError(
            f"check '{one.check.id}' ranks the top {one.check.k} of '{gallery.name}', which has {images} images.",
            where=one.where,
            remedy=f"choose k below {images}",
        )


def _require_attainable(one: PlannedCheck, null: NullSkew) -> None:
    check = one.check
    missed = (check.at_most is not None and check.at_most < null.median) or (
        check.at_least is not None and check.at_least > null.median
    )
    if not missed:
        return
    higher = METRICS[check.metric].better == "higher"
    name = check.metric.replace("_at_k", f"@{check.k}").replace("_", " ")
    raise SuiteError(
        f"check '{check.id}' wants {name} of {check.rule.replace('_', ' ')} {check.bound:g}, and a perfectly fair "
        f"ranker would have {null.median:.3g} half of the time on '{one.subject or one.word or 'all subjects'}' "
        f"({'at least' if higher else 'at most'} {null.p95:.3g} in 95 of 100 rankings).",
        where=one.where,
        remedy=f"{'lower' if higher else 'raise'} the bound beyond the fair ranker's 95% point, {null.p95:.3g}, or "
        "rank more images (larger k)",
    )
