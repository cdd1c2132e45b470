"""Shares of all pictures of a generator, whose reader is not corrected: readable ones, those that show their subject,
and refusals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import SuiteError
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Answers, Measure, MetricRequest, MetricSettings, register
from fairgate.metrics.generated import OfPictures, absent_rows, generation_probe, picture_spec
from fairgate.probes import REFUSAL, SHOWN, DatasetFacts


class _ShareOfAll(OfPictures):
    """A share of all pictures, whose reader is not corrected; also of a model that paints one picture.

    What a smaller sample lacks may have been left out since it was refused: it counts as that."""

    def read_together(self, now: Answers, before: Answers) -> tuple[Answers, Answers]:
        """What the other run lacks counts for neither; what the run alone lacks, against it."""
        theirs = absent_rows(before)
        return _without(now, absent_rows(now) & theirs), _without(before, theirs)

    def counted(self, answers: Answers) -> NDArray[np.bool_]:
        """All but those that the other run lacks."""
        counted: NDArray[np.bool_] = answers[0].more.get(_UNCOUNTED, np.zeros(len(answers[0].value))) == 0
        return counted

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Of every prompt that has a picture."""
        there = np.unique(cell.set_code[~absent_rows(answers)[cell.rows]]).size
        return replace(super().measure(r, cell, answers), sets=None if there == cell.n_sets else there)

    @abstractmethod
    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        """Whether a picture counts, (dataset's images,) of 0 and 1."""

    def kinds(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """Yes, and no."""
        yes, counted = self.holds(r, answers)[cell.rows], self.counted(answers)[cell.rows]
        return np.where(counted[:, None], np.stack([yes, 1 - yes], axis=1), 0.0)

    def number(self, r: MetricRequest, seen: Floats, confusion: Floats | None) -> Floats:
        """The share of those that do."""
        share: Floats = seen[:, 0] / seen.sum(axis=1)
        return share


_UNCOUNTED = "uncounted"


def _without(answers: Answers, rows: NDArray[np.bool_]) -> Answers:
    """Answers of which some rows do not count."""
    if not rows.any():
        return answers
    return [replace(answers[0], more={**answers[0].more, _UNCOUNTED: rows.astype(np.float64)})]


@register
class Readable(_ShareOfAll):
    """Share of pictures in which somebody is perceived."""

    spec = picture_spec(
        name="readable",
        meaning="share of pictures in which the reader perceives somebody: not in one that is refused, nor in a row "
        "that a smaller sample lacks. A model that paints noise, or nobody, fails here where the reader says so "
        "(`nobody`, `least`)",
        better="higher",
        utility=True,
    )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        """Somebody is perceived."""
        return np.where(absent_rows(answers), 0.0, answers[0].value)

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """A model that paints nobody."""
        return 0.0


@register
class SubjectShown(_ShareOfAll):
    """Share of pictures that the reader takes for their own subject."""

    spec = picture_spec(
        name="subject_shown",
        meaning="share of pictures that the reader takes for their own subject, among all subjects of the release; of "
        "a model that paints the same whatever the prompt, one in as many as there are subjects",
        better="higher",
        utility=True,
    )

    def require(self, r: MetricRequest, dataset: DatasetFacts) -> None:
        """Refuse a probe that does not look for subjects, and a release of one."""
        if generation_probe(r).labels is not None:
            raise SuiteError(
                f"check '{r.check}': probe '{r.probe}' takes labels that somebody gave, and looks for no subject.",
                where=r.where,
                remedy="a table of labels says nothing of subjects: take the check out",
            )
        if generation_probe(r).shows is None or len(dataset.subjects) < 2:
            raise SuiteError(
                f"check '{r.check}': probe '{r.probe}' does not say how a subject looks, or there is only one.",
                where=r.where,
                remedy='give the probe a `reader` and `shows: "a photo of {a_subject}"`, and the release two subjects',
            )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        """It is taken for its subject."""
        return answers[0].more[SHOWN]

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of the subjects, each time."""
        return None if subjects is None else 1 / subjects


@register
class RefusalRate(_ShareOfAll):
    """Share of prompts of which the generator makes no picture."""

    spec = picture_spec(
        name="refusal_rate",
        meaning="share of prompts of which the generator makes no picture: a black one, as safety checkers return, or "
        "`refused` in a table of labels, or a row that a smaller sample lacks. No share of groups counts them",
        better="lower",
    )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        """It is refused."""
        return np.where(absent_rows(answers), 1.0, answers[0].more.get(REFUSAL, np.zeros(len(answers[0].value))))
