"""The top k of a query under resampled sets: ranked once, counted again with every draw's multiplicities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.errors import MetricError
from fairgate.metrics import ndkl_at_k_weighted, ranking
from fairgate.suites.cell import Counts, Floats
from fairgate.suites.queries import Grouping, Query


@dataclass(frozen=True, slots=True)
class RankedGallery:
    """A query's images, best first: `joint` and `sets` (images,) in ranking order, `held` (sets, joint groups)."""

    joint: NDArray[np.int64]
    sets: NDArray[np.int64]
    held: Floats
    k: int

    @classmethod
    def of(cls, query: Query, k: int) -> RankedGallery:
        """Rank a query's gallery. Raises MetricError as the ranking metrics do."""
        anybody = (np.arange(len(query.joint)) > 0).astype(np.int64)  # an order of images does not depend on groups
        order = ranking(query.similarity[None, :], anybody, k, groups=2)[0]
        return cls(query.joint[order], query.sets[order], query.held, k)

    def present(self, counts: Counts) -> Floats:
        """Images of each joint group in every resampled gallery: counts (draws, sets) -> (draws, joint groups)."""
        return np.asarray(counts.astype(np.float64) @ self.held)

    def shown(self, counts: Counts) -> Floats:
        """Images of each joint group in the top k of every resampled gallery: (draws, sets) -> (draws, joint groups).

        Multiplicities average one, so that a prefix little longer than k nearly always holds the top k of all draws.
        """
        images, groups = len(self.joint), self.held.shape[1]
        by_set = np.ascontiguousarray(
            counts.T, dtype=np.float32
        )  # whole numbers below 2^24: exact, and half the memory
        prefix = min(images, 2 * self.k + 50)
        weights = by_set[self.sets[:prefix]]
        reached = np.cumsum(weights, axis=0)
        while prefix < images and reached[-1].min() < self.k:
            prefix = min(images, 2 * prefix)
            weights = by_set[self.sets[:prefix]]
            reached = np.cumsum(weights, axis=0)
        if reached[-1].min() < self.k:
            raise MetricError(
                f"the top {self.k} was asked of a resampled gallery with {reached[-1].min():.0f} images.",
                where="resampled sets",
                remedy="choose a smaller k: sets differ in size, and some resamples draw the small ones",
            )
        reached -= weights
        np.subtract(self.k, reached, out=reached)  # places that are left when an image's turn comes
        places = np.clip(weights, 0, np.maximum(reached, 0, out=reached), out=weights)
        member = (np.arange(groups)[:, None] == self.joint[:prefix]).astype(np.float32)
        return np.asarray((member @ places).T, dtype=np.float64)

    def ndkl(self, counts: Counts, grouping: Grouping, present: Floats, desired: str) -> Floats:
        """NDKL@k (draws,) of one grouping, of which `present` (draws, groups) are in the resampled galleries."""
        labels, weights = grouping.of[self.joint], counts[:, self.sets]
        return ndkl_at_k_weighted(labels, weights, self.k, groups=grouping.size, desired=desired, present=present)
