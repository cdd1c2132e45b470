"""C-ASC of a query under resampled sets, from sums per set: no image is touched twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairgate.suites.cell import Counts, Floats
from fairgate.suites.queries import Query


def association_of(query: Query) -> Callable[[Counts], list[tuple[Floats, Floats]]]:
    """Set multiplicities (draws, sets) to, for every grouping, C-ASC of its groups: (draws, 2 groups) of both signs, as
    the check is held to the largest size, and (draws, groups).

    `fairgate.metrics.c_asc` of every resampled gallery, with the sample standard deviation. NaN for a group without an
    image.
    """
    # Similarities lie close together and far from 0: centred first, sums of squares lose no digits.
    score = query.similarity - query.similarity.mean()
    groups = len(query.groupings[0].of)
    cell = query.sets * groups + query.joint
    sums = np.bincount(cell, score, minlength=query.n_sets * groups).reshape(query.n_sets, groups)
    squares = np.bincount(query.sets, score**2, minlength=query.n_sets)
    table = np.concatenate([sums, query.held, squares[:, None]], axis=1)  # multiplied once: reading counts is the cost

    def draw(counts: Counts) -> list[tuple[Floats, Floats]]:
        drawn = counts.astype(np.float64) @ table
        total, images, square = drawn[:, :groups], drawn[:, groups:-1], drawn[:, -1:]
        all_sum, all_images = total.sum(axis=1, keepdims=True), images.sum(axis=1, keepdims=True)
        variance = (square - all_sum**2 / all_images) / (all_images - 1)
        found = []
        for grouping in query.groupings:
            inside, members = grouping.fold(total), grouping.fold(images)
            with np.errstate(divide="ignore", invalid="ignore"):
                apart = inside / members - (all_sum - inside) / (all_images - members)
                association = apart / np.sqrt(variance)
            found.append((np.concatenate([association, -association], axis=1), association))
        return found

    return draw
