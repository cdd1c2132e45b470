"""Whom each model's searches show: MaxSkew@K over subjects, marginal and intersectional (paper 3, figure 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairgate import records
from fairgate.formulas import metrics
from fairgate.formulas.statistics import bootstrap
from fairgate.ground.errors import MetricError
from fairgate.metrics import WORDS_SHARE_SETS, Floats
from fairgate.probes import Probe, ProbeScores
from fairgate.studies.comparison.answers import Answers, AuditData, share_limits
from fairgate.suites import Check, PlannedCheck, decide


@dataclass(frozen=True, slots=True)
class RankingCut:
    """Where rankings are cut, and what shares they are held against."""

    k: int
    desired: Literal["dataset", "uniform"]


@dataclass(frozen=True, slots=True)
class _Gallery:
    """The images that one query ranks, under one grouping: `rows` of the dataset and their `codes` of `names`.

    `answers` are every model's similarities to the query, of all rows of the dataset.
    """

    query: str
    answers: Answers
    rows: NDArray[np.int64]
    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @property
    def present(self) -> tuple[int, ...]:
        """Images per group."""
        return tuple(np.bincount(self.codes, minlength=len(self.names)).tolist())

    def scores(self, model: str) -> Floats:
        """One model's similarities (1, images)."""
        return self.answers[model].value[self.rows][None, :]

    def max_skew(self, model: str, cut: RankingCut) -> tuple[float, str]:
        """MaxSkew@K of one model's ranking, and the group that has it."""
        groups = len(self.names)
        skews = metrics.skew_at_k(self.scores(model), self.codes, cut.k, groups=groups, desired=cut.desired)[0]
        return float(skews.max()), self.names[int(np.argmax(skews))]


def compare_ranking(
    data: AuditData,
    name: str,
    digest: str,
    kind: Literal["retrieval", "association"],
    queries: Mapping[str, Answers],
    cuts: Sequence[RankingCut],
) -> records.RetrievalAudit:
    """MaxSkew of every model, query and grouping at every cut.

    `queries` are the words of an association, for which all images compete, or subjects, for which their own do.
    """
    fair = cache(metrics.expected_max_skew)  # galleries of equal groups share one null
    everything = np.arange(len(data.index.subject), dtype=np.int64)
    rows_of = {
        query: everything if kind == "association" else np.flatnonzero(data.index.subject == query) for query in queries
    }
    skews: list[records.SkewRow] = []
    refusals: list[records.Refusal] = []
    for cut in cuts:
        for grouping in data.groupings:
            over = records.CROSS.join(grouping)
            codes, names = data.index.codes(grouping)
            for query, answers in queries.items():
                rows = rows_of[query]
                gallery = _Gallery(query, answers, rows, np.asarray(codes, dtype=np.int64)[rows], tuple(names))
                try:
                    skews += _skews(gallery, over, cut, fair)
                except MetricError as error:
                    what = f"MaxSkew@{cut.k} of {gallery.query} over {over}"
                    refusals.append(records.Refusal(what=what, over=over, reason=error.problem))
    return records.RetrievalAudit(
        kind=kind,
        name=name,
        digest=digest,
        skews=skews,
        summaries=summaries(skews),
        refusals=refusals,
    )


def _skews(
    gallery: _Gallery, over: str, cut: RankingCut, fair: Callable[..., metrics.NullSkew]
) -> Iterator[records.SkewRow]:
    null = fair(cut.k, cut.desired, gallery.present)
    for model in gallery.answers:
        value, favoured = gallery.max_skew(model, cut)
        tied = metrics.tie_at_k(gallery.scores(model), gallery.codes, cut.k, groups=len(gallery.names))[0]
        yield records.SkewRow(
            model=model,
            subject=gallery.query,
            over=over,
            k=cut.k,
            value=value,
            status=records.status_of(value),
            favoured=favoured,
            null_median=null.median,
            null_p95=null.p95,
            tied=bool(tied),
        )


def recalls(data: AuditData, probe: str, answers: Answers, ks: Sequence[int]) -> list[records.RecallRow]:
    """R@K of every model; none where there is but one subject to find, or a k that finds every one."""
    set_code = np.unique(data.index.set_id, return_inverse=True)[1]
    rows = []
    for k in ks:
        for model, scores in answers.items():
            if scores.rank is None or k >= len(data.subjects):
                continue
            rng, rule = data.random("recall", probe, k), data.suite.decision
            recall = bootstrap(metrics.found_at_k(scores.rank, k), set_code, rng, rule.draws, alpha=rule.alpha)
            n_sets = int(set_code.max()) + 1
            lo, hi = share_limits(recall.estimate, recall.lo, recall.hi, n_sets, rule.alpha)
            rows.append(records.RecallRow(model=model, k=k, value=recall.estimate, lo=lo, hi=hi, n_sets=n_sets))
    return rows


def with_limits(
    data: AuditData,
    name: str,
    probe: Probe,
    cuts: Sequence[RankingCut],
    scores: Mapping[str, Mapping[str, ProbeScores]],
    means: Sequence[records.SkewSummary],
) -> list[records.SkewSummary]:
    """The summaries with limits of their means, which a check of `max_skew_at_k` over all subjects has; no group is too
    small for it here, as none is for the mean. `scores` are every model's answers by their names."""
    words = probe.ranked_words
    if len(words) > 1:
        return [row.model_copy(update={"interval": WORDS_SHARE_SETS}) for row in means]
    suite, index = data.suite, data.index
    suite = suite.model_copy(update={"groups": suite.groups.model_copy(update={"min_sets": 1})})
    clusters = not data.counterfactual and len(np.unique(index.set_id)) < len(index.set_id)
    checks = [
        Check(id="mean", probe=name, metric="max_skew_at_k", k=cut.k, desired=cut.desired, over="each", at_most=0)
        for cut in cuts
    ]
    planned = [
        PlannedCheck(check, None, (grouping,), name, words, probe=probe, clusters=clusters)
        for check, grouping in product(checks, data.groupings)
    ]
    limits = {
        (model, result.over, result.k, _rounded(result.value)): result.model_dump(include={"lo", "hi", "interval"})
        for model, answers in scores.items()
        for result in decide(planned, index, suite, answers, {}, {})
        if result.verdict != "error"
    }
    return [row.model_copy(update=limits.get((row.model, row.over, row.k, _rounded(row.mean)), {})) for row in means]


def _rounded(value: float | None) -> float | None:
    """What two sums of the same numbers have in common."""
    return None if value is None else round(value, 9)


_FIVE = ("lowest", "lower_quartile", "median", "upper_quartile", "highest")


def summaries(skews: Sequence[records.SkewRow]) -> list[records.SkewSummary]:
    """The distribution over subjects, per model, grouping and cut; infinite values (no share desired) count as such."""
    summary_rows: list[records.SkewSummary] = []
    for over, k, model in dict.fromkeys((row.over, row.k, row.model) for row in skews):
        rows = [row for row in skews if (row.over, row.k, row.model) == (over, k, model)]
        values = np.array([row.value for row in rows], dtype=np.float64)
        five = dict(zip(_FIVE, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))
        summary_rows.append(
            records.SkewSummary(
                model=model,
                over=over,
                k=k,
                mean=float(values.mean()),
                **five,
                null_median=float(np.median([row.null_median for row in rows])),
                null_p95=float(np.median([row.null_p95 for row in rows])),
                beyond=sum(row.value is not None and row.value > row.null_p95 for row in rows),
                subjects=len(rows),
            )
        )
    return summary_rows
