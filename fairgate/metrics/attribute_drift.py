"""Do edits add what no prompt named, such as a beard or pink clothes? By a reader that is wrong at times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import corrected_change
from fairgate.ground.errors import SuiteError, suggestion
from fairgate.ground.hashing import sha256_bytes
from fairgate.ground.randomness import stream
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import Answers, Drawn, Limits, Measure, MetricRequest, MetricSettings, register
from fairgate.metrics.generated import drawn_readers
from fairgate.metrics.known_means import KnownMean, further
from fairgate.probes import ImageEditingProbe, ProbeScores, WatchedAttribute, gained_column
from fairgate.records import CROSS, MetricSpec

_LEAST = 1e-3
"""Of a drawn reader, the least difference of its rates: one that tells nothing apart makes a change of any size."""


class WatchedLabel(MetricSettings):
    """What edits may add."""

    attribute: str = Field(description="An attribute that the probe has in `watched`.")
    label: str | None = Field(
        default=None, description="Which of its two labels edits may add; left out, the first one."
    )

    @property
    def counted(self) -> str:
        return self.attribute if self.label is None else f"{self.attribute} ({self.label})"


@register
class AttributeDrift(KnownMean):
    """How much more often a label is seen in edits than in the images before."""

    spec = MetricSpec(
        name="attribute_drift",
        meaning="share of edits that show the `label` of a watched `attribute`, less that of the images before, "
        "corrected for the reader's measured error; with `over`, of the group that gains most. Edits that add and "
        "edits that remove it cancel, and it sees one side: `label` turns it",
        probes=("image_editing",),
        better="lower",
        per_group="maybe",
        lowest=-1,
        highest=1,
        worst_set="{number} perceived",
    )
    Settings = WatchedLabel

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse an attribute that the probe does not watch, and a label that it does not have."""
        assert isinstance(r.asked, ImageEditingProbe)
        settings = r.settings_of(WatchedLabel)
        watched = r.asked.watched
        if settings.attribute not in watched:
            raise SuiteError(
                f"check '{r.check}' is about '{settings.attribute}', which probe '{r.probe}' does not watch.",
                where=r.at("attribute"),
                remedy=suggestion(settings.attribute, watched, f"watched: {', '.join(watched)}")
                if watched
                else "give the probe `watched`: attributes, each with the reader's `labels` with and without it",
            )
        labels = watched[settings.attribute].labels
        if settings.label is not None and settings.label not in labels:
            raise SuiteError(
                f"check '{r.check}' is about the label '{settings.label}', which '{settings.attribute}' does not have.",
                where=r.at("label"),
                remedy=suggestion(settings.label, labels, f"labels: {', '.join(labels)}"),
            )

        over = watched[settings.attribute].over
        if over is not None and not (r.crossings and all(over in crossing for crossing in r.crossings)):
            raise SuiteError(
                f"the reader's error about '{settings.attribute}' was measured over {over}, and check '{r.check}' is "
                "over other groups.",
                where=r.at("over"),
                remedy=f"give the check `over: {over}`, or an attribute crossed with it",
            )

    def number(self, r: MetricRequest, answer: ProbeScores) -> Floats:
        """1 where an edit gains the label, -1 where it loses it; of several edits the mean, (images,)."""
        first = next(iter(_watched(r).labels))
        gained = further(r, answer, gained_column(r.settings_of(WatchedLabel).attribute))
        return gained if _label(r) == first else -gained

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """As it is perceived, or corrected; resamples of images then meet readers as they may be, too."""
        perceived = super().measure(r, cell, answers)
        known, draw, in_blocks = _known(r, cell), perceived.draw, perceived.in_blocks
        assert in_blocks is not None

        def drawn(plain: Drawn, counts: Counts) -> Drawn:
            return _as_it_may_be(plain, perceived, cell.n_sets, known, counts)

        measured = replace(
            perceived,
            draw=lambda counts: drawn(draw(counts), counts),
            in_blocks=lambda counts, unit: drawn(in_blocks(counts, unit), counts),
        )
        if known is None:
            return measured
        groups = corrected_change(perceived.group_values, known) if cell.groups else perceived.group_values
        return replace(
            measured,
            value=float(np.fmax.reduce(groups if cell.groups else corrected_change([perceived.value], known))),
            group_values=groups,
            parts=((groups,),) if cell.groups else (),
            paired=None,  # the reader's error is in the resamples alone
            weights=None,
            resampled="groups",
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Whether the reader's error is in it."""
        limits = super().interval(r, cell, now, drawn, alpha)
        known = _watched(r).measured is not None
        error = "with the reader's error" if known else "the reader's error was not measured, and is not in it"
        return replace(limits, how=f"{limits.how}; {error}")


def _as_it_may_be(plain: Drawn, now: Measure, n_sets: int, known: Floats | None, sets: Counts) -> Drawn:
    """Resamples with one more set each, which may gain or lose the label: of forty edits that change nothing, the next
    one may. Then corrected by a drawn reader. The same `sets` meet the same set and reader in both runs that are
    compared."""
    rng, draws = stream(0, "drift", sha256_bytes(np.ascontiguousarray(sets).tobytes())), len(plain.value)
    sizes = np.maximum(now.group_sets if now.groups else n_sets, 1)
    more = rng.integers(-1, 2, (draws, max(len(now.groups), 1))) * rng.standard_exponential((draws, 1)) / sizes
    told_apart = np.ones((draws, 1))
    if known is not None:
        tables, of_group = np.unique(known, axis=0, return_inverse=True)
        told_apart = np.stack([_told_apart(table, draws, rng) for table in tables], axis=1)[:, of_group.ravel()]
    if plain.groups is None:
        return Drawn(np.clip((plain.value[:, None] + more) / told_apart, -1.0, 1.0)[:, 0])
    groups = np.clip((plain.groups + more) / told_apart, -1.0, 1.0)
    return Drawn(np.fmax.reduce(groups, axis=1), groups, ((groups,),))


def _told_apart(known: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """How often drawn readers see the label more often where it is, (draws,), from counts (2, 2)."""
    readers = drawn_readers(np.pad(known, ((0, 0), (0, 1))), draws, rng)
    assert readers is not None
    return np.maximum(readers[:, 0, 0] - readers[:, 1, 0], _LEAST)


def _known(r: MetricRequest, cell: Cell) -> Floats | None:
    """The counts that every group is corrected by, (groups, 2, 2), or one for all; None where none were made."""
    watched, label = _watched(r), _label(r)
    if watched.measured is None:
        return None
    if watched.over is None:
        return watched.confusion(label)[None]
    parts = [
        name.split(CROSS)[crossing.index(watched.over)]
        for crossing, names in zip(r.crossings, cell.groups, strict=True)
        for name in names
    ]
    return np.stack([watched.confusion(label, part) for part in parts])


def _watched(r: MetricRequest) -> WatchedAttribute:
    assert isinstance(r.asked, ImageEditingProbe)
    return r.asked.watched[r.settings_of(WatchedLabel).attribute]


def _label(r: MetricRequest) -> str:
    """The label that edits may add."""
    return r.settings_of(WatchedLabel).label or next(iter(_watched(r).labels))
