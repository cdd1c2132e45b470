"""Intervals for the worst group: MaxSkew, worst-group accuracy, the largest gap. Or the reason why there is none.

The largest of several noisy values lies above the largest truth, and a bootstrap takes the largest once more: the
percentiles of MaxSkew@K of a fair model miss 0 in nearly every gallery. Here each group gets limits of its own. The
truth, the largest theta_g, is at least every group's theta_g, so that the largest of lower limits that hold for all
groups at once is a lower limit; and it is one group's theta_g, so that the largest of plain upper limits is an upper
one. For the smallest, the other way round. (Intersection bounds: Chernozhukov, Lee and Rosen 2013.)

How often the intervals cover, and where they are wider than they need be: docs/evidence/intervals.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairgate.formulas.statistics.resampling import FloatArray, Interval, Unavailable
from fairgate.ground.errors import StatisticsError

Which: TypeAlias = Literal["max", "min"]
Limit: TypeAlias = Callable[[float], FloatArray]
"""From a level to limits (subjects, groups), each beyond its truth with at most that probability."""

FEWEST_SETS = 6
"""With fewer, the signs alone cannot reach a level of 0.05, whatever the values."""

FEWEST_PLACES = 8
"""Where a group has fewer places left to take, the top k is nearly its own, and resamples look too much alike."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Estimates (subjects, groups) and draws (draws, subjects, groups), with what their limits need to know."""

    value: FloatArray
    drawn: FloatArray
    sets: FloatArray
    """(subjects, 1)"""
    attribute: NDArray[np.int64]
    names: tuple[str, ...]


def extreme_interval(
    estimates: ArrayLike,
    draws: ArrayLike,
    *,
    n_sets: ArrayLike,
    which: Which = "max",
    alpha: float = 0.05,
    trials: ArrayLike | None = None,
    attribute: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Interval | Unavailable:
    """Interval for the largest, or smallest, of the groups' true values.

    `estimates` (groups,) with `draws` (draws, groups) from the set bootstrap, finite. Or (subjects, groups) with
    (draws, subjects, groups): then for the mean over subjects of each one's extreme; subjects have sets of their own,
    `n_sets` () or (subjects,). `attribute` (groups,) are codes where groups belong to several attributes: extremes are
    taken within each, averaged over subjects, and the extreme attribute is the answer.

    Means get Student's limits at the spread of the draws, widened for their skewness. Shares 0..1, as accuracy is,
    with their `trials` (shaped like estimates: the sets that hold the group) get binomial limits at the sample size
    that the spread implies (Korn and Graubard 1998): they hold where every answer was right, too. Raises
    StatisticsError for shapes and values that do not fit, and an alpha out of range.
    """
    groups = _groups(estimates, draws, n_sets, attribute, names, which, alpha)
    if not np.isfinite(groups.value).all():
        raise _misfit("estimates are not all finite", "for skews, which may be -inf, use skew_interval")
    if trials is None:
        reason = _too_thin(groups) or _too_still(groups)
        return Unavailable(reason) if reason else _extreme(groups, *_mean_limits(groups), which, alpha)
    size = np.broadcast_to(np.asarray(trials, dtype=np.float64), groups.value.shape)
    if not ((groups.value >= 0) & (groups.value <= 1) & (size > 0)).all():
        raise _misfit("estimates are not shares 0..1 of one trial or more", "leave out `trials` for means")
    reason = _too_thin(groups)
    return Unavailable(reason) if reason else _extreme(groups, *_share_limits(groups, size), which, alpha)


def skew_interval(
    skew: ArrayLike,
    draws: ArrayLike,
    *,
    k: int,
    images: ArrayLike,
    n_sets: ArrayLike,
    desired: Literal["dataset", "uniform"] | ArrayLike = "dataset",
    which: Which = "max",
    alpha: float = 0.05,
    attribute: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> Interval | Unavailable:
    """Interval for MaxSkew@K or MinSkew@K of an endless gallery that is ranked down to the same fraction.

    As `extreme_interval`, for skews in nats, -inf where no image is shown. `images`, shaped like `skew`, counts each
    group's images in the gallery. A skew is a share of the places that the group could take, and gets binomial limits.
    An absent group has a highest possible skew, and bounds MaxSkew with it; how low its skew is remains unseen, so
    that MinSkew is `Unavailable`.
    """
    groups = _groups(skew, draws, n_sets, attribute, names, which, alpha)
    gallery = np.broadcast_to(np.asarray(images, dtype=np.float64), groups.value.shape)
    places = np.minimum(gallery, k)
    with np.errstate(divide="ignore"):
        ceiling = np.log(places / k / _desired_shares(desired, gallery, groups.attribute))
    share = np.exp(groups.value - ceiling)
    if not (share <= 1 + 1e-9).all():
        raise _misfit(f"skews are no numbers, or above those of a top {k}", "pass skews, k and images of one gallery")
    shares = replace(groups, value=np.minimum(share, 1.0), drawn=np.exp(groups.drawn - ceiling))
    absent = (share == 0).any(axis=0)
    reason = _too_thin(groups)
    if which == "min" and absent.any():
        reason = f"no image of {groups.names[int(absent.argmax())]} is in the top {k}: its share is unseen"
    if reason:
        return Unavailable(reason)
    lower, upper = _share_limits(shares, places)
    interval = _extreme(groups, _as_skew(lower, ceiling), _as_skew(upper, ceiling), which, alpha)
    # Shares have one sum, the desired too: some group is shown its share or more, and some its share or less.
    return (
        replace(interval, lo=max(interval.lo, 0.0)) if which == "max" else replace(interval, hi=min(interval.hi, 0.0))
    )


def divergence_interval(
    estimates: ArrayLike,
    draws: ArrayLike,
    *,
    k: int,
    shown: ArrayLike,
    images: ArrayLike,
    alpha: float = 0.05,
) -> Interval | Unavailable:
    """Interval for the NDKL@K that galleries *of this size* have on average; for several attributes, the largest.

    `estimates` () or (attributes,), `draws` (draws,) or (draws, attributes). `shown` and `images` (any shape alike)
    count every group's images in the top k and in the gallery. NDKL of a finite k lies far above that of an endless
    gallery (its first place holds one group, whatever the model does) and resampling does not show how far: no
    interval for the endless gallery covers, and a report prints a fair ranker's NDKL with this one. The limits reach
    as far as the farther of the draws' two quantiles, both ways. Where a group all but fills its places, galleries
    differ more than resamples do, and the interval is `Unavailable`.
    """
    value, drawn = np.atleast_1d(np.asarray(estimates, dtype=np.float64)), np.asarray(draws, dtype=np.float64)
    drawn = drawn[:, None] if drawn.ndim == 1 else drawn
    _check_alpha(alpha)
    if (
        value.ndim != 1
        or drawn.shape[1:] != value.shape
        or not np.isfinite(value).all()
        or not np.isfinite(drawn).all()
    ):
        raise _misfit(f"draws {drawn.shape} do not fit estimates {value.shape}, or are not finite", "pass NDKL's draws")
    left = int((np.minimum(np.asarray(images), k) - np.asarray(shown)).min())
    if left < FEWEST_PLACES:
        return Unavailable(f"a group takes all but {left} of its places in the top {k}: NDKL is near its limit")

    def reach(level: float) -> FloatArray:
        low, high = np.quantile(drawn, [level, 1 - level], axis=0)
        return np.asarray(np.maximum(value - low, high - value))

    lo, hi = value - reach(_sidak(alpha / 2, value.size)), value + reach(alpha / 2)
    return Interval(float(value.max()), max(float(lo.max()), 0.0), float(hi.max()), "reflected", len(drawn))


def _groups(
    estimates: ArrayLike,
    draws: ArrayLike,
    n_sets: ArrayLike,
    attribute: ArrayLike | None,
    names: Sequence[str] | None,
    which: str,
    alpha: float,
) -> _Groups:
    value, drawn = np.asarray(estimates, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    subjects, groups = (1, *value.shape)[-2:] if value.ndim in (1, 2) else (0, 0)
    sets = np.asarray(n_sets, dtype=np.float64)
    codes = np.zeros(groups, dtype=np.int64) if attribute is None else np.asarray(attribute, dtype=np.int64)
    labels = tuple(f"group {index}" for index in range(groups)) if names is None else tuple(names)
    if (
        not subjects * groups
        or drawn.shape[1:] != value.shape
        or len(drawn) < 2
        or sets.shape not in ((), (subjects,))
        or codes.shape != (groups,)
        or len(labels) != groups
        or which not in ("max", "min")
    ):
        raise _misfit(
            f"estimates {value.shape}, draws {drawn.shape}, n_sets {sets.shape}, attribute {codes.shape}, "
            f"{len(labels)} names and which='{which}' do not fit",
            "pass (groups,) with (draws, groups), or (subjects, groups) with (draws, subjects, groups); max or min",
        )
    _check_alpha(alpha)
    return _Groups(
        value=value.reshape(subjects, groups),
        drawn=drawn.reshape(-1, subjects, groups),
        sets=np.broadcast_to(sets.reshape(-1, 1), (subjects, 1)),
        attribute=codes,
        names=labels,
    )


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise _misfit(f"alpha is {alpha}", "choose alpha between 0 and 1")


def _misfit(problem: str, remedy: str) -> StatisticsError:
    return StatisticsError(f"{problem}.", where="interval of an extreme", remedy=remedy)


def _too_thin(groups: _Groups) -> str | None:
    """Why these draws cannot carry any limits."""
    fewest = int(groups.sets.min())
    if fewest < FEWEST_SETS:
        return f"{fewest} sets are too few"
    lost = np.isnan(groups.drawn).any(axis=(0, 1))
    return f"{groups.names[int(lost.argmax())]} stands in so few sets that resamples lose it" if lost.any() else None


def _too_still(groups: _Groups) -> str | None:
    """A mean whose draws all agree has shown no spread to build limits from."""
    still = (np.ptp(groups.drawn, axis=0) <= 1e-12 * np.abs(groups.value).max()).any(axis=0)
    return f"all sets agree on {groups.names[int(still.argmax())]}: its spread is unseen" if still.any() else None


def _mean_limits(groups: _Groups) -> tuple[Limit, Limit]:
    """Student's limits, widened by the Cornish-Fisher term (Hall 1992) of the most skewed group, never narrowed.

    A group whose few large values stayed out of the sample looks steady; the other groups do not.
    """
    from scipy.special import stdtrit

    error = groups.drawn.std(axis=0, ddof=1) * np.sqrt(groups.sets / (groups.sets - 1))
    centred = groups.drawn - groups.drawn.mean(axis=0)
    skewness = (centred**3).mean(axis=0) / groups.drawn.std(axis=0) ** 3
    right = np.maximum(skewness.max(axis=1, keepdims=True), 0.0)
    left = np.maximum(-skewness.min(axis=1, keepdims=True), 0.0)

    def reach(level: float, tail: FloatArray) -> FloatArray:
        t = stdtrit(groups.sets - 1, 1 - level)
        return np.asarray((t + tail * (2 * t**2 + 1) / 6) * error)

    return (lambda level: groups.value - reach(level, left)), (lambda level: groups.value + reach(level, right))


_ROUNDING = 1e-12
"""The spread of draws that are all one share: logarithms and exponents of it differ in their last bits."""


def _share_limits(groups: _Groups, trials: FloatArray) -> tuple[Limit, Limit]:
    """Clopper and Pearson's limits at the effective sample size; shares of 0 and 1 count their trials."""
    from scipy.special import betaincinv

    share, variance = groups.value, groups.drawn.var(axis=0, ddof=1)
    size, moved = np.array(trials), variance > _ROUNDING**2
    np.divide(share * (1 - share), variance, out=size, where=(share > 0) & (share < 1) & moved)
    hits, misses = share * size, (1 - share) * size

    def lower(level: float) -> FloatArray:
        some = np.where(share > 0, hits, 1.0)
        return np.where(share > 0, betaincinv(some, misses + 1, level), 0.0)

    def upper(level: float) -> FloatArray:
        some = np.where(share < 1, misses, 1.0)
        return np.where(share < 1, betaincinv(hits + 1, some, 1 - level), 1.0)

    return lower, upper


def _as_skew(limit: Limit, ceiling: FloatArray) -> Limit:
    def of(level: float) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(limit(level)) + ceiling)

    return of


def _desired_shares(
    desired: Literal["dataset", "uniform"] | ArrayLike, images: FloatArray, attribute: NDArray[np.int64]
) -> FloatArray:
    """Each group's share among the groups of its attribute, (subjects, groups)."""
    if not isinstance(desired, str):
        return np.broadcast_to(np.asarray(desired, dtype=np.float64), images.shape)
    weight = images if desired == "dataset" else np.ones(images.shape)
    same = (attribute[:, None] == attribute).astype(np.float64)
    shares: FloatArray = weight / (weight @ same)
    return shares


def _sidak(level: float, many: int) -> float:
    """The level at which each of many independent limits holds, that all hold at `level`."""
    return float(-np.expm1(np.log1p(-level) / many))


def _extreme(groups: _Groups, lower: Limit, upper: Limit, which: Which, alpha: float) -> Interval:
    """The extreme group's limits: those on the side where all groups must hold at once are taken at a finer level."""
    most: Any = np.max if which == "max" else np.min
    members = [np.flatnonzero(groups.attribute == code) for code in np.unique(groups.attribute)]

    def bound(limit: Limit, at_once: bool, sign: float) -> float:
        def of(level: float, columns: NDArray[np.intp]) -> FloatArray:
            return np.asarray(most(limit(_sidak(level, columns.size) if at_once else level)[:, columns], axis=1))

        level = _sidak(alpha / 2, len(members)) if at_once else alpha / 2
        return float(most([_mean_of(of(level, columns), of(0.5, columns), sign) for columns in members]))

    value = most([most(groups.value[:, columns], axis=1).mean() for columns in members])
    return Interval(
        estimate=float(value),
        lo=bound(lower, which == "max", -1.0),
        hi=bound(upper, which == "min", 1.0),
        method="extreme",
        draws=len(groups.drawn),
    )


def _mean_of(limit: FloatArray, middle: FloatArray, sign: float) -> float:
    """Limit of the mean over independent subjects, from each one's limit and its limit at one half (Zou 2008).

    The half-way limits take off the bias of each extreme, which does not average away; the distances from them do.
    """
    if limit.size == 1:
        return float(limit[0])
    return float(middle.mean() + sign * np.sqrt(((limit - middle) ** 2).sum()) / limit.size)
