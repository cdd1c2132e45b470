"""Whom each model's searches show: MaxSkew@K over subjects, and marginal beside intersectional (paper 3, figure 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.audit.answers import CROSS, Answers, Asked
from fairgate.audit.record import Refusal, RelativeDifference, SkewRow, SkewSummary, WithinRow
from fairgate.errors import MetricError
from fairgate.metrics import max_skew_at_k, skew_at_k, skew_of_counts, tie_at_k
from fairgate.randomness import stream
from fairgate.records import status_of
from fairgate.suites.cell import Floats
from fairgate.suites.plan import Grouping

NULL_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Cut:
    """Where rankings are cut, and what shares they are held against."""

    k: int
    desired: str


@dataclass(frozen=True, slots=True)
class _Gallery:
    """The images that one query ranks, under one grouping: `rows` of the dataset and their `codes` of `names`."""

    rows: NDArray[np.int64]
    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def present(self) -> tuple[int, ...]:
        """Images per group."""
        return tuple(np.bincount(self.codes, minlength=len(self.names)).tolist())

    def ranked(self, similarity: Floats, cut: Cut) -> dict[str, Any]:
        """MaxSkew, the favoured group and whether a tie decided."""
        scores = similarity[self.rows][None, :]
        how: dict[str, Any] = {"groups": len(self.names)}
        skew = skew_at_k(scores, self.codes, cut.k, desired=cut.desired, **how)[0]
        value = float(max_skew_at_k(scores, self.codes, cut.k, desired=cut.desired, **how)[0])
        tied = bool(tie_at_k(scores, self.codes, cut.k, **how)[0])
        return {"value": value, "favoured": self.names[int(np.argmax(skew))], "tied": tied}


class _Fair:
    """MaxSkew@K of a perfectly fair ranker, drawn once for every composition of a gallery."""

    def __init__(self, draws: int = NULL_DRAWS) -> None:
        self._draws = draws
        self._known: dict[tuple[Cut, tuple[int, ...], tuple[int, ...]], Floats] = {}

    def skews(self, gallery: _Gallery, cut: Cut, place: tuple[int, ...] = ()) -> Floats:
        """MaxSkew (draws,) of a random top k; galleries at different places are drawn apart."""
        key = (cut, gallery.present, place)
        if key not in self._known:
            rng = stream(0, "audit", "null", cut.k, cut.desired, *place, "of", *gallery.present)
            shown = rng.multivariate_hypergeometric(gallery.present, cut.k, size=self._draws, method="marginals")
            skew = skew_of_counts(shown, np.array(gallery.present), desired=cut.desired)
            self._known[key] = skew.max(axis=1)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class Rankings:
    """All that is said of one retrieval probe."""

    skews: list[SkewRow]
    within: list[WithinRow]
    differences: list[RelativeDifference]
    refusals: list[Refusal]


def compare_ranking(asked: Asked, answers: Answers, cuts: Sequence[Cut]) -> Rankings:
    """MaxSkew of every model, subject and grouping at every cut; and within each group of every other attribute."""
    fair = _Fair()
    found = Rankings([], [], [], [])
    for cut in cuts:
        for grouping in asked.groupings:
            galleries = list(_galleries(asked, grouping))
            try:
                found.skews.extend(_skews(galleries, CROSS.join(grouping), answers, cut, fair))
            except MetricError as error:
                found.refusals.append(_refusal(f"MaxSkew@{cut.k}", CROSS.join(grouping), error))
        for over, fixed in _two_attributes(asked):
            try:
                rows, differences = _within(asked, over, fixed, answers, cut, fair)
            except MetricError as error:
                found.refusals.append(_refusal(f"MaxSkew@{cut.k} within each {fixed}", over, error))
            else:
                found.within.extend(rows)
                found.differences.extend(differences)
    return found


def _refusal(what: str, over: str, error: MetricError) -> Refusal:
    return Refusal(what=what, over=over, reason=error.problem)


def _galleries(asked: Asked, grouping: Grouping) -> Iterator[tuple[str, _Gallery]]:
    codes, names = asked.index.codes(grouping)
    for subject in asked.subjects:
        rows = np.flatnonzero(asked.index.subject == subject)
        yield subject, _Gallery(rows, np.asarray(codes, dtype=np.int64)[rows], tuple(names))


def _skews(
    galleries: Sequence[tuple[str, _Gallery]], over: str, answers: Answers, cut: Cut, fair: _Fair
) -> list[SkewRow]:
    rows = []
    for model, scores in answers.items():
        for subject, gallery in galleries:
            found = gallery.ranked(scores.value, cut)
            median, p95 = np.quantile(fair.skews(gallery, cut), [0.5, 0.95])
            rows.append(
                SkewRow(
                    model=model,
                    subject=subject,
                    over=over,
                    k=cut.k,
                    status=status_of(found["value"]),
                    null_median=float(median),
                    null_p95=float(p95),
                    **found,
                )
            )
    return rows


def _two_attributes(asked: Asked) -> list[tuple[str, str]]:
    """Every attribute within every other."""
    return [(over, fixed) for fixed in asked.attributes for over in asked.attributes if over != fixed]


def within_cut(cut: Cut, over: int, fixed: int) -> Cut:
    """The same share of a gallery that holds one of `fixed` groups, and room for each of `over` groups at least."""
    return Cut(max(over, cut.k // fixed), cut.desired)


def _within(
    asked: Asked, over: str, fixed: str, answers: Answers, cut: Cut, fair: _Fair
) -> tuple[list[WithinRow], list[RelativeDifference]]:
    """MaxSkew over one attribute among the images of one group of another, averaged over subjects."""
    held, groups = asked.index.codes(fixed)
    smaller = within_cut(cut, len(asked.attributes[over]), len(groups))
    values: dict[str, list[float]] = {model: [] for model in answers}
    chances: list[Floats] = []
    whole = [one for _, one in _galleries(asked, (over,))]
    for code in range(len(groups)):
        parts = [
            _Gallery(one.rows[held[one.rows] == code], one.codes[held[one.rows] == code], one.names) for one in whole
        ]
        drawn = [fair.skews(one, smaller, (code, place)) for place, one in enumerate(parts)]
        chances.append(np.mean(drawn, axis=0))
        for model, scores in answers.items():
            values[model].append(float(np.mean([one.ranked(scores.value, smaller)["value"] for one in parts])))
    limits = [np.quantile(chance, [0.5, 0.95]) for chance in chances]
    rows = [
        WithinRow(
            model=model,
            fixed=fixed,
            group=group,
            over=over,
            k=smaller.k,
            value=values[model][code],
            null_median=float(limits[code][0]),
            null_p95=float(limits[code][1]),
            subjects=len(whole),
        )
        for code, group in enumerate(groups)
        for model in answers
    ]
    by_chance = np.quantile(relative_difference(np.stack(chances)), [0.5, 0.95], method="inverted_cdf")
    differences = [
        _difference(model, fixed, over, smaller.k, groups, np.array(value), by_chance)
        for model, value in values.items()
    ]
    return rows, differences


def relative_difference(skews: Floats) -> Floats:
    """(highest - lowest) / lowest over groups (groups, ...) -> (...,): infinite where only the lowest is 0."""
    low, high = skews.min(axis=0), skews.max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.where(high == low, 0.0, (high - low) / low)
    return ratio


def _difference(
    model: str, fixed: str, over: str, k: int, groups: Sequence[str], skews: Floats, by_chance: Floats
) -> RelativeDifference:
    value = float(relative_difference(skews))
    return RelativeDifference(
        model=model,
        fixed=fixed,
        over=over,
        k=k,
        highest=groups[int(np.argmax(skews))],
        lowest=groups[int(np.argmin(skews))],
        value=value,
        status=status_of(value),
        null_median=float(by_chance[0]),
        null_p95=float(by_chance[1]),
    )


def summaries(skews: Sequence[SkewRow]) -> list[SkewSummary]:
    """The distribution over subjects, per model, grouping and cut; infinite values (no share desired) count as such."""
    found: list[SkewSummary] = []
    for over, k, model in dict.fromkeys((row.over, row.k, row.model) for row in skews):
        rows = [row for row in skews if (row.over, row.k, row.model) == (over, k, model)]
        values = np.array([row.value for row in rows], dtype=np.float64)
        lowest, lower, median, upper, highest = (float(x) for x in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
        found.append(
            SkewSummary(
                model=model,
                over=over,
                k=k,
                mean=float(values.mean()),
                lowest=lowest,
                lower_quartile=lower,
                median=median,
                upper_quartile=upper,
                highest=highest,
                null_median=float(np.median([row.null_median for row in rows])),
                null_p95=float(np.median([row.null_p95 for row in rows])),
                beyond=sum(row.value is not None and row.value > row.null_p95 for row in rows),
                subjects=len(rows),
            )
        )
    return found
