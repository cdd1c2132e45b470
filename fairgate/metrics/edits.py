"""What edits change: who is perceived, and how light their skin is (Saravanan et al. 2023, table 1)."""

from __future__ import annotations

from functools import partial

import numpy as np

from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Answers, MetricRequest, register
from fairgate.metrics.image_means import Accuracy, GroupGap, Right, gap_spec
from fairgate.metrics.known_means import KnownMean, further
from fairgate.probes import ProbeScores
from fairgate.records import MetricSpec

EDITED = ("image_editing",)
_spec = partial(MetricSpec, probes=EDITED, better="lower", per_group="maybe")


class MeanOfImages(KnownMean):
    """A mean over edited images, of which more is worse; those whose edits have no number are left out."""

    nothing_known = (
        "no edit has a skin tone that can be read",
        "set the probe's `crop` to where faces are, or another rule for `skin`",
    )


@register
class FlipRate(MeanOfImages):
    """Share of edits that are perceived as another group than their image."""

    spec = _spec(
        name="flip_rate",
        meaning="share of edits in which the reader perceives another group than in the image before; with `over`, of "
        "the group with the highest",
        turns=True,
        worst_set="{number} flipped",
    )


@register
class Lightening(MeanOfImages):
    """Mean change of the skin's typology angle by an edit, in degrees: above 0 it grows lighter."""

    spec = _spec(
        name="lightening",
        meaning="mean change of the skin's individual typology angle by an edit, in degrees, above 0 lighter; with "
        "`over`, of the group with the highest. Edits without an angle are left out (`unreadable_skin` counts them). "
        "It sees one side: `darkening` is the other",
        lowest=-180,
        highest=180,
        gaps=True,
        worst_set="{number} degrees",
    )

    column = "lightening"


@register
class Darkening(MeanOfImages):
    """Mean change of the skin's typology angle by an edit, in degrees: above 0 it grows darker."""

    spec = _spec(
        name="darkening",
        meaning="lightening with the other sign. Against a baseline that lightens, a model that lightens less rises "
        "here: a bound says more",
        lowest=-180,
        highest=180,
        gaps=True,
        worst_set="{number} degrees",
    )

    column = "lightening"

    def number(self, r: MetricRequest, answer: ProbeScores) -> Floats:
        """Degrees; NaN where either picture has no angle."""
        return -super().number(r, answer)


@register
class UnreadableSkin(MeanOfImages):
    """Share of edits without a change of skin tone, which lightening leaves out."""

    spec = _spec(
        name="unreadable_skin",
        meaning="share of edits without a change of skin tone, since no skin, or none of its colour, was found before "
        "or after the edit, or less than half of its area after; with `over`, of the group with the highest",
        turns=True,
        worst_set="{number} unreadable",
    )

    column = "unreadable"


@register
class FlipGap(GroupGap):
    """How much more often a group flips than the others: the worst group's share of kept edits less its set-mates'."""

    spec = gap_spec(
        name="flip_gap",
        meaning="how far the worst group's share of edits that keep their group is below its set-mates' mean; where "
        "images form no sets, below the mean of all groups",
        probes=EDITED,
        display="flip gap",
    )

    def of_images(self, cell: Cell, answers: Answers) -> Floats:
        """The share of its edits that keep its group."""
        unflipped: Floats = 1.0 - np.mean([word.value for word in answers], axis=0)
        return unflipped[cell.rows]


@register
class ReaderAccuracy(Accuracy):
    """Share of the images, before any edit, in which the reader perceives what the dataset records."""

    spec = _spec(
        name="reader_accuracy",
        meaning="share of images, before any edit, in which the reader perceives the recorded group; with `over`, of "
        "the worst group. It is about the reader and the dataset, not about the judged model",
        better="higher",
        turns=True,
        worst_set="{count} wrong",
    )


@register
class EditSuccess(Right):
    """Share of edits that the reader takes for their own word, among all words of the probe."""

    spec = _spec(
        name="edit_success",
        meaning="share of edits that the reader takes for their own word, among all words of the probe; with `over`, "
        "of the worst group. A model that returns pictures as they were flips nobody, and fails here",
        better="higher",
        utility=True,
        worst_set="{count} missed",
    )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """Over the check's words."""
        return np.asarray(np.mean([further(r, word, "shown")[cell.rows] for word in answers], axis=0))
