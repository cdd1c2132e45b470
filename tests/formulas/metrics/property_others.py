"""The table's second part: sets, tables over groups, associations and embeddings."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from hypothesis import strategies as st
from property_inputs import (
    Array,
    Draw,
    Rows,
    classified,
    complete_sets,
    eighths,
    galleries,
    labelled,
    losses,
    neighbourhoods,
    pairs_of_boxes,
    spread_galleries,
    targets,
)
from property_laws import (
    UNDEFINED,
    Metric,
    affine,
    agrees,
    at_parity,
    between,
    copied,
    follows,
    holds,
    only_the_order,
    order_of,
    unchanged,
)

from fairgate.formulas import metrics as m

IMAGES, QUERIES, GROUPS, SETS, MEMBERS, WORDS = (
    order_of(axis) for axis in ("images", "queries", "groups", "sets", "members", "words")
)
LABELS, SYNTHETIC = order_of("labels"), order_of("synthetic")


def kept(answer: Array, a: float, b: float) -> Array:
    return answer


def scaled(answer: Array, a: float, b: float) -> Array:
    return a * answer


def spread(answer: Array, a: float, b: float) -> Array:
    return abs(a) * answer


def mapped(answer: Array, a: float, b: float) -> Array:
    return a * answer + b


def signed(answer: Array, a: float, b: float) -> Array:
    return np.sign(a) * answer


def alike(value: float) -> Any:
    return lambda g: g.but(values=np.full_like(g.values, value))


def mirrored(answer: Array) -> Array:
    return 1.0 - answer


def swapped(g: Rows, one: str, other: str) -> Rows:
    return g.but(**{one: g.fields[other], other: g.fields[one]})


def known(g: Rows) -> Any:
    return g.values[g.labels >= 0]


def lowest(g: Rows) -> float:
    return float(known(g).min())


def highest(g: Rows) -> float:
    return float(known(g).max())


def in_sets(g: Rows) -> m.ImplicitAssociation:
    return m.implicit_association(g.values, g.labels, groups=g.groups, sets=g.member_of)


def in_other_scenes(draw: Draw, g: Rows) -> Rows:
    """The whole set scores otherwise, within 0 to 1."""
    shift = np.array(draw(st.lists(st.integers(0, 8), min_size=g.sets, max_size=g.sets))) / 8.0
    return g.but(values=(g.values + shift[g.member_of]) / 2.0)


def share(kind: str) -> Any:
    return lambda g: getattr(m.neighbour_shares(g.real, g.real_group, g.synthetic, g.target_group, k=g.k), kind)


def accepted(g: Rows, tau: float = 0.3) -> Any:
    return m.knn_accept(g.real, g.real_group, g.synthetic, g.target_group, k=g.k, tau_real=tau, tau_group=0.25)


def _shares_that_fit(perceived: Array, confusion: Array) -> Array:
    """By the inverse of the rates, clipped."""
    rates = confusion / confusion.sum(axis=1, keepdims=True)
    found = np.maximum(perceived @ np.linalg.inv(rates), 0.0)
    return found / found.sum(axis=1, keepdims=True)


NEIGHBOURS = (SYNTHETIC, order_of("real"), GROUPS, affine("real", "synthetic", to=kept))
BY_GROUP = (IMAGES, GROUPS, copied("images"), UNDEFINED)


def of_sums(g: Rows) -> Any:
    defined = g.labels >= 0
    scores, member = g.scores[:, defined].astype(float), g.labels[defined, None] == np.arange(g.groups)
    return m.c_asc_of_sums(
        scores @ member,
        member.sum(axis=0),
        np.square(scores).sum(axis=1, keepdims=True),
        images=scores.shape[1],
        total=scores.sum(axis=1, keepdims=True),
        ddof=0,  # 1 would tell copies apart
    )


def _counted_pixels(g: Rows) -> list[float]:
    """Pixels of a grid that lie in both boxes, over those that lie in either."""
    down, across = np.mgrid[0:10, 0:10]

    def inside(box: Array) -> Array:
        left, top, right, bottom = box
        return (across >= left) & (across < right) & (down >= top) & (down < bottom)

    pairs = [(inside(box), inside(other)) for box, other in zip(g.boxes, g.others, strict=True)]
    return [float((one & other).sum() / (one | other).sum()) for one, other in pairs]


def by_class(g: Rows) -> tuple[Array, Array, Array]:
    """Hits, given and actual images of every class."""
    codes = (g.true[g.true == g.predicted], g.predicted, g.true)
    hits, given, actual = (np.bincount(one, minlength=g.classes) for one in codes)
    return hits, given, actual


def of_classes(value: Any) -> Any:
    """A number of a class that is nowhere, NaN, as one half: laws compare numbers."""
    return lambda g: np.nan_to_num(value(*by_class(g)), nan=0.5)


def largest_effect(x: int, y: int) -> float:
    """Of so many targets: the squares between them are x y / (x + y) difference^2 of all, (x + y - 1) deviation^2."""
    return ((x + y) * (x + y - 1) / (x * y)) ** 0.5


OTHERS = [
    Metric(
        "f1_by_label",
        classified(),
        "classes",
        of_classes(m.f1_by_label),
        (IMAGES, order_of("classes"), copied("images"), between(0.0, 1.0)),
    ),
    Metric(
        "macro_f1",
        classified(),
        "",
        of_classes(m.macro_f1),
        (
            *(IMAGES, order_of("classes"), copied("images"), between(0.0, 1.0)),
            agrees(
                "the mean of the classes that are somewhere",
                lambda g: np.nanmean(m.f1_by_label(*by_class(g))),
            ),
        ),
    ),
    Metric(
        "balanced_accuracy",
        classified(),
        "",
        of_classes(lambda hits, _, actual: m.balanced_accuracy(hits, actual)),
        (
            *(IMAGES, order_of("classes"), copied("images"), between(0.0, 1.0)),
            agrees(
                "the mean accuracy of the images of each class",
                lambda g: np.mean([np.mean(g.predicted[g.true == one] == one) for one in np.unique(g.true)]),
            ),
        ),
    ),
    Metric(
        "softmax_probability",
        eighths("images", "labels"),
        "images labels",
        lambda g: np.stack([m.softmax_probability(g.values, code, scale=4.0) for code in range(g.size("labels"))], 1),
        (
            *(IMAGES, LABELS, between(0.0, 1.0)),
            unchanged("a shift of the logits", lambda _, g: g.but(values=g.values + 100.0)),
            holds("probabilities of all labels", lambda _, p: np.isclose(p.sum(axis=1), 1.0)),
            agrees(
                "one column per image",
                lambda g: [
                    m.softmax_probability(np.tile(4.0 * row, (row.size, 1)), np.arange(row.size)) for row in g.values
                ],
            ),
            at_parity(alike(0.5), lambda g: 1.0 / g.size("labels")),
        ),
    ),
    Metric(
        "set_std",
        eighths("sets", "members", least=2),
        "sets",
        lambda g: m.set_std(g.values),
        (SETS, MEMBERS, affine("values", to=spread), between(0.0, 0.5**0.5), at_parity(alike(0.25), 0.0)),
    ),
    Metric(
        "fairness",
        eighths("sets", "members", least=2),
        "",
        lambda g: m.fairness(g.values),
        (SETS, MEMBERS, copied("sets"), between(1.0 - 0.5**0.5, 1.0), at_parity(alike(0.25), 1.0)),
    ),
    Metric(
        "fairness_of_spreads",
        eighths("sets"),
        "",
        lambda g: m.fairness_of_spreads(g.values),
        (
            *(SETS, copied("sets"), affine("values", to=lambda f, a, b: 1.0 - a * (1.0 - f) - b)),
            *(between(0.0, 1.0), at_parity(alike(0.0), 1.0)),
        ),
    ),
    Metric(
        "set_deviation",
        eighths("sets", "members", least=2),
        "sets members",
        lambda g: m.set_deviation(g.values),
        (
            *(SETS, MEMBERS, affine("values", to=scaled), between(-1.0, 1.0), at_parity(alike(0.25), 0.0)),
            holds("nothing in sum", lambda _, deviation: np.isclose(deviation.sum(axis=1), 0.0)),
        ),
    ),
    Metric(
        "accuracy_by_group",
        labelled(binary=True),
        "groups",
        lambda g: m.accuracy_by_group(g.values, g.labels, g.groups).accuracy,
        (
            *(*BY_GROUP, between(0.0, 1.0), at_parity(alike(1.0), 1.0)),
            follows("wrong for right", lambda _, g: (g.but(values=1.0 - g.values), mirrored)),
        ),
    ),
    Metric(
        "misclassification_table",
        classified(),
        "groups classes predictions",
        lambda g: m.misclassification_table(g.predicted, g.true, g.labels, g.groups, g.classes),
        (
            *(IMAGES, GROUPS, copied("images", grows=True)),
            holds("every image once", lambda g, table: table.sum() == (g.labels >= 0).sum()),
            follows("true for predicted", lambda _, g: (swapped(g, "true", "predicted"), lambda t: t.swapaxes(1, 2))),
            holds(
                "rows are true classes",
                lambda g, table: table.sum(axis=(0, 2)) == np.bincount(g.true[g.labels >= 0], minlength=g.classes),
            ),
        ),
    ),
    Metric(
        "group_means",
        labelled(),
        "groups",
        lambda g: m.group_means(g.values, g.labels, g.groups).mean,
        (*BY_GROUP, affine("values", to=mapped), between(lowest, highest), at_parity(alike(0.25), 0.25)),
    ),
    Metric(
        "by_set_and_group",
        labelled(),
        "sets groups",
        lambda g: m.by_set_and_group(g.values, g.member_of, g.labels, n_sets=g.sets, groups=g.groups),
        (*BY_GROUP, SETS, affine("values", to=mapped), between(lowest, highest)),
    ),
    Metric(
        "c_asc",
        spread_galleries(),
        "queries groups",
        lambda g: m.c_asc(g.scores, g.labels, groups=g.groups, ddof=0),  # ddof=1 would tell copies apart
        (*BY_GROUP, QUERIES, affine("scores", to=signed)),
    ),
    Metric(
        "c_asc_of_sums",
        spread_galleries(),
        "queries groups",
        of_sums,
        (*BY_GROUP, QUERIES, agrees("c_asc", lambda g: m.c_asc(g.scores, g.labels, groups=g.groups, ddof=0))),
    ),
    Metric(
        "top_k_similarity",
        galleries(distinct=False),
        "queries",
        lambda g: m.top_k_similarity(g.scores, g.k),
        (
            *(IMAGES, QUERIES, copied("images"), affine("scores", to=mapped, negative=False)),
            between(lambda g: g.scores.mean(axis=1), lambda g: g.scores.max(axis=1)),
        ),
    ),
    Metric(
        "word_strength",
        eighths("words"),
        "words",
        lambda g: m.word_strength(g.values, [0.125, 0.5, 0.5, 1.0]),
        (WORDS, between(0.0, 1.0), at_parity(alike(1.0), 1.0)),
    ),
    Metric(
        "association",
        losses(),
        "",
        lambda g: m.association(g.a, g.b),
        (
            *(IMAGES, order_of("of a"), order_of("of b"), copied("images"), only_the_order("a", "b")),
            *(between(0.0, 1.0), at_parity(lambda g: g.but(a=g.a * 0.0, b=g.b * 0.0), 0.5)),
            follows("a for b", lambda _, g: (swapped(g, "a", "b"), mirrored)),
        ),
    ),
    Metric(
        "association, soft",
        losses(),
        "",
        lambda g: m.association(g.a, g.b, soft=True),
        (
            *(IMAGES, order_of("of a"), order_of("of b"), copied("images"), between(0.0, 1.0)),
            unchanged("a shift of the losses", lambda _, g: g.but(a=g.a + 3.0, b=g.b + 3.0)),
            follows("a for b", lambda _, g: (swapped(g, "a", "b"), mirrored)),
        ),
    ),
    Metric(
        "pair_choices",
        losses(),
        "images of_a of_b",
        lambda g: m.pair_choices(g.a, g.b),
        (
            *(IMAGES, only_the_order("a", "b"), between(0.0, 1.0)),
            at_parity(lambda g: g.but(a=g.a * 0.0, b=g.b * 0.0), 0.5),
            holds("association is its mean", lambda g, found: np.isclose(found.mean(), m.association(g.a, g.b))),
        ),
    ),
    Metric(
        "differential_association",
        eighths("pairs", least=2),
        "",
        lambda g: m.differential_association(*g.values[:2]),
        (
            *(between(-1.0, 1.0), at_parity(alike(0.75), 0.0)),
            follows("x for y", lambda _, g: (g.but(values=g.values[:2][::-1]), np.negative)),
        ),
    ),
    Metric(
        "implicit_association",
        labelled(),
        "groups",
        lambda g: m.implicit_association(g.values, g.labels, groups=g.groups).mean,
        (*BY_GROUP, between(lowest, highest), at_parity(alike(0.5), 0.5)),
    ),
    Metric(
        "implicit_association, within sets",
        complete_sets(),
        "groups",
        lambda g: in_sets(g).within_sets,
        (
            *(IMAGES, GROUPS, SETS, copied("images"), UNDEFINED),
            *(between(-1.0, 1.0), at_parity(alike(0.5), 0.0)),
            follows("other scenes", lambda draw, g: (in_other_scenes(draw, g), lambda answer: answer / 2.0)),
        ),
    ),
    Metric(
        "effect_size",
        targets(),
        "",
        lambda g: m.effect_size(g.x, g.y),
        (
            *(order_of("of x"), order_of("of y"), affine("x", "y", to=signed)),
            between(lambda g: -largest_effect(g.x.size, g.y.size), lambda g: largest_effect(g.x.size, g.y.size)),
            at_parity(lambda g: g.but(x=np.array([0.0, 1.0]), y=np.array([1.0, 0.0])), 0.0),
            follows("x for y", lambda _, g: (swapped(g, "x", "y"), np.negative)),
        ),
    ),
    Metric(
        "permutation_p",
        targets(),
        "",
        lambda g: m.permutation_p(g.x, g.y),
        (
            *(order_of("of x"), order_of("of y"), between(lambda g: 1 / comb(g.x.size + g.y.size, g.x.size), 1.0)),
            affine("x", "y", to=kept, negative=False),
            at_parity(lambda g: g.but(y=np.full_like(g.y, 0.5), x=np.full_like(g.x, 0.5)), 1.0),
        ),
    ),
    Metric(
        "permutation_p_of_groups",
        targets(),
        "groups",
        lambda g: m.permutation_p_of_groups(
            np.r_[g.x, g.y],
            [np.r_[np.ones(g.x.size), np.zeros(g.y.size)], np.r_[np.zeros(g.x.size), np.ones(g.y.size)]],
            rng=np.random.default_rng(0),
            draws=99,
        ),
        (
            *(between(1 / 100, 1.0), affine("x", "y", to=kept)),
            at_parity(lambda g: g.but(y=np.full_like(g.y, 0.5), x=np.full_like(g.x, 0.5)), 1.0),
        ),
    ),
    Metric(
        "intersection_over_union",
        pairs_of_boxes(),
        "pairs",
        lambda g: m.intersection_over_union(g.boxes, g.others),
        (
            *(order_of("pairs"), between(0.0, 1.0), at_parity(lambda g: g.but(others=g.boxes), 1.0)),
            unchanged("one for the other", lambda _, g: swapped(g, "boxes", "others")),
            unchanged("a move of both", lambda _, g: g.but(boxes=g.boxes + 3.0, others=g.others + 3.0)),
            unchanged("larger pixels", lambda _, g: g.but(boxes=g.boxes * 4.0, others=g.others * 4.0)),
            agrees("pixels counted", _counted_pixels),
        ),
    ),
    Metric(
        "neighbour_shares, of real images",
        neighbourhoods(),
        "synthetic",
        share("real"),
        (*NEIGHBOURS, between(0.0, 1.0)),
    ),
    Metric(
        "neighbour_shares, of the own group",
        neighbourhoods(),
        "synthetic",
        share("group"),
        (*NEIGHBOURS, between(0.0, 1.0)),
    ),
    Metric(
        "knn_accept",
        neighbourhoods(),
        "synthetic",
        accepted,
        (
            *NEIGHBOURS,
            agrees("the two shares", lambda g: (share("real")(g) > 0.3) & (share("group")(g) > 0.25)),
            holds("a higher bar accepts no other", lambda g, yes: yes | ~accepted(g, 0.6)),
        ),
    ),
    Metric(
        "mutual_information",
        eighths("images", "dim", least=2),
        "dim",
        lambda g: m.mutual_information(g.values, np.arange(len(g.values)) % 2, bins=9),
        (order_of("dim"), between(0.0, np.log(2))),
    ),
    Metric(
        "corrected_change",
        eighths("images", "groups", low=-8),
        "images groups",
        lambda g: m.corrected_change(g.values, [[9, 1], [3, 7]]),
        (
            *(IMAGES, GROUPS, between(-1.0, 1.0)),
            agrees(
                "the difference of shares over that of the reader's rates", lambda g: np.clip(g.values / 0.6, -1, 1)
            ),
            holds("no change where none is perceived", lambda g, change: (change == 0) == (g.values == 0)),
        ),
    ),
    Metric(
        "corrected_shares",
        eighths("images", "groups", least=2),
        "images groups",
        lambda g: m.corrected_shares(g.values + 1, np.eye(g.size("groups")) + 0.1).shares,
        (
            *(IMAGES, GROUPS, between(0.0, 1.0)),
            holds("shares that add up to 1", lambda _, shares: np.isclose(shares.sum(axis=1), 1.0)),
            agrees(
                "the shares that this reader turns into what is perceived",
                lambda g: _shares_that_fit(g.values + 1, np.eye(g.size("groups")) + 0.1),
            ),
        ),
    ),
    Metric(
        "share_distance",
        eighths("images", "groups", least=2),
        "images",
        lambda g: m.share_distance(g.values + 1, np.ones(g.size("groups"))),
        (
            *(IMAGES, GROUPS, between(0.0, 1.0)),
            agrees(
                "the shares above the wanted ones",
                lambda g: np.maximum(
                    (g.values + 1) / (g.values + 1).sum(axis=1, keepdims=True) - 1 / g.size("groups"), 0
                ).sum(axis=1),
            ),
            at_parity(alike(3.0), 0.0),
        ),
    ),
]
