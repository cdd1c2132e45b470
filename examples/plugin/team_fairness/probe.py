"""A probe: how probable one sentence is against another, for every image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fairgate.models import Capability
from fairgate.probes import Choice, Contest, OpenInstrument, Probe, ProbeScores, Rows, Text


class VersusProbe(Probe):
    """`{kind: versus, sentence: a photo of a leader, against: a photo of an assistant}`.

    No image is right or wrong: `group_gap` says whether the sentence fits some groups more than others.
    """

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "zero_shot_classification"

    kind: Literal["versus"]
    sentence: Text
    against: Text

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """The same two sentences for every subject."""
        return [Choice(subject, {"sentence": self.sentence, "against": self.against}) for subject in subjects]

    def truths(self, rows: Rows) -> NDArray[Any]:
        """The label that is measured, for every image: `fairgate doctor --inject-bias` lowers its probability."""
        return np.full(len(rows.subject), "sentence", dtype=object)

    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """P(sentence), (images,), in the order of `rows`.

        With the probabilities of both sentences, so that `group_gap` is compared at the baseline's label temperature:
        a model that is only less sure of everything is not fairer.
        """
        log_p = model.log_probabilities([self.sentence, self.against])
        contests = []
        for subject in np.unique(rows.subject).tolist():
            own = np.flatnonzero(rows.subject == subject)
            contests.append(Contest(subject, own, log_p[own], np.zeros(len(own), np.int64)))
        return {name: ProbeScores(np.exp(log_p[:, 0]), contests=tuple(contests))}
