"""Set-bootstrap draws of measures, every one under the same resampled sets. Sets are resampled, never rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairgate.measures.contract import Drawn, Measure
from fairgate.statistics import Resamples, set_count_chunks


def resample(measures: Sequence[Measure], n_sets: int, draws: int, sets: Resamples) -> list[Drawn]:
    """`draws` resamples of each measure's statistic."""
    chunks: list[list[Drawn]] = [[] for _ in measures]
    for counts in set_count_chunks(n_sets, draws, sets):
        for found, one in zip(chunks, measures, strict=True):
            found.append(one.draw(counts))
    return [_joined(found) for found in chunks]


def _joined(chunks: Sequence[Drawn]) -> Drawn:
    groups = [chunk.groups for chunk in chunks if chunk.groups is not None]
    parts = tuple(
        tuple(np.concatenate(queries) for queries in zip(*groupings, strict=True))
        for groupings in zip(*(chunk.parts for chunk in chunks), strict=True)
    )
    return Drawn(np.concatenate([chunk.value for chunk in chunks]), np.concatenate(groups) if groups else None, parts)
