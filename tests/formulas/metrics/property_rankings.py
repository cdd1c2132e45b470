"""The table's first part: metrics of rankings, of resampled rankings and of counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from property_inputs import (
    Rows,
    counts,
    eighths,
    galleries,
    resamples,
    searches,
    urns,
)
from property_laws import (
    UNDEFINED,
    Law,
    Metric,
    agrees,
    at_parity,
    between,
    copied,
    follows,
    holds,
    only_the_order,
    order_of,
    times,
)

from fairgate.formulas import metrics as m

IMAGES, QUERIES, GROUPS, DRAWS, ROWS = (order_of(axis) for axis in ("images", "queries", "groups", "draws", "rows"))
FIXED = order_of("fixed_groups")
RISING = only_the_order("scores")
RANKING = (IMAGES, QUERIES, GROUPS, RISING, UNDEFINED)
COPIED = copied("images")
FIRST_FOR_SECOND = follows(
    "first group for second", lambda _, g: (g.reordered("groups", [1, 0, *range(2, g.groups)]), np.negative)
)


def present(g: Rows) -> Any:
    return np.bincount(g.labels[g.labels >= 0], minlength=g.groups)


def most_skew(g: Rows) -> float:
    """One group alone in the top k, the rarest."""
    return float(-np.log(present(g).min() / present(g).sum()))


def whole(g: Rows) -> Rows:
    """The top k is the gallery."""
    return g.but(k=int(present(g).sum()))


def ranked(metric: Any) -> Any:
    return lambda g: metric(g.scores, g.labels, g.k, groups=g.groups)


def counted(g: Rows) -> Any:
    """Images per group in a top k with undefined ones among them, (groups, queries)."""
    top = g.labels[np.argsort(-g.scores, axis=1)[:, : g.k]]
    return np.array([(top == group).sum(axis=1) for group in range(g.groups)])


def within(ends_: Any, value: float) -> bool:
    return bool(ends_[0] - 1e-9 <= value <= ends_[1] + 1e-9)


def ends(found: m.TieRange) -> Any:
    return [found.lowest, found.highest]


def of_counts(scores: Any, labels: Any, k: int, *, groups: int) -> m.TieRange:
    return m.tie_range(partial(m.skew_of_counts, k=k), scores, labels, k, groups=groups, join="max")


RANGES: dict[str, tuple[str, Any]] = {
    "max_skew_at_k": ("tie_range", of_counts),
    "max_skew_at_k of options": ("skew_tie_range", partial(m.skew_tie_range, extreme="max")),
    "min_skew_at_k": ("skew_tie_range", partial(m.skew_tie_range, extreme="min")),
    "bias_at_k": ("bias_tie_range", m.bias_tie_range),
    "normalized_entropy_at_k": ("entropy_tie_range", m.entropy_tie_range),
}


def over_ties(name: str) -> Metric:
    """The exact range over tie-breaks: the same in every order, and around the value of every order."""
    metric = ranked(getattr(m, name.partition(" ")[0]))

    def check(draw: Any, range_: Metric, g: Rows) -> None:
        low, high = range_(g)
        order = np.array(draw(st.permutations(range(g.size("images")))))
        value = metric(g.reordered("images", order))
        assert (low - 1e-9 <= value).all()
        assert (value <= high + 1e-9).all()

    bias = name == "bias_at_k"
    return Metric(
        f"{RANGES[name][0]}, {name}",
        galleries(distinct=False),
        "ends queries",
        lambda g: ends(RANGES[name][1](g.scores, g.labels, g.k, groups=g.groups)),
        (IMAGES, QUERIES, RISING, *(() if bias else (GROUPS, UNDEFINED)), Law("every order lies within", check)),
    )


def written_out(of: Any) -> Law:
    """A metric of every resampled gallery is that of its images in a row: `of` (the top k, all, groups)."""

    def expected(g: Rows) -> Any:
        galleries_ = [np.repeat(g.labels, weight) for weight in g.weights]
        return [of(images[: g.k], images, g.groups) for images in galleries_]

    return agrees("images written out", expected)


def count(labels: Any, groups: int) -> Any:
    return np.bincount(labels, minlength=groups)


def null(g: Rows) -> Any:
    found = m.expected_max_skew(g.k, "dataset", g.present)
    return [found.mean, found.median, found.p95]


def first(g: Rows) -> Any:
    """The best positive of every query, so that there is one."""
    return np.argmax(np.where(g.positives, g.scores, -np.inf), axis=1)


def places(g: Rows) -> Any:
    """Its place in the ranking, 1 for the first."""
    order = np.argsort(-g.scores, axis=1, kind="stable")
    return np.argmax(order == first(g)[:, None], axis=1) + 1


def fair(g: Rows) -> Any:
    return m.fair_counts(g.present, g.k, 20, np.random.default_rng(0))


RANKINGS = [
    Metric(
        "skew_at_k",
        galleries(),
        "queries groups",
        ranked(m.skew_at_k),
        (*RANKING, COPIED, between(-np.inf, most_skew), at_parity(whole, 0.0)),
    ),
    Metric(
        "max_skew_at_k",
        galleries(),
        "queries",
        ranked(m.max_skew_at_k),
        (*RANKING, COPIED, between(0.0, most_skew), at_parity(whole, 0.0)),
    ),
    Metric(
        "min_skew_at_k",
        galleries(),
        "queries",
        ranked(m.min_skew_at_k),
        (*RANKING, COPIED, between(-np.inf, 0.0), at_parity(whole, 0.0)),
    ),
    Metric(  # without copies: longer prefixes stand nearer to parity
        "ndkl_at_k", galleries(), "queries", ranked(m.ndkl_at_k), (*RANKING, between(0.0, most_skew))
    ),
    Metric(  # undefined images take places, and other groups than the two do not count
        "bias_at_k",
        galleries(),
        "queries",
        ranked(m.bias_at_k),
        (
            *(IMAGES, QUERIES, RISING, COPIED, between(-1.0, 1.0), FIRST_FOR_SECOND),
            agrees("counts of the top k", lambda g: m.bias_of_counts(*counted(g)[:2])),
        ),
    ),
    Metric(
        "normalized_entropy_at_k",
        galleries(),
        "queries",
        ranked(m.normalized_entropy_at_k),
        (
            *(*RANKING, COPIED, between(0.0, 1.0)),
            at_parity(whole, lambda g: m.entropy_of_counts(np.tile(present(g), (g.size("queries"), 1)))),
        ),
    ),
    Metric(
        "tie_at_k",
        galleries(distinct=False),
        "queries",
        ranked(m.tie_at_k),
        (*RANKING, COPIED, at_parity(whole, False)),
    ),
    Metric(
        "ranking",
        galleries(),
        "queries places",
        ranked(m.ranking),
        (
            *(IMAGES, QUERIES, RISING),
            holds("best first", lambda g, order: np.diff(np.take_along_axis(g.scores, order, 1), axis=1) < 0),
            holds("the defined alone", lambda g, order: np.sort(order) == np.flatnonzero(g.labels >= 0)),
        ),
        names="images",
    ),
    over_ties("max_skew_at_k"),
    over_ties("max_skew_at_k of options"),
    over_ties("min_skew_at_k"),
    over_ties("bias_at_k"),
    over_ties("normalized_entropy_at_k"),
    Metric(
        "relative_difference",
        eighths("queries", "fixed_groups", low=1),
        "",
        lambda g: m.relative_difference(g.values),
        (
            *(QUERIES, FIXED, copied("queries"), times("values"), between(0.0, 7.0)),
            at_parity(lambda g: g.but(values=np.full_like(g.values, 0.25)), 0.0),
        ),
    ),
    Metric(
        "recall_at_k",
        searches(),
        "",
        lambda g: m.recall_at_k(g.scores, g.positives, g.k),
        (
            *(IMAGES, QUERIES, RISING, COPIED, copied("queries"), between(0.0, 1.0)),
            at_parity(lambda g: g.but(k=g.size("images")), 1.0),
        ),
    ),
    Metric(
        "found_at_k",
        searches(),
        "queries",
        lambda g: m.found_at_k(places(g), g.k),
        (
            *(IMAGES, QUERIES, between(0.0, 1.0), at_parity(lambda g: g.but(k=g.size("images")), 1.0)),
            holds("recall_at_k on average", lambda g, f: np.isclose(f.mean(), m.recall_at_k(g.scores, first(g), g.k))),
        ),
    ),
    Metric(
        "expected_max_skew",
        urns(),
        "numbers",
        null,
        (
            *(GROUPS, between(0.0, lambda g: -np.log(g.present.min() / g.present.sum()))),
            at_parity(lambda g: g.but(k=int(g.present.sum())), 0.0),
        ),
    ),
    Metric(
        "fair_counts",
        urns(),
        "draws groups",
        lambda g: m.fair_counts(g.present, g.k, 20, np.random.default_rng(0)),
        (between(0, lambda g: g.present), holds("k in all", lambda g, shown: shown.sum(axis=1) == g.k)),
    ),
    Metric(
        "fair_rankings",
        urns(),
        "draws places",
        lambda g: m.fair_rankings(fair(g), np.random.default_rng(1)),
        (holds("what was counted", lambda g, placed: [count(row, g.groups) for row in placed] == fair(g)),),
    ),
    Metric(
        "weighted_group_counts",
        resamples(),
        "draws groups",
        lambda g: m.weighted_group_counts(g.labels, g.weights, g.groups),
        (IMAGES, DRAWS, GROUPS, copied("images", grows=True), written_out(lambda _, all_, n: count(all_, n))),
    ),
    Metric(
        "counts_at_k_weighted",
        resamples(),
        "draws groups",
        lambda g: m.counts_at_k_weighted(g.labels, g.weights, g.k, groups=g.groups),
        (DRAWS, GROUPS, written_out(lambda top, _, n: count(top, n))),
    ),
    Metric(
        "ndkl_at_k_weighted",
        resamples(),
        "draws",
        lambda g: m.ndkl_at_k_weighted(g.labels, g.weights, g.k, groups=g.groups),
        (
            *(DRAWS, GROUPS, between(0.0, np.inf)),
            written_out(lambda top, all_, n: m.ndkl_of_ranking(top[None], count(all_, n) / all_.size)[0]),
        ),
    ),
    Metric(
        "skew_of_counts",
        counts(),
        "rows groups",
        lambda g: m.skew_of_counts(g.shown, g.present),
        (
            *(ROWS, GROUPS, times("shown"), times("present")),
            at_parity(lambda g: g.but(shown=2 * g.present[None]), 0.0),
        ),
    ),
    Metric(
        "bias_of_counts",
        counts(),
        "rows",
        lambda g: m.bias_of_counts(g.shown[:, 0], g.shown[:, 1]),
        (
            *(ROWS, times("shown"), between(-1.0, 1.0), FIRST_FOR_SECOND),
            at_parity(lambda g: g.but(shown=np.repeat(g.shown[:, :1], 2, axis=1)), 0.0),
        ),
    ),
    Metric(
        "entropy_of_counts",
        counts(),
        "rows",
        lambda g: m.entropy_of_counts(g.shown),
        (
            *(ROWS, GROUPS, times("shown"), between(0.0, 1.0)),
            at_parity(lambda g: g.but(shown=np.full_like(g.shown, 3)), 1.0),
        ),
    ),
    Metric(
        "ndkl_of_ranking",
        resamples(),
        "rows",
        lambda g: m.ndkl_of_ranking(
            np.stack([g.labels, g.labels[::-1]])[:, : g.k], count(g.labels, g.groups) / len(g.labels)
        ),
        (GROUPS, between(0.0, lambda g: -np.log(count(g.labels, g.groups).min() / len(g.labels)))),
    ),
]
