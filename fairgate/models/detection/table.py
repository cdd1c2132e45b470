"""`detections:FILE`: boxes that someone computed before. No torch.

A CSV or Parquet table with a row per box: the image (`set_id` and `member`, or `image`, `file` or `path`), `label`,
`score`, and `left`, `top`, `right`, `bottom` in pixels. An image without a box has one row with an empty score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ScoresError, did_you_mean, listed
from fairgate.ground.hashing import digest, sha256_file
from fairgate.models.contract import (
    LOWEST_SCORE,
    MOST_BOXES,
    Capability,
    Detections,
    Floats,
    Request,
    Rows,
    register,
)
from fairgate.models.family import Precomputed, TableFamily
from fairgate.models.score_table import read_boxes

CORNERS = ("left", "top", "right", "bottom")


@register
class DetectionTables(TableFamily):
    """Tables of boxes that someone computed before."""

    scheme: ClassVar[str] = "detections"
    forms: ClassVar[tuple[str, ...]] = ("detections:FILE",)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"detect"})

    def open(self, request: Request) -> PrecomputedBoxes:
        """Open a table. Raises ScoresError: unreadable, images missing or foreign, boxes that are none."""
        path, _ = self.table(request)
        fingerprint = digest({"file": sha256_file(path), "boxes": 1})
        table, labels, rows = read_boxes(path, request.source.index, MOST_BOXES)
        score = table.column("score", (0, 1))
        corners = np.stack([table.column(name, None) for name in CORNERS], axis=1).reshape(-1, 4)
        wrong = np.flatnonzero((corners[:, 2] <= corners[:, 0]) | (corners[:, 3] <= corners[:, 1]))
        if wrong.size:
            raise ScoresError(
                f"{wrong.size} boxes have no area, such as those of {table.names(wrong)}.",
                where=str(path),
                remedy="write `right` above `left` and `bottom` above `top`, in pixels from the upper left corner",
            )
        return PrecomputedBoxes(request.uri, fingerprint, path, np.array(labels, dtype=object), rows, score, corners)


@dataclass(frozen=True)
class PrecomputedBoxes(Precomputed):
    """A model that only looks up: of every box its label, its image's row, score and corners."""

    capabilities: ClassVar[frozenset[Capability]] = DetectionTables.capabilities

    path: Path
    label: NDArray[np.object_] = field(repr=False)
    row: Rows = field(repr=False)
    score: Floats = field(repr=False)
    corners: Floats = field(repr=False)
    preparation: ClassVar[str] = "detections/1"

    def detect(self, what: str) -> Detections:
        """The best boxes of a label. Raises ScoresError for one that no box has."""
        named = self.label == what
        if not named.any():
            labels = sorted(set(self.label.tolist()))
            raise ScoresError(
                f"no box of the table has the label '{what}'.",
                where=str(self.path),
                remedy=did_you_mean(what, labels) or f"its labels: {listed(labels, 8)}",
            )
        chosen = np.flatnonzero(named & (self.score > LOWEST_SCORE))
        chosen = chosen[np.lexsort((-self.score[chosen], self.row[chosen]))]
        row = self.row[chosen]
        place = np.arange(len(row)) - np.searchsorted(row, row)  # among the boxes of its image
        chosen = chosen[place < MOST_BOXES]
        return Detections(self.row[chosen], self.score[chosen], self.corners[chosen])
