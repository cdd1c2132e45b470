"""What a paired test can see: the smallest regression it would fail, and the sets it would need for a wanted one.

Computed from the differences between two runs (a retrained seed, a pull request), whose noise is taken for the next
one's, with the limits that the test uses, whatever they cost: a group fails when its estimate lies beyond
margin + reach, so that a regression of margin + reach + z * error fails with the odds that belong to z. The error
itself is known from these sets alone, and heavy tails hide from few: it is taken at its upper limit with the same odds
(chi-square, its degrees of freedom lowered by the largest kurtosis of the groups).

Where nearly all sets agree exactly, as with right-or-wrong answers, noise comes with the regression itself: a share r
of answers is lost, and the test must see it both past the margin and in enough sets: for an exact test of answers more
than could be lost at the margin, for other values enough not to be sparse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, chdtri, ndtri, stdtrit

from fairgate.formulas.statistics._limits import (
    SPARSE,
    SPARSE_ANSWERS,
    SimultaneousLimits,
    are_answers,
    departures,
    is_mute,
    limits,
    mean_evidence,
)
from fairgate.formulas.statistics.family import RESERVE
from fairgate.formulas.statistics.paired import compare_draws, differences
from fairgate.formulas.statistics.paired_result import Design, Harm
from fairgate.formulas.statistics.regression import contrast_evidence
from fairgate.formulas.statistics.resampling import FloatArray, Source
from fairgate.ground.errors import StatisticsError

MOST_SETS = 10**9
"""Beyond so many, no number of sets is advice: `sets_needed` is infinite."""


@dataclass(frozen=True, slots=True)
class Power:
    """Per group (groups,), in the metric's own unit: the regressions that a test at this margin and alpha can see."""

    standard_error: FloatArray
    """Of the difference at the present number of sets"""
    reach: FloatArray
    """How far beyond the margin an estimate must lie to fail: the test's own simultaneous limit"""
    caution: FloatArray
    """How many times larger the error may be in truth, its upper limit; error and reach are multiplied by it"""
    n_sets: NDArray[np.int64]
    margin: float
    alpha: float
    odds: float
    wanted: float | None
    harm: Harm
    _step: FloatArray = field(repr=False)
    """(groups,), what one set of a sparse group can lose; NaN for the others"""
    _answers: bool = field(default=False, repr=False)

    @property
    def detectable(self) -> FloatArray:
        """Smallest regression that fails with the odds at the present sets; infinite where they are too few to fail."""
        return self._at(self.n_sets.astype(np.float64))

    @property
    def sets_needed(self) -> FloatArray:
        """Fewest sets with which a regression of `wanted` fails with the odds; NaN where none is wanted.

        Infinite where `wanted` does not lie beyond the margin.
        """
        if self.wanted is None:
            return np.full(self.n_sets.shape, np.nan)
        few, enough = np.ones(self.n_sets.shape), np.full(self.n_sets.shape, float(MOST_SETS))
        hopeless = ~(self._at(enough) <= self.wanted)
        while (enough - few > 1).any():
            middle = np.floor((few + enough) / 2)
            sees = self._at(np.maximum(middle, 2.0)) <= self.wanted
            few, enough = np.where(sees, few, middle), np.where(sees, middle, enough)
        return np.where(hopeless, np.inf, enough)

    def at(self, n_sets: ArrayLike) -> FloatArray:
        """Detectable regressions with other numbers of sets, for curves: () -> (groups,), (sizes,) -> (sizes, groups).

        Errors shrink with the root of the sets, and the critical value as Student's t does.
        """
        sets = np.asarray(n_sets)
        if sets.ndim > 1 or sets.dtype.kind not in "iu" or (sets < 2).any():
            raise StatisticsError(
                f"{n_sets!r} are no numbers of sets.", where="Power.at", remedy="give whole numbers from 2"
            )
        return self._at(sets[..., None].astype(np.float64))

    def _at(self, n: FloatArray) -> FloatArray:
        level = 1 - self.alpha * (1 - RESERVE) / self.n_sets.size
        shrunk = self.caution * np.sqrt(self.n_sets / n)
        reach = self.reach * shrunk * stdtrit(n - 1, level) / stdtrit(self.n_sets - 1, level)
        seen = self.margin + reach + ndtri(self.odds) * self.standard_error * shrunk
        seen = np.where(np.isnan(self._step), seen, self._lost(n, level))
        return np.where(is_mute(n, self.alpha), np.inf, seen)

    def _lost(self, n: FloatArray, level: float) -> FloatArray:
        """The loss r * step in a share r of sets that shows past the margin, and in enough sets, with the odds."""
        enough: FloatArray | float = SPARSE
        if self._answers:  # as many as are too many at the margin
            enough = np.maximum(_fewest_at(self.margin, n, 1 - level), math.ceil(-math.log2(1 - level)))
        least = np.minimum(enough, n - 1)
        shown = betaincinv(least, n - least + 1, self.odds)  # P(at least `least` of n at share r) is the odds
        bound = self.margin / self._step
        spread = (stdtrit(n - 1, level) + ndtri(self.odds)) ** 2 / n  # (r - bound)^2 = spread r (1 - r)
        half = bound + spread / 2
        past = (half + np.sqrt(np.maximum(half**2 - (1 + spread) * bound**2, 0.0))) / (1 + spread)
        lost: FloatArray = np.where(bound < 1, self._step * np.maximum(shown, past), np.inf)
        return lost


def power(
    difference: ArrayLike,
    *,
    margin: float,
    rng: Source,
    alpha: float = 0.05,
    odds: float = 0.8,
    wanted: float | None = None,
    draws: int = 4000,
    harm: Harm = "lower",
) -> Power:
    """Power of `paired_test` on such differences (sets,) or (sets, groups), candidate minus baseline; one family.

    Among set-mates, pass differences of `set_deviation`. NaN is a group that a set lacks. `wanted` is the regression
    one wishes to see, in the metric's unit. For one check among many of a suite, pass alpha divided by their number:
    the correction of the suite costs at most that.

    Raises StatisticsError for differences that do not vary at all (two runs of one model show no noise), and for odds,
    a wanted regression, margin or alpha out of range.
    """
    design = _checked(Design(margin, alpha, harm), odds, wanted)
    values = np.asarray(difference, dtype=np.float64)
    table = design.sign * differences(values, np.where(np.isnan(values), np.nan, 0.0))
    departing, largest = departures(column[~np.isnan(column)] for column in table.T)
    if largest == 0:
        raise _still("the differences do not vary from set to set.")
    interval = limits(mean_evidence(table, alpha=alpha, draws=draws, rng=rng), design.alpha_each_side)
    answers = are_answers(column[~np.isnan(column)] for column in table.T)
    sparse = (departing < (SPARSE_ANSWERS if answers else SPARSE)) & (answers | (departing < interval.n_sets - 1))
    tails = _kurtosis(table - interval.mean)
    # The heaviest of all: a group whose large values stayed out of the sample looks steady.
    tails[~sparse] = tails[~sparse].max(initial=3.0)
    dense = _power(interval, design, odds, wanted, 2 * interval.n_sets / (tails - 1))
    return replace(dense, _step=np.where(sparse, largest, np.nan), _answers=answers)


def power_of_draws(
    delta_hat: ArrayLike,
    delta_draws: ArrayLike,
    *,
    n_sets: int,
    margin: float,
    alpha: float = 0.05,
    odds: float = 0.8,
    wanted: float | None = None,
    harm: Harm = "lower",
) -> Power:
    """Power of `paired_statistic_test` (fairness, MaxSkew) from its estimates () or (groups,) and their draws.

    The standard error is the draws' standard deviation. Raises StatisticsError as `power` does.
    """
    design = _checked(Design(margin, alpha, harm), odds, wanted)
    evidence = compare_draws(delta_hat, delta_draws, n_sets=n_sets, design=design).evidence
    if (np.ptp(np.asarray(delta_draws, dtype=np.float64), axis=0) == 0).any():
        raise _still("the drawn differences do not vary.")
    interval = limits(evidence, design.alpha_each_side)
    return _power(interval, design, odds, wanted, interval.n_sets.astype(np.float64) - 1)


def power_of_images(
    changes: Sequence[ArrayLike],
    *,
    margin: float,
    rng: np.random.Generator,
    alpha: float = 0.05,
    odds: float = 0.8,
    wanted: float | None = None,
    draws: int = 4000,
    harm: Harm = "lower",
) -> Power:
    """Power of `compare_images` from the changes (images of the group,) of every group: `image_changes` gives them.

    A regression is a group's loss against the mean of all groups, and its error has a part from each of them. Other
    numbers of images keep the groups' proportions; `n_sets` counts each group's images. Raises StatisticsError as
    `power` does, for fewer than two groups or images in one, and where hardly any image of a group changed.
    """
    design = _checked(Design(margin, alpha, harm), odds, wanted)
    samples = _samples(changes, design)
    interval = limits(contrast_evidence(samples, alpha=alpha, draws=draws, rng=rng), design.alpha_each_side)
    return _power(interval, design, odds, wanted, _freedom(samples))


def _power(
    interval: SimultaneousLimits, design: Design, odds: float, wanted: float | None, freedom: FloatArray
) -> Power:
    """Of limits of differences, none of them sparse, whose errors are known with such degrees of freedom."""
    return Power(
        standard_error=interval.error,
        reach=np.maximum(interval.below, interval.above) if design.harm == "either" else interval.above,
        caution=np.sqrt(freedom / chdtri(freedom, odds)),
        n_sets=interval.n_sets,
        margin=design.margin,
        alpha=design.alpha,
        odds=odds,
        wanted=wanted,
        harm=design.harm,
        _step=np.full(interval.error.shape, np.nan),
    )


def _samples(changes: Sequence[ArrayLike], design: Design) -> list[FloatArray]:
    """Changes of each group whose noise can be seen, turned so that lower is worse."""
    samples = [design.sign * np.asarray(change, dtype=np.float64) for change in changes]
    if len(samples) < 2 or not all(
        sample.ndim == 1 and sample.size > 1 and np.isfinite(sample).all() for sample in samples
    ):
        raise StatisticsError(
            f"the changes of {len(samples)} groups are no samples of images.",
            where="power_of_images",
            remedy="give two groups or more, each with the finite changes (images,) of at least two images",
        )
    departing, largest = departures(samples)
    if largest == 0:
        raise _still("the differences do not vary from image to image.")
    sparse = (departing < SPARSE) & (departing < np.array([sample.size for sample in samples]) - 1)
    if sparse.any():
        group = int(sparse.argmax())
        raise _still(f"only {departing[group]} images of group {group} changed unlike the others: its noise is unseen.")
    return samples


def _freedom(samples: Sequence[FloatArray]) -> FloatArray:
    """How well the squared error of each group's contrast is known, in degrees of freedom (Satterthwaite).

    Every group has a part in it, whose own degrees of freedom kurtosis lowers.
    """
    error = np.array([sample.var(ddof=1) / sample.size for sample in samples])
    own = np.array([2 * sample.size / (_kurtosis(sample[:, None] - sample.mean())[0] - 1) for sample in samples])
    part = (np.eye(len(samples)) - 1 / len(samples)) ** 2 * error
    freedom: FloatArray = part.sum(axis=1) ** 2 / (part**2 / own).sum(axis=1)
    return freedom


def _fewest_at(share: float, n: FloatArray, level: float) -> FloatArray:
    """The fewest of n, at this share, that as many or more have at most the level: a binomial quantile."""
    few, enough = np.zeros(np.shape(n)), np.asarray(n, dtype=np.float64) + 1
    while (enough - few > 1).any():  # `few` or more have more than the level, `enough` or more at most that
        middle = np.floor((few + enough) / 2)
        rare = betainc(np.maximum(middle, 1.0), np.maximum(n - middle + 1, 1.0), share) <= level
        few, enough = np.where(rare, few, middle), np.where(rare, middle, enough)
    return enough


def _kurtosis(deviation: FloatArray) -> FloatArray:
    """Fourth moment over the squared second of deviations (sets, groups), at least the 3 of normal noise."""
    square = np.nanmean(deviation**2, axis=0)
    ratio = np.divide(np.nanmean(deviation**4, axis=0), square**2, out=np.full(square.shape, 3.0), where=square > 0)
    most: FloatArray = np.maximum(ratio, 3.0)
    return most


def _checked(design: Design, odds: float, wanted: float | None) -> Design:
    if not 0.5 <= odds < 1 or (wanted is not None and not 0 < wanted < np.inf):
        raise StatisticsError(
            f"odds {odds} and a wanted regression of {wanted} are no question to a test.",
            where="power",
            remedy="give odds from 0.5 to under 1, and the size of a regression, above 0, in the metric's unit",
        )
    return design


def _still(problem: str) -> StatisticsError:
    return StatisticsError(
        problem,
        where="power",
        remedy="compare two different checkpoints, for example two seeds of one training run: their differences show "
        "how much chance moves the scores",
    )
