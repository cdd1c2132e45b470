"""Which edited images lie among real ones of the group they were edited to: GenSynth's nearest-neighbour filter.

Smith et al. 2023 ("Balancing the Picture"), section 4.2, eqs. 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairgate.formulas.metrics import _ranking
from fairgate.formulas.metrics._checks import BoolArray, FloatArray, IntArray, codes, finite
from fairgate.ground.errors import MetricError


@dataclass(frozen=True, slots=True)
class NeighbourShares:
    """The k nearest neighbours of each judged synthetic image, among real and synthetic images."""

    real: FloatArray
    """(judged,), P_R: share of real images, 0 to 1."""
    group: FloatArray
    """(judged,), P_G: share of images of the synthetic image's own target group, 0 to 1."""

    def exceed(self, tau_real: float, tau_group: float, *, inclusive: bool = False) -> BoolArray:
        """Eq. 5, (judged,): both shares are above their threshold; `inclusive` takes >= for both."""
        accepted: BoolArray
        if inclusive:
            accepted = (self.real >= tau_real) & (self.group >= tau_group)
        else:
            accepted = (self.real > tau_real) & (self.group > tau_group)
        return accepted


def neighbour_shares(
    real: ArrayLike,
    real_group: ArrayLike,
    synthetic: ArrayLike,
    target_group: ArrayLike,
    *,
    k: int,
    group_k: int | None = None,
    judged: ArrayLike | None = None,
    include_self: bool = False,
) -> NeighbourShares:
    """P_R and P_G around each synthetic image: real (images, dim) and synthetic (synthetic, dim) embeddings.

    Euclidean distance in the embeddings as they are given; equal distances by position, real images first. real_group
    (images,) codes, -1 undefined and of nobody's group; target_group (synthetic,) codes, which a synthetic neighbour
    counts by. `group_k`, where given, is the number of neighbours for P_G. `judged` holds the positions of synthetic
    images whose shares are returned; without it, all. `include_self` lets an image be its own nearest neighbour. Smith
    et al. 2023, eq. 4. Raises MetricError for numbers not finite, shapes that do not fit and a k that the other images
    do not have.

    >>> shares = neighbour_shares([[0.0], [1.0], [5.0]], np.array([0, 0, 1]), [[0.4], [5.2]], np.array([0, 1]), k=2)
    >>> shares.real, shares.group
    (array([1., 1.]), array([1. , 0.5]))
    """
    known = finite("real", real, ("images", "dim"))
    made = finite("synthetic", synthetic, ("images", "dim"))
    if known.shape[1] != made.shape[1]:
        raise MetricError(
            f"real embeddings have {known.shape[1]} dimensions, synthetic ones {made.shape[1]}.",
            where="synthetic",
            remedy="embed both with one model",
        )
    group = np.concatenate(
        [
            codes("real_group", real_group, size=len(known), groups=None),
            codes("target_group", target_group, size=len(made), groups=None, undefined=False),
        ]
    )
    others = len(known) + len(made) - (0 if include_self else 1)
    for name, wanted in (("k", k), ("group_k", k if group_k is None else group_k)):
        if not 1 <= wanted <= others:
            raise MetricError(
                f"{name} is {wanted}, but an image has {others} possible neighbours.",
                where=name,
                remedy=f"choose {name} between 1 and {others}",
            )
    positions = np.arange(len(made))
    if judged is not None:
        positions = codes("judged", judged, size=np.size(judged), groups=len(made), undefined=False)
    images = len(known) + positions
    pool = np.concatenate([known, made]).astype(np.float64)
    of_group = k if group_k is None else group_k
    near = _nearest(pool, images, max(k, of_group), include_self=include_self)
    return NeighbourShares(
        real=(near[:, :k] < len(known)).mean(axis=1),
        group=(group[near[:, :of_group]] == group[images, None]).mean(axis=1),
    )


def _nearest(pool: FloatArray, images: IntArray, k: int, *, include_self: bool) -> IntArray:
    """Positions in the pool of the k nearest to each of some of its images, (images, k): distance, then position."""
    square = np.einsum("id,id->i", pool, pool)
    # |x - y|^2 = |x|^2 - 2xy + |y|^2 is one matrix product, but rounds: it proposes, and exact differences decide.
    slack = 16.0 * pool.shape[1] * np.finfo(np.float64).eps * float(square.max())
    near = []
    step = max(1, _ranking.CHUNK // len(pool))
    for start in range(0, len(images), step):
        own = images[start : start + step]
        block = pool[own]
        rough = square - 2.0 * (block @ pool.T) + square[own, None]
        if not include_self:
            rough[np.arange(len(own)), own] = np.inf
        edge = np.partition(rough, k - 1, axis=1)[:, k - 1] + slack
        for row, image in enumerate(block):
            candidates = np.flatnonzero(rough[row] <= edge[row])
            exact = np.square(pool[candidates] - image).sum(axis=1)
            near.append(candidates[np.argsort(exact, kind="stable")[:k]])
    return np.stack(near)


def knn_accept(
    real: ArrayLike,
    real_group: ArrayLike,
    synthetic: ArrayLike,
    target_group: ArrayLike,
    *,
    k: int,
    tau_real: float,
    tau_group: float,
    include_self: bool = False,
    inclusive: bool = False,
) -> BoolArray:
    """Which synthetic images look real *and* like the group they were edited to: bool (synthetic,).

    P_R > tau_real and P_G > tau_group among the k nearest (`neighbour_shares`); `inclusive` takes >= for both. Smith et
    al. 2023, eq. 5; they use k=50, tau_real=0.08, tau_group=0.5 on CLIP embeddings of person boxes. Raises MetricError
    as `neighbour_shares` does, and for a threshold outside 0 to 1.

    >>> real, target = [[0.0], [1.0], [5.0]], np.array([0, 1])
    >>> knn_accept(real, np.array([0, 0, 1]), [[0.4], [5.2]], target, k=2, tau_real=0.5, tau_group=0.5)
    array([ True, False])
    """
    for name, threshold in (("tau_real", tau_real), ("tau_group", tau_group)):
        if not 0.0 <= threshold <= 1.0:
            raise MetricError(f"{name} is {threshold}.", where=name, remedy="pass a share of neighbours, 0 to 1")
    shares = neighbour_shares(real, real_group, synthetic, target_group, k=k, include_self=include_self)
    return shares.exceed(tau_real, tau_group, inclusive=inclusive)
