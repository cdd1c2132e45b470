"""Means and spread of scores by group: from one pass, merged over parts of a gallery without losing digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import MetricError
from fairgate.metrics import _ranking
from fairgate.metrics._checks import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Moments:
    """What C-ASC needs of a gallery, or of a part of one."""

    counts: IntArray
    """(groups,), images."""
    mean: FloatArray
    """(queries,), over all images."""
    offset: FloatArray
    """(queries, groups), mean in the group less the mean over all images; 0 for a group without an image."""
    squares: FloatArray
    """(queries,), summed squared deviations from the mean; exactly 0 where all scores are equal, and only there."""

    def merged(self, other: Moments) -> Moments:
        """The moments of both parts together (Chan, Golub and LeVeque 1979)."""
        counts = self.counts + other.counts
        images, others = counts.sum(), other.counts.sum()
        apart = other.mean - self.mean
        mean = self.mean + apart * (others / images)
        here = self.counts * (self.offset + (self.mean - mean)[:, None])
        there = other.counts * (other.offset + (other.mean - mean)[:, None])
        squares = self.squares + other.squares + apart**2 * (self.counts.sum() * (others / images))
        return Moments(counts, mean, (here + there) / np.maximum(counts, 1), squares)

    def c_asc(self, ddof: int) -> FloatArray:
        """(mean in the group - mean outside) / standard deviation -> (queries, groups), every group having an image."""
        constant = np.flatnonzero(self.squares == 0)
        if constant.size:
            raise MetricError(
                "a query has the same score for every image, so that no standard deviation can be divided by.",
                where=f"scores: query {int(constant[0])}",
                remedy="check the prompt's embedding; a prompt that tells no two images apart has no association",
            )
        huge = np.flatnonzero(~np.isfinite(self.squares))
        if huge.size:
            raise MetricError(
                "a query's scores lie so far apart that their squares overflow.",
                where=f"scores: query {int(huge[0])}",
                remedy="divide the scores by a constant: C-ASC does not depend on their unit",
            )
        images = self.counts.sum()
        # mean - mean outside = (images in the group / images outside) * offset
        difference = self.offset * (images / (images - self.counts))
        association: FloatArray = difference / np.sqrt(self.squares / (images - ddof))[:, None]
        return association


def moments(scores: NDArray[np.floating[Any]], group: IntArray, groups: int) -> Moments:
    """Moments of finite scores (queries, images), at least one image, whose codes (images,) are all defined."""
    queries, images = scores.shape
    counts = np.bincount(group, minlength=groups)
    member = np.eye(groups)[group]
    mean, offset, squares = np.empty(queries), np.empty((queries, groups)), np.empty(queries)
    step = min(queries, max(1, _ranking.CACHED // images))
    space = np.empty((step, images))
    # Overflow ends as squares that are not finite, which `c_asc` refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, queries, step):
            rows = slice(start, start + step)
            middle = _middling(scores[rows])
            score = np.subtract(scores[rows], middle[:, None], out=space[: middle.size])
            sums = score @ member
            shift = sums.sum(axis=1) / images
            mean[rows] = middle + shift
            offset[rows] = (sums / np.maximum(counts, 1) - shift[:, None]) * (counts > 0)
            squares[rows] = np.vecdot(score, score) - images * shift**2
    return Moments(counts, mean, offset, squares)


def _middling(scores: NDArray[np.floating[Any]]) -> FloatArray:
    """A score of each row, near its mean: (rows, images) -> (rows,).

    Cosines crowd near 0.25 and logits near 25: squares are summed after one such score is taken off, and lose no
    digits. It is one of the row's own scores, so that a row of equal scores leaves squares of exactly 0. It lies
    within sqrt(images / 16) deviations of the mean, whatever the order: at least 16 scores lie as far out.
    """
    sample = scores[:, :: max(1, scores.shape[1] // 32)]
    middle: FloatArray = np.sort(sample, axis=1)[:, sample.shape[1] // 2].astype(np.float64)
    return middle
