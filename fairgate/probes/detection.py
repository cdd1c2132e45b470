"""Detection: is the person of each image found? Recall by group (Wilson et al. 2019; Buolamwini and Gebru 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import intersection_over_union
from fairgate.ground.errors import DatasetError
from fairgate.models import LOWEST_SCORE, MOST_BOXES, Capability, DetectingModel, Detections, Floats
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, register
from fairgate.probes.settings import Text


@register
class DetectionProbe(Probe):
    """Look for the person of every image; its number is 1 where one is found, else 0 (Wilson et al. 2019).

    A box counts where its score is at least `threshold`, and where it is among the `best` of its image, as with COCO's
    maxDets: a detector that returns boxes everywhere finds nobody by that. With `place: box` it must overlap with the
    box that the dataset records by `iou`. Next to it: the score and the overlap of the box that fits best, and how many
    other boxes are above the threshold.
    """

    needs: ClassVar[Capability] = "detect"
    answers_as: ClassVar[str] = "detection"
    value_names: ClassVar[Mapping[str, str]] = {"detection": "found"}

    kind: Literal["detection"]
    what: Text = Field(
        default="person",
        description="The class to look for, by the model's own name of it; of a model that reads, a text.",
    )
    place: Literal["box", "anywhere"] = Field(
        default="box",
        description="Whether what is found must lie where the dataset records it (columns `box_left`, `box_top`, "
        "`box_right`, `box_bottom`), or may be anywhere in the image.",
    )
    threshold: float = Field(gt=LOWEST_SCORE, lt=1, description="The lowest score of a box that counts.")
    iou: float = Field(default=0.5, gt=0, lt=1, description="The smallest intersection over union, with `place: box`.")
    best: int = Field(
        default=1,
        ge=1,
        le=MOST_BOXES,
        description="How many boxes of an image are looked at, the highest scores first.",
    )

    @property
    def no_views(self) -> str | None:
        """With `place: box`, the dataset knows where the person is in the picture itself alone."""
        return None if self.place == "anywhere" else "the recorded box is not where a view shows the person"

    def texts(self, subjects: Sequence[str]) -> list[str]:
        return [self.what]

    def blind_labels(self, dataset: Manifest | None) -> int:
        """What a model guesses that never looks is not known: places have no number."""
        return 2

    def utility_check(self, name: str) -> str | None:
        """That people are found at all, of every group."""
        return f"id: finds, probe: {name}, metric: detection_recall, over: each"

    def run(
        self, name: str, model: DetectingModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """Whether somebody is found in each image, and what else is."""
        images = len(rows.set_id)
        detections = model.detect(self.what)
        # boxes lie by image, the highest score first
        rank = np.arange(len(detections.row)) - np.searchsorted(detections.row, detections.row)
        overlap = self._overlap(detections, rows) if self.place == "box" else np.ones(len(detections.row))
        counted = (detections.score >= self.threshold) & (rank < self.best)
        fits = (overlap >= self.iou) & (rank < self.best)
        hit = np.bincount(detections.row[counted & fits], minlength=images) > 0
        above = np.bincount(detections.row[detections.score >= self.threshold], minlength=images)
        more = {
            "score": _highest(detections.score, detections.row, fits, images),
            "false_boxes": (above - hit).astype(np.float64),
        }
        if self.place == "box":
            more["iou"] = _highest(overlap, detections.row, counted, images)
        return {name: ProbeScores(hit.astype(np.float64), more=more)}

    def _overlap(self, detections: Detections, rows: Rows) -> Floats:
        """Of every box with the box that the dataset records for its image, (boxes,). Raises DatasetError."""
        recorded = getattr(rows, "boxes", lambda: None)()
        if recorded is None:
            raise DatasetError(
                "the dataset records no boxes (box_left, box_top, box_right, box_bottom).",
                where="place: box",
                remedy="use a release with boxes, or write `place: anywhere`, by which a box anywhere is enough",
            )
        if not len(detections.row):
            return np.zeros(0)
        return intersection_over_union(detections.corners, cast(Floats, recorded)[detections.row])


def _highest(numbers: Floats, row: NDArray[np.int64], chosen: NDArray[np.bool_], images: int) -> Floats:
    """The highest number of each image's chosen boxes, (images,); 0 where there is none."""
    highest = np.zeros(images)
    np.maximum.at(highest, row[chosen], numbers[chosen])
    return highest
