"""Comparing models and groups as the papers do: Mood's median test, group effects with clustered errors, adjusted p.

All are for reading, as in `fairgate audit`; verdicts come from the paired tests, which use more of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from fairgate.formulas.statistics.resampling import FloatArray
from fairgate.ground.errors import StatisticsError, did_you_mean

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MoodsMedian:
    """Mood's median test: a chi-square of who lies above the median of all values."""

    statistic: float
    p: float
    grand_median: float
    table: IntArray
    """(2, samples): values above the grand median, and values that are not"""


def moods_median_test(*samples: ArrayLike) -> MoodsMedian:
    """Do samples (values,) share one median? Brown and Mood 1951, as paper 1 compares the set spreads of models.

    Values at the median count as below it; Yates' correction applies to two samples. The test ignores that models
    scored the same sets, which a paired test uses. Raises StatisticsError for fewer than two samples, an empty one,
    values that are not finite, and where none lies above the median.

    >>> moods_median_test([1, 2, 3, 4], [5, 6, 7, 8]).statistic
    4.5
    """
    columns = [np.asarray(sample, dtype=np.float64).ravel() for sample in samples]
    broken = [index for index, column in enumerate(columns) if not column.size or not np.isfinite(column).all()]
    if len(columns) < 2 or broken:
        raise StatisticsError(
            f"{len(columns)} samples were given; empty or with values that are not finite: {broken or 'none'}.",
            where="moods_median_test",
            remedy="pass two samples or more, without gaps (drop incomplete sets and count them)",
        )
    # Not scipy's median_test, whose refusals say less; with these counts it is done.
    median = float(np.median(np.concatenate(columns)))
    above = np.array([(column > median).sum() for column in columns])
    table = np.stack([above, [column.size for column in columns] - above]).astype(np.int64)
    if not above.any():
        raise StatisticsError(
            f"the median of all values is {median:g}, and none of {table.sum()} values lies above it.",
            where="moods_median_test",
            remedy="where more than half of all values are the largest one, there is nothing to compare",
        )
    from scipy.stats import chi2_contingency  # 0.5 s to import

    statistic, p, _, _ = chi2_contingency(table)
    return MoodsMedian(float(statistic), float(p), median, table)


@dataclass(frozen=True, slots=True)
class ClusterOLS:
    """Outcome by group: the reference group's mean, and how far every other group's lies from it.

    Arrays are (groups,), in the order of `names`, the reference first: its entry is the intercept. `statistic` and `p`
    (two-sided, that the coefficient is 0) are NaN where the clusters show no spread: that is no evidence.
    """

    names: tuple[Any, ...]
    coefficient: FloatArray
    error: FloatArray
    """Cluster-robust standard errors"""
    statistic: FloatArray
    p: FloatArray
    lo: FloatArray
    hi: FloatArray
    n_per_group: IntArray
    clusters: int


def cluster_ols(
    outcome: ArrayLike,
    group: ArrayLike,
    cluster: ArrayLike,
    *,
    reference: Any,
    groups: Sequence[Any] | None = None,
    alpha: float = 0.05,
) -> ClusterOLS:
    """Regress outcome (rows,) on group (rows,), with errors that allow any dependence inside a cluster (rows,).

    As statsmodels' `ols("y ~ C(group)").fit(cov_type="cluster")`, in closed form: the sandwich with the CR1 factor
    G/(G-1) (n-1)/(n-k) for G clusters, normal p-values and limits at 1 - alpha. `group` and `cluster` hold names or
    codes; `groups` declares the names that must occur (else those that do, sorted). Raises StatisticsError for shapes
    that do not fit, values that are not finite, an outcome without variance, fewer than two clusters, an absent
    reference, a group that is undeclared, without rows, or in one cluster only.
    """
    y = np.asarray(outcome, dtype=np.float64)
    names, code = _group_codes(np.asarray(group), reference, groups)
    cluster_names, cluster_code = np.unique(np.asarray(cluster), return_inverse=True)
    k, n, n_clusters = len(names), y.size, cluster_names.size
    _check_rows(y, code, cluster_code, n_clusters, alpha)
    rows = np.bincount(code, minlength=k)
    low, high = np.full(k, np.inf), np.full(k, -np.inf)
    np.minimum.at(low, code, y)
    np.maximum.at(high, code, y)
    mean = np.clip(np.bincount(code, y, minlength=k) / rows, low, high)  # exactly the value where all agree
    cell = cluster_code * k + code
    shape = (n_clusters, k)
    _check_clusters(names, np.bincount(cell, minlength=n_clusters * k).reshape(shape))
    # Every cluster's pull on the coefficients; taken as differences, so that nothing cancels in the covariance.
    pull = np.bincount(cell, y - mean[code], minlength=n_clusters * k).reshape(shape) / rows
    pull[:, 1:] -= pull[:, :1]
    factor = n_clusters / (n_clusters - 1) * (n - 1) / (n - k)
    coefficient = mean - np.where(np.arange(k) > 0, mean[0], 0.0)
    error = np.sqrt(np.diag(factor * (pull.T @ pull)))
    still = error <= 1e-13 * np.ptp(y)
    statistic = np.divide(coefficient, error, out=np.full(k, np.nan), where=~still)
    reach = error * ndtri(1 - alpha / 2)
    return ClusterOLS(
        names=names,
        coefficient=coefficient,
        error=error,
        statistic=statistic,
        p=2 * ndtr(-np.abs(statistic)),
        lo=coefficient - reach,
        hi=coefficient + reach,
        n_per_group=rows,
        clusters=n_clusters,
    )


def _group_codes(group: NDArray[Any], reference: Any, groups: Sequence[Any] | None) -> tuple[tuple[Any, ...], IntArray]:
    """Group names, the reference first, and the place of each row's group among them."""
    present, inverse = np.unique(group, return_inverse=True)
    found = present.tolist()
    declared = found if groups is None else list(groups)
    absent = [name for name in declared if name not in found]
    foreign = [name for name in found if name not in declared]
    if absent or foreign or reference not in declared:
        hint = did_you_mean(str(reference), map(str, declared)) if reference not in declared else None
        raise StatisticsError(
            f"the reference is '{reference}' and the groups are {declared}; without rows: {absent or 'none'}; "
            f"in the data but not declared: {foreign or 'none'}.",
            where="cluster_ols",
            remedy=hint or "declare exactly the groups that the rows hold, and choose the reference among them",
        )
    names = (reference, *(name for name in declared if name != reference))
    place = np.array([names.index(name) for name in found])
    return names, place[inverse]


def _check_rows(y: FloatArray, code: IntArray, cluster: IntArray, clusters: int, alpha: float) -> None:
    if (
        y.ndim != 1
        or code.shape != y.shape
        or cluster.shape != y.shape
        or not np.isfinite(y).all()
        or not 0 < alpha < 1
    ):
        raise StatisticsError(
            f"outcome {y.shape} with {int((~np.isfinite(y)).sum())} values not finite, group {code.shape}, "
            f"cluster {cluster.shape} and alpha {alpha} do not make a regression.",
            where="cluster_ols",
            remedy="pass three arrays (rows,) without gaps, and alpha between 0 and 1",
        )
    if clusters < 2 or np.ptp(y) == 0:
        raise StatisticsError(
            f"the outcome takes {np.unique(y).size} value(s) in {clusters} cluster(s): there is no spread to judge by.",
            where="cluster_ols",
            remedy="an outcome that never varies has no group effects to estimate; score at least two sets",
        )


def _check_clusters(names: tuple[Any, ...], sizes: IntArray) -> None:
    """Two clusters must hold each group: the residuals of one sum to 0, and its error would read 0."""
    lonely = [name for name, many in zip(names, (sizes > 0).sum(axis=0), strict=True) if many < 2]
    if lonely or len(names) < 2:
        raise StatisticsError(
            f"of {len(names)} group(s), {lonely or 'none'} stand in one cluster only.",
            where="cluster_ols",
            remedy="give at least two groups, each in two clusters or more; leave out rarer ones and say so",
        )


def bonferroni(p: ArrayLike) -> FloatArray:
    """p (tests,) times the number of tests, at most 1. Holds under any dependence.

    >>> bonferroni([0.01, 0.6])
    array([0.02, 1.  ])
    """
    values = _p_values(p)
    return np.minimum(values * values.size, 1.0)


def holm(p: ArrayLike) -> FloatArray:
    """Holm's step-down adjustment of p (tests,), in the given order (Holm 1979): as safe as Bonferroni, never weaker.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    return np.minimum(adjusted, 1.0)


def _p_values(p: ArrayLike) -> FloatArray:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise StatisticsError(
            f"p-values of shape {values.shape} are not all numbers from 0 to 1.",
            where="p",
            remedy="pass (tests,); a test without a p-value is an error and must not be left out of its family",
        )
    return values
