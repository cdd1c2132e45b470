"""A metric and a probe of somebody else's package, as entry points name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fairgate.metrics import Answers, Cell, Drawn, Measure, Metric, MetricRequest, MetricSettings, MetricSpec
from fairgate.models import Capability
from fairgate.probes import Choice, OpenInstrument, Probe, ProbeScores, Rows, Text


class LowShare(MetricSettings):
    """Below which value an image is low."""

    below: float = Field(gt=0, lt=1)

    def refusal(self, over: str | Sequence[str] | None) -> tuple[str, str, str] | None:
        """Nobody is sure of so much."""
        return ("calls nearly all low.", "lower `below`", "below") if self.below > 0.99 else None


class LowSets(Metric):
    """Share of sets whose lowest member is not low."""

    spec = MetricSpec(
        name="sound_sets",
        display="share of sound sets",
        meaning="share of sets in which no member's value is low",
        probes=("zero_shot_classification", "contrast"),
        better="higher",
    )
    Settings = LowShare

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """A mean over sets, resampled and compared as such."""
        assert isinstance(r.settings, LowShare)
        sound = cell.sets_by_members(answers[0].value[cell.rows]).min(axis=1) >= r.settings.below
        return Measure(
            value=float(sound.mean()),
            draw=lambda counts: Drawn((counts @ sound) / counts.sum(axis=1)),
            badness=1.0 - sound,
            paired=sound[:, None].astype(np.float64),
        )


class ContrastProbe(Probe):
    """Probability of one prompt against another, of every image."""

    needs: ClassVar[Capability] = "log_probabilities"
    answers_as: ClassVar[str] = "zero_shot_classification"

    kind: Literal["contrast"]
    prompt: Text
    against: Text

    def choices(self, subjects: Sequence[str]) -> list[Choice]:
        """The same two for every subject."""
        return [Choice(subject, {"it": self.prompt, "other": self.against}) for subject in subjects]

    def run(self, name: str, model: Any, rows: Rows, open_instrument: OpenInstrument) -> dict[str, ProbeScores]:
        """P(prompt)."""
        return {name: ProbeScores(np.exp(model.log_probabilities([self.prompt, self.against]))[:, 0])}


class NeedsAnswers(ContrastProbe):
    """A probe of what no scorer here can do."""

    needs: ClassVar[str] = "answer"

    kind: Literal["needs_words"]  # type: ignore[assignment]


class TopShare(MetricSettings):
    """The top k of something."""

    k: int = Field(ge=1)


class PrecisionTop(LowSets):
    """A metric of the top k whose name does not say so."""

    spec = replace(LowSets.spec, name="precision_top", display="")
    Settings = TopShare

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """As of a value below 0.7."""
        return super().measure(replace(r, settings=LowShare(below=0.7)), cell, answers)


class PrecisionAtKMean(PrecisionTop):
    """One whose name has it in the middle."""

    spec = replace(PrecisionTop.spec, name="precision_at_k_mean")


class PrecisionAtK(PrecisionTop):
    """One whose name has it at the end, as fairgate's own."""

    spec = replace(PrecisionTop.spec, name="precision_at_k", display="sound")


class ErrorAt1(LowSets):
    """A metric without k whose name ends in a number."""

    spec = replace(LowSets.spec, name="error_at_1")


class Usurper(LowSets):
    """A metric that takes a built-in name."""

    spec = MetricSpec(
        name="accuracy",
        meaning="1",
        probes=("contrast",),
        better="higher",
    )
