"""Did a group fall behind the others between two checkpoints, on images that form no sets?

Every group is compared with the groups of the same checkpoint, not with its own past alone. (Inside counterfactual
sets the paired test of deviations from the set's mean says so.) The same resampled t and the same guard for sparse
groups as in `_limits` apply, with each group resampled by itself: the groups are independent samples, and a group's
contrast carries the noise of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from fairgate.formulas.statistics._limits import SKEWED, SPARSE, departures, hidden, is_mute, signs
from fairgate.formulas.statistics.family import Evidence, Side, normal_score, student_t
from fairgate.formulas.statistics.paired import PairedComparison
from fairgate.formulas.statistics.paired_result import Design
from fairgate.formulas.statistics.resampling import FloatArray, most_drawn, resampled_sums
from fairgate.ground.errors import StatisticsError

_MANY = 1000
"""Answers of a group that are counted and not listed."""

_AT_ONCE = 1 << 18
"""Images that are counted at once."""

_LEVELS = 200
"""p-values next to sparse groups are the smallest of so many levels, 4% apart, at which the limit clears the bound."""


@dataclass(frozen=True, slots=True)
class _Sparse:
    """How far limits of contrasts (groups,) reach next to sparse groups: noise of the dense ones, and unseen change."""

    error: FloatArray
    freedom: FloatArray
    part: float
    """Of the groups, those that are dense; their noise gets this part of a level"""
    departing: NDArray[np.int64]
    n_sparse: NDArray[np.int64]
    leverage: FloatArray
    """(groups, sparse), the largest departure times the weight of each sparse group in each contrast"""

    def at(self, drawn: FloatArray, levels: FloatArray) -> FloatArray:
        """(levels, groups) for one-sided levels (levels,), each group by itself; `drawn` (draws, groups) ascending."""
        far = hidden(self.departing, self.n_sparse, levels[:, None] * (1 - self.part) / self.n_sparse.size)
        reach = far @ self.leverage.T
        if self.part:
            beyond = np.maximum(np.floor(levels * self.part * (len(drawn) + 1) + 1e-9).astype(int) - 1, 0)
            student = stdtrit(self.freedom, 1 - levels[:, None] * self.part)
            reach = reach + np.maximum(drawn[len(drawn) - 1 - beyond], student) * self.error
        return np.asarray(reach)

    def p_value(self, distance: FloatArray, drawn: FloatArray) -> FloatArray:
        """The smallest level at which the limit of a group clears a bound this far away, 1 where none does."""
        levels = np.geomspace(1.0 / ((self.part or 1.0) * (len(drawn) + 1)), 1.0, _LEVELS)
        clears = distance > self.at(drawn, levels)
        p: FloatArray = np.where(clears, levels[:, None], 1.0).min(axis=0)
        return p


Sample = FloatArray | tuple[FloatArray, NDArray[np.int64]]
"""Numbers of a group's images, (images,), or the different ones and how many images have each."""


def contrast_evidence(samples: Sequence[Sample], resampled: Sequence[FloatArray], *, alpha: float) -> Evidence:
    """Evidence on each group's mean less the mean of all groups' means, from samples of the groups.

    `resampled` holds, for each group, the sums of its centred values and of their squares in each resample, (draws, 2).
    Two images per group at least. Where a group has too few to show alpha, no contrast is judged: each leans on all
    groups.
    """
    counted = [each if isinstance(each, tuple) else np.unique(each, return_counts=True) for each in samples]
    groups, draws = len(samples), len(resampled[0])
    n = np.array([counts.sum() for _, counts in counted])
    means = np.array([np.clip(counts @ values / counts.sum(), values[0], values[-1]) for values, counts in counted])
    mean = means - np.clip(means.mean(), means.min(), means.max())
    contrast = np.eye(groups) - 1.0 / groups
    departing, largest = departures(counted)
    sparse = (departing < SPARSE) & (departing < n - 1)
    variance, third, freedom = _moments(counted, n, contrast, ~sparse)
    error = np.sqrt(variance)
    t = np.empty((draws, 0)) if sparse.all() else _drawn(resampled, n, contrast, ~sparse)
    hides = _Sparse(
        error, freedom, float((~sparse).mean()), departing[sparse], n[sparse], np.abs(contrast[:, sparse]) * largest
    )
    judged = np.full(groups, not (is_mute(n, alpha).any() and any(values.any() for values, _ in counted)))

    def side(direction: float) -> Side:
        # As in `_limits`: the squared skewness of a mean is of the order 1 / images.
        skewness = np.divide(third, variance**1.5, out=np.zeros(groups), where=variance > 0)
        stretch = 1 + SKEWED * np.maximum(-direction * skewness, 0.0) ** 2
        scored = np.where(np.isnan(t), np.inf, direction * t)
        own = np.sort(scored * stretch, axis=0) if sparse.any() and not sparse.all() else t

        def z(bound: float) -> FloatArray:
            distance = direction * (mean - bound)
            if sparse.any():
                return np.asarray(-ndtri(hides.p_value(distance, own)))
            return normal_score(distance / error / stretch, freedom)

        def reach(critical_z: float) -> FloatArray:
            if sparse.any():
                return np.asarray(hides.at(own, np.array([float(ndtr(-critical_z))]))[0])
            return student_t(critical_z, freedom) * stretch * error

        if sparse.any():
            return Side(z, reach, np.empty((draws, 0)), np.empty(0, dtype=np.intp))
        return Side(z, reach, normal_score(scored, freedom), np.arange(groups))

    return Evidence(mean, error, n, judged, under=side(-1.0), over=side(1.0), least=signs(n))


def _moments(
    counted: Sequence[tuple[FloatArray, NDArray[np.int64]]],
    n: NDArray[np.int64],
    contrast: FloatArray,
    dense: NDArray[np.bool_],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variance, third central moment, and Welch and Satterthwaite's degrees of freedom of each contrast (groups,)."""
    squares, cubes, weighed = np.zeros((3, len(counted)))
    for group in np.flatnonzero(dense).tolist():
        (values, counts), weights = counted[group], contrast[:, group]
        deviation = values - counts @ values / n[group]
        own = weights**2 * (counts @ deviation**2) / (n[group] - 1) / n[group]
        squares += own
        cubes += weights**3 * (counts @ deviation**3) / n[group] ** 3
        weighed += own**2 / (n[group] - 1)
    freedom = np.divide(squares**2, weighed, out=np.full(len(counted), np.inf), where=weighed > 0)
    return squares, cubes, freedom


def _drawn(
    resampled: Sequence[FloatArray], n: NDArray[np.int64], contrast: FloatArray, dense: NDArray[np.bool_]
) -> FloatArray:
    """The t of every contrast in each resample of the images (draws, groups), NaN where it shows no spread."""
    places = np.flatnonzero(dense)
    drawn = np.stack([resampled[group] / n[group] for group in places.tolist()], axis=1)
    moved, squares = drawn[..., 0], drawn[..., 1]
    variance = np.maximum(squares - moved**2, 0.0) / (n[places] - 1)
    weights = contrast[:, places]
    with np.errstate(divide="ignore", invalid="ignore"):
        t: FloatArray = (moved @ weights.T) / np.sqrt(variance @ (weights**2).T)
    t[~np.isfinite(t)] = np.nan
    return t


_ROUND_OFF = 8 * np.finfo(np.float64).eps
"""Changes under this share of the largest score are rounding."""


def compare_images(
    candidate: ArrayLike,
    baseline: ArrayLike,
    labels: ArrayLike,
    *,
    groups: int,
    design: Design,
    rng: np.random.Generator,
    draws: int = 4000,
    units: ArrayLike | None = None,
) -> PairedComparison:
    """The change of each group's mean score against the other groups', on images that form no sets.

    candidate, baseline: (images,), entry i of both the same image; labels (images,) its group 0..groups-1, or -1 where
    unknown (left out). Compared is the change of a group's mean less the mean change of all groups, every group
    weighing the same: negative = fell behind. It is a gap, and harms a group that is now behind alone (`paired`).
    Images are resampled within groups, and counted as sets; those of one of the `units` (images,) together, as one.
    Raises StatisticsError as `image_changes` does.
    """
    label, counts = np.asarray(labels), None
    if units is None:
        counts = _turns(np.asarray(candidate), np.asarray(baseline), label, groups)
    sides: Sequence[Sequence[Sample]]
    if counts is not None:
        sides, both = _of_answers(design.sign, counts, draws, rng)
    else:
        changes = image_changes(candidate, baseline, labels, groups=groups, units=units)
        now = _of_units(np.asarray(candidate, dtype=np.float64), label, groups, units, centred=True)
        signed = [[design.sign * sample for sample in samples] for samples in (changes, now)]
        most = most_drawn(sum(sample.size for sample in changes), groups)
        sides, both = signed, [_centred_sums([side[at] for side in signed], draws, rng, most) for at in range(groups)]
    evidence, own = (
        contrast_evidence(cast(Sequence[Sample], side), [resampled[at] for resampled in both], alpha=design.alpha)
        for at, side in enumerate(sides)
    )
    gap = None if design.harm == "either" else own
    return PairedComparison(design, evidence, "max-t bootstrap within groups", draws, gap)


_CHANGE, _NOW = np.array([[-1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
"""Of the four ways in which an answer was and is right or wrong: how it changed, and how it is."""


def _turns(now: NDArray[Any], before: NDArray[Any], label: NDArray[Any], groups: int) -> NDArray[np.int64] | None:
    """Answers of every group in each of the four ways, (groups, 4); None of other numbers, and of few answers."""
    if now.dtype != bool or before.dtype != bool or not now.shape == before.shape == label.shape == (label.size,):
        return None
    if label.dtype.kind not in "iu" or groups < 2 or not -1 <= label.min(initial=0) <= label.max(initial=0) < groups:
        return None
    counts = np.zeros(4 * (groups + 1), dtype=np.int64)
    for start in range(0, label.size, _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        way = np.array([1, 0, 3, 2])[2 * now[rows] + before[rows]]
        counts += np.bincount(4 * (label[rows].astype(np.intp) + 1) + way, minlength=counts.size)
    of_groups = counts.reshape(-1, 4)[1:]
    return of_groups if of_groups.sum(axis=1).min() >= _MANY else None


def _of_answers(
    sign: float, counts: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> tuple[list[list[Sample]], list[list[FloatArray]]]:
    """Samples of changes and of answers by group, from their `_turns`, and what `_centred_sums` gives of them."""
    sides: list[list[Sample]] = [[], []]
    both = []
    for of_group in counts:
        used = np.flatnonzero(of_group)[:: int(sign)]
        ways, n = of_group[used], of_group.sum()
        numbers = sign * np.stack([_CHANGE[used], _NOW[used]])
        for side, values in zip(sides, numbers, strict=True):
            different, place = np.unique(values, return_inverse=True)
            side.append((different, np.bincount(place, ways).astype(np.int64)))
        centred = numbers - (numbers @ ways / n)[:, None]
        sums = rng.multinomial(n, ways / n, size=draws) @ np.concatenate([centred, centred**2]).T
        both.append([sums[:, at::2] for at in range(2)])
    return sides, both


def _centred_sums(samples: Sequence[FloatArray], draws: int, rng: np.random.Generator, most: int) -> list[FloatArray]:
    """Of samples of the same images (images,), the sums of centred values and of their squares in each resample of the
    images, (draws, 2) each; of more than `most` images, of so many blocks."""
    centred = [sample - sample.mean() for sample in samples]
    table = np.stack([*centred, *(values**2 for values in centred)], axis=1)
    sums = resampled_sums(table, draws, rng, most=most)
    return [sums[:, at :: len(samples)] for at in range(len(samples))]


def _of_units(
    values: FloatArray, label: NDArray[np.int_], groups: int, units: ArrayLike | None, *, centred: bool = False
) -> list[FloatArray]:
    """Samples (units of the group,) with the mean of the group's images: of a unit the mean of its images, weighed by
    their number. `centred` weighs what differs from the group's mean, which is the smaller error of a mean far from 0;
    else a unit of 0 stays 0, as the guard for sparse changes needs."""
    samples = []
    for group in range(groups):
        places = np.flatnonzero(label == group)
        if units is None or not places.size:
            samples.append(values[places])
            continue
        _, first, code = np.unique(np.asarray(units)[places], return_index=True, return_inverse=True)
        code = np.argsort(np.argsort(first))[code]  # in the order of the images
        size = np.bincount(code)
        if size.max() == 1:
            samples.append(values[places])
            continue
        centre = float(values[places].mean()) if centred else 0.0
        samples.append(centre + np.bincount(code, values[places] - centre) / size.mean())
    return samples


def image_changes(
    candidate: ArrayLike, baseline: ArrayLike, labels: ArrayLike, *, groups: int, units: ArrayLike | None = None
) -> list[FloatArray]:
    """How far each image of every group moved, (images of the group,): what `compare_images` compares the means of.

    Images of one of the `units` (images,) are one value, their mean weighed by their number: (units of the group,).
    Changes that are mere rounding are exactly 0. Raises StatisticsError for scores that are not finite, shapes that
    differ, labels out of range, fewer than two groups, and a group with fewer than two images or units.
    """
    new, old = (np.asarray(scores, dtype=np.float64) for scores in (candidate, baseline))
    label = np.asarray(labels)
    if new.ndim != 1 or not new.shape == old.shape == label.shape == np.shape(labels if units is None else units):
        raise StatisticsError(
            f"candidate, baseline and labels have shapes {new.shape}, {old.shape} and {label.shape}"
            + ("." if units is None else f", units {np.shape(units)}."),
            where="image_changes",
            remedy="pass (images,) each, over the images that both runs scored, in the same order",
        )
    finite = np.isfinite(new) & np.isfinite(old)
    if not finite.all():
        raise StatisticsError(
            f"{int((~finite).sum())} of {new.size} images have no finite score.",
            where=f"image_changes: first in image {int(finite.argmin())}",
            remedy="score both runs on the same images; drop images without a score from both, and count them",
        )
    integral = label.dtype.kind in "iu"
    if groups < 2 or not integral or (label.size and not -1 <= label.min() <= label.max() < groups):
        raise StatisticsError(
            f"labels of type {label.dtype} do not name {groups} groups.",
            where="image_changes",
            remedy="pass whole numbers 0..groups-1, -1 for unknown, and at least two groups",
        )
    rounding = _ROUND_OFF * max(np.abs(new).max(initial=0.0), np.abs(old).max(initial=0.0))
    change = np.where(np.abs(new - old) <= rounding, 0.0, new - old)
    samples = _of_units(change, label, groups, units)
    few = [group for group, sample in enumerate(samples) if sample.size < 2]
    if few:
        raise StatisticsError(
            f"fewer than two images show the groups {few}.",
            where="image_changes",
            remedy="leave out groups below the suite's min_sets (label their images -1), and report them as not tested",
        )
    return samples
