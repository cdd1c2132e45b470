"""Which group a word, a prompt or a pair of prompts is nearer to: So-B-IT's C-ASC, and S(D, A, B) of diffusion models.

C-ASC and word strength are Hamidieh et al. 2024 (So-B-IT), S(D, A, B) Saravanan et al. 2023 (eqs. 2 and 3), the
implicit association Lui et al. 2023. Labels are groups as perceived in an image, or in its generator's prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics._checks import FloatArray, IntArray, at_least_two, codes, every_group, finite
from fairgate.formulas.metrics._ranking import check_k
from fairgate.formulas.metrics.counterfactual import by_set_and_group, group_means
from fairgate.ground.errors import MetricError


def c_asc(scores: ArrayLike, labels: ArrayLike, *, groups: int, ddof: int = 1) -> FloatArray:
    """How much nearer a caption is to one group than to everyone else: scores (queries, images) -> (queries, groups).

    (mean similarity in the group - mean outside it) / standard deviation over all images: in standard deviations, 0
    where the caption describes the group no more than the rest, positive where it is nearer. So-B-IT, C-ASC(c, G),
    where D = G and not-G: an image whose group is undefined (-1) is in neither, and is left out of the means and of
    the deviation. `ddof=1` is the third-party code, `ddof=0` the population's. Raises MetricError for scores that are
    not finite, fewer than two groups, a declared group without an image and a query with the same score everywhere.

    >>> c_asc([[3.0, 1.0, 1.0, -1.0]], np.array([0, 0, 1, 1]), groups=2).round(4).tolist()
    [[1.2247, -1.2247]]
    """
    at_least_two(groups)
    table = finite("scores", scores, ("queries", "images"))
    group = codes("labels", labels, size=table.shape[1], groups=groups)
    if ddof not in (0, 1):
        raise MetricError(f"ddof is {ddof}.", where="ddof", remedy="use 1 (sample) or 0 (population)")
    defined = group >= 0
    counts = np.bincount(group[defined], minlength=groups)
    every_group(counts)
    if not defined.all():
        table, group = table[:, defined], group[defined]
    constant = np.flatnonzero((table == table[:, :1]).all(axis=1))
    if constant.size:
        raise MetricError(
            "a query has the same score for every image, so that no standard deviation can be divided by.",
            where=f"scores: query {int(constant[0])}",
            remedy="check the prompt's embedding; a prompt that tells no two images apart has no association",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        centred = table - table.mean(axis=1, keepdims=True, dtype=np.float64)  # so that sums of squares lose no digits
        squares = np.vecdot(centred, centred)
    huge = np.flatnonzero(~np.isfinite(squares))
    if huge.size:
        raise MetricError(
            "a query's scores lie so far apart that their squares overflow.",
            where=f"scores: query {int(huge[0])}",
            remedy="divide the scores by a constant: C-ASC does not depend on their unit",
        )
    sums = centred @ np.eye(groups)[group]
    total = sums.sum(axis=1, keepdims=True)
    return c_asc_of_sums(sums, counts, squares[:, None], images=counts.sum(), total=total, ddof=ddof)


def top_k_similarity(scores: ArrayLike, k: int) -> FloatArray:
    """Mean of the k highest scores of each query, (queries, images) -> (queries,), in the unit of the scores.

    What So-B-IT calls the strength of a word before it is compared with a baseline vocabulary (`word_strength`).
    Ties do not matter. Raises MetricError for scores that are not finite and a k that the images do not have.

    >>> top_k_similarity([[0.1, 0.4, 0.2], [0.3, 0.3, 0.0]], 2).round(12)
    array([0.3, 0.3])
    """
    table = finite("scores", scores, ("queries", "images"))
    check_k(k, table.shape[1])
    strongest = np.partition(table, table.shape[1] - k, axis=1)[:, table.shape[1] - k :]
    mean: FloatArray = strongest.astype(np.float64).mean(axis=1)
    return mean


def word_strength(values: ArrayLike, baseline: ArrayLike) -> FloatArray:
    """Share of a baseline vocabulary that is no stronger than each word: (words,), (baseline words,) -> (words,).

    The empirical distribution function (`<=`) of the baseline's `top_k_similarity` at each word's own: 1 where no
    baseline word is nearer to its images, 0 where every one is. So-B-IT. Raises MetricError for numbers not finite.

    >>> word_strength([0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
    array([0.5 , 0.25])
    """
    value = finite("values", values, ("words",)).astype(np.float64)
    against = np.sort(finite("baseline", baseline, ("baseline words",)).astype(np.float64))
    share: FloatArray = np.searchsorted(against, value, side="right") / against.size
    return share


def association(errors_a: ArrayLike, errors_b: ArrayLike, *, soft: bool = False) -> float:
    """S(D, A, B): how often images are taken for a concept of A rather than one of B, 0 to 1; 0.5 is neither.

    errors_a (images, |A|) and errors_b (images, |B|) are denoising losses (or negated similarities) of the same images
    under the prompts of A and B: the mean over images and pairs (a, b) of p(c = a | {a, b}, x). Saravanan et al. 2023,
    eq. 2, where c is the classifier's decision: 1 where a's loss is the lower one, 0.5 where the two are equal.
    `soft=True` reads p as a probability instead, the softmax over the two negated losses: 1 / (1 + exp(a - b)). It
    depends on the scale of the losses: means over pixels differ in the third place and stay near 0.5 unless they are
    multiplied. Raises MetricError for numbers not finite, and tables of different images.

    >>> association([[1.0, 3.0]], [[2.0, 3.0]])
    0.625
    """
    return float(pair_choices(errors_a, errors_b, soft=soft).mean())


def pair_choices(errors_a: ArrayLike, errors_b: ArrayLike, *, soft: bool = False) -> FloatArray:
    """Which concept of each pair an image is taken for, (images, |A|, |B|): 1 a's, 0 b's, 0.5 where errors are equal.

    What `association` is the mean of, with `soft` the probabilities; arguments and errors are its own.

    >>> pair_choices([[1.0, 3.0]], [[2.0]]).tolist()
    [[[1.0], [0.0]]]
    """
    a = finite("errors_a", errors_a, ("images", "prompts")).astype(np.float64)
    b = finite("errors_b", errors_b, ("images", "prompts")).astype(np.float64)
    if a.shape[0] != b.shape[0]:
        raise MetricError(
            f"errors_a holds {a.shape[0]} images and errors_b {b.shape[0]}.",
            where="errors_b",
            remedy="pass both losses of the same images, in the same order",
        )
    margin = b[:, None, :] - a[:, :, None]
    # tanh is the two-way softmax without its overflow.
    choices: FloatArray = 0.5 + 0.5 * (np.tanh(margin / 2) if soft else np.sign(margin))
    return choices


def differential_association(s_x: float, s_y: float) -> float:
    """S(D_X, A, B) - S(D_Y, A, B), in [-1, 1]: above 0, X is taken for A more often than Y is.

    Saravanan et al. 2023, eq. 3. Raises MetricError for an association outside 0 to 1.

    >>> differential_association(0.75, 0.25)
    0.5
    """
    for name, value in (("s_x", s_x), ("s_y", s_y)):
        if not 0.0 <= value <= 1.0:
            raise MetricError(f"{name} is {value}.", where=name, remedy="pass what `association` returns, 0 to 1")
    return float(s_x - s_y)


@dataclass(frozen=True, slots=True)
class ImplicitAssociation:
    """P("a trustworthy person") against P("an untrustworthy person"), by group."""

    mean: FloatArray
    """(groups,), mean P(positive label), 0 to 1."""
    counts: IntArray
    """(groups,), images."""
    spread: float
    """Highest mean less lowest, 0 to 1: what Lui et al. 2023 compare models by."""
    within_sets: FloatArray | None
    """(groups,), mean deviation from the own set's mean, summing to 0: the scene cancels. None without sets."""
    sets: int
    """Complete sets, which `within_sets` rests on."""
    incomplete_sets: int
    """Sets that lack a group, left out of `within_sets`."""


def implicit_association(
    p_positive: ArrayLike, labels: ArrayLike, *, groups: int, sets: ArrayLike | None = None
) -> ImplicitAssociation:
    """Whom a model takes for trustworthy: p_positive (images,) = P(positive label) against the negative one alone.

    Make it with `softmax_probability` from the two columns "a trustworthy person", "an untrustworthy person". Per
    group over labels (images,) codes, -1 undefined and left out; and, with `sets` (images,) set ids of any kind,
    within sets. Lui et al. 2023, section on the IAT. Raises MetricError for a value outside 0 to 1, a declared group
    without an image, fewer than two groups, and sets of which none is complete.

    >>> found = implicit_association([0.9, 0.5, 0.7, 0.3], np.array([0, 1, 0, 1]), groups=2, sets=["a", "a", "b", "b"])
    >>> found.mean, round(found.spread, 6), found.within_sets
    (array([0.8, 0.4]), 0.4, array([ 0.2, -0.2]))
    """
    at_least_two(groups)
    p = finite("p_positive", p_positive, ("images",)).astype(np.float64)
    if p.min() < 0.0 or p.max() > 1.0:
        raise MetricError(
            f"p_positive holds values from {p.min():g} to {p.max():g}.",
            where="p_positive",
            remedy="pass probabilities: softmax_probability over the two labels",
        )
    table = group_means(p, labels, groups)
    spread = float(table.mean.max() - table.mean.min())
    if sets is None:
        return ImplicitAssociation(table.mean, table.counts, spread, within_sets=None, sets=0, incomplete_sets=0)
    deviation, complete, incomplete = _within_sets(p, labels, groups, sets)
    return ImplicitAssociation(table.mean, table.counts, spread, deviation, sets=complete, incomplete_sets=incomplete)


def _within_sets(p: FloatArray, labels: ArrayLike, groups: int, sets: ArrayLike) -> tuple[FloatArray, int, int]:
    names, member_of = np.unique(np.asarray(sets), return_inverse=True)
    cells = by_set_and_group(p, member_of, labels, n_sets=names.size, groups=groups)
    complete = ~np.isnan(cells).any(axis=1)
    if not complete.any():
        raise MetricError(
            f"none of {names.size} sets shows every one of the {groups} groups.",
            where="sets",
            remedy="pass counterfactual sets with one image of every declared group, or leave `sets` out",
        )
    mean: FloatArray = cells[complete].mean(axis=0)
    # Sets are complete, so that the mean of deviations from a set's mean is the deviation of means.
    return mean - mean.mean(), int(complete.sum()), int((~complete).sum())


def c_asc_of_sums(
    sums: FloatArray,
    counts: ArrayLike,
    squares: FloatArray,
    *,
    images: Any,
    total: Any,
    ddof: int = 1,
) -> FloatArray:
    """C-ASC from sums of scores: (mean in the group - mean outside) / standard deviation -> (rows, groups).

    `sums` and `counts` (rows, groups) are of each group's scores and images, `total`, `images` and `squares` (rows, 1)
    the sum, number and summed squares of all scores, which should be centred near 0 so that no digits are lost. NaN for
    a group without an image.
    """
    members = np.asarray(counts)
    variance = (squares - np.square(total) / images) / (images - ddof)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = sums / members - (total - sums) / (images - members)
        association: FloatArray = apart / np.sqrt(variance)
    return association


@dataclass(frozen=True, slots=True)
class SetSums:
    """One query's scores summed by set: C-ASC of a gallery of resampled sets without touching an image twice."""

    table: FloatArray
    """(sets, 2 groups + 1): sums and images of every group, and squares, multiplied at once as reading is the cost."""
    groups: int

    @classmethod
    def of(cls, scores: FloatArray, labels: IntArray, sets: IntArray, *, groups: int, n_sets: int) -> SetSums:
        """Of scores, labels and sets (images,). Raises MetricError for scores whose squares overflow."""
        # Similarities lie close together and far from 0: centred first, sums of squares lose no digits.
        cell = sets * groups + labels
        images = np.bincount(cell, minlength=n_sets * groups).reshape(n_sets, groups)
        with np.errstate(over="ignore", invalid="ignore"):
            score = scores - scores.mean()
            sums = np.bincount(cell, score, minlength=n_sets * groups).reshape(n_sets, groups)
            squares = np.bincount(sets, score**2, minlength=n_sets)
            finite = np.isfinite(squares.sum())
        if not finite:
            problem = "sums of squared scores are not finite."
            raise MetricError(problem, where="scores", remedy="pass finite scores below 1e100 in size")
        table = np.concatenate([sums, images, squares[:, None]], axis=1)
        return cls(table, groups)

    def drawn(self, counts: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums (draws, groups), images (draws, groups) and squares (draws, 1) under multiplicities (draws, sets)."""
        drawn: FloatArray = np.asarray(counts, dtype=np.float64) @ self.table
        return drawn[:, : self.groups], drawn[:, self.groups : -1], drawn[:, -1:]
