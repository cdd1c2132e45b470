"""Whom a detector finds: recall of persons by group, gaps between groups, and boxes of nobody."""

from __future__ import annotations

from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Answers, MetricRequest, MetricSettings, register
from fairgate.metrics.image_means import GroupGap, Right, gap_spec
from fairgate.metrics.known_means import KnownMean
from fairgate.models import MOST_BOXES
from fairgate.records import MetricSpec

DETECTED = ("detection",)


@register
class DetectionRecall(Right):
    """Share of images whose person is found."""

    spec = MetricSpec(
        name="detection_recall",
        meaning="share of images whose person the detector finds; with `over`, of the worst group",
        probes=DETECTED,
        better="higher",
        per_group="maybe",
        utility=True,
        turns=True,
        averaged=True,
        worst_set="{count} missed",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        return answers[0].value[cell.rows]

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """A detector that never finds anybody. One that returns boxes everywhere is not seen here: `false_boxes`."""
        return 0.0


@register
class DetectionGap(GroupGap):
    """How much less often a group is found than the others."""

    spec = gap_spec(
        name="detection_gap",
        meaning="how far the worst group's recall is below its set-mates' mean; where images form no sets, below the "
        "mean of all groups",
        probes=DETECTED,
        display="detection gap",
    )


@register
class FalseBoxes(KnownMean):
    """Boxes above the threshold, other than the one of the person, per image."""

    spec = MetricSpec(
        name="false_boxes",
        meaning="boxes above the threshold that are not the person's, or are a second one of it, per image; with "
        "`over`, of the group with the most. At most 100 boxes of an image count",
        probes=DETECTED,
        better="lower",
        lowest=0,
        highest=MOST_BOXES,
        averaged=True,
        per_group="maybe",
        worst_set="{number} boxes of nobody",
    )

    column = "false_boxes"
