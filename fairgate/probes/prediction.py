"""Prediction: which label does a classifier give an attribute that the dataset records (Buolamwini and Gebru 2018)? And
the number that somebody measured of every image: an association, a similarity, a rating (iEAT, GenderBias-VL)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fairgate.data import Manifest, TextColumn
from fairgate.ground.errors import ModelError, listed, nearest
from fairgate.models import Capability, MeasuringModel, PredictingModel, folded
from fairgate.probes.answers import ProbeScores, Rows
from fairgate.probes.contract import OpenInstrument, Probe, dataset_has, register
from fairgate.probes.settings import Name, Text, in_words


@register
class PredictionProbe(Probe):
    """The label that a model gives every image, held against the attribute that the dataset records of it.

    Labels are compared up to case and `_` for a space. A model's label that is no group of the dataset's is an error,
    unless it is among `others`: those are wrong, and so is an image without a label.
    """

    needs: ClassVar[Capability] = "predict"
    answers_as: ClassVar[str] = "prediction"
    views_have_mean: ClassVar[bool] = True
    value_names: ClassVar[Mapping[str, str]] = {"prediction": "right"}

    kind: Literal["prediction"]
    attribute: Name = Field(description="What is predicted: an attribute of the dataset, or `subject`.")
    words: dict[str, Text] = Field(
        default_factory=dict,
        description="The model's label of a group where that is not its name; several groups may share one.",
    )
    others: list[Text] = Field(
        default_factory=list, description="Labels of the model that are no group of the dataset's: always wrong."
    )

    @property
    def named_answers(self) -> tuple[str, ...]:
        return (*self.words.values(), *self.others)

    @property
    def truth_of(self) -> str | None:
        return self.attribute

    def word(self, name: str) -> str:
        """The model's label of a group."""
        return in_words(name, self.words)

    def reworded(self, dataset: Manifest) -> tuple[Collection[str], Sequence[str]]:
        return self.words, dataset.subjects if self.attribute == "subject" else dataset.attributes[self.attribute]

    def require(self, name: str, dataset: Manifest, at: Callable[[str], str]) -> None:
        if self.attribute != "subject":
            dataset_has(self.attribute, f"probe '{name}' predicts", dataset, at("attribute"))

    def truths(self, rows: Rows) -> TextColumn:
        """The label that is right, as it is written."""
        truth = rows.subject if self.attribute == "subject" else rows.attributes[self.attribute]
        return TextColumn.of(truth).renamed(self.word)

    def classes(self, dataset: Manifest) -> tuple[str, ...]:
        """What the groups of the attribute are called; not `others`."""
        groups = () if self.attribute == "subject" else dataset.attributes[self.attribute]
        return tuple(dict.fromkeys(map(self.word, groups)))

    def blind_labels(self, dataset: Manifest | None) -> int | None:
        """As many as the dataset's groups of the attribute are called."""
        if dataset is None:
            return None
        groups = dataset.subjects if self.attribute == "subject" else dataset.attributes[self.attribute]
        return len({self.word(group) for group in groups})

    def blind_share(self, rows: Rows) -> float | None:
        truth = self.truths(rows)
        return float(truth.counts().max()) / len(truth)

    def utility_check(self, name: str) -> str | None:
        return f"id: still-useful, probe: {name}, metric: accuracy"

    def run(
        self, name: str, model: PredictingModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        """1 for a right label, 0 for another or none."""
        truth = self.truths(rows)
        written = {folded(label): label for label in (*self.others, *truth.distinct())}
        given = model.predict(self.attribute).labels
        given = given if isinstance(given, TextColumn) else TextColumn.of([str(text or "") for text in given.tolist()])
        unknown = sorted(text for text in given.distinct() if text and folded(text) not in written)
        if unknown:
            known = list(written.values())
            near = nearest(unknown[0], known)
            hint = f"known: {listed(known)}; " if near is None else f"it may mean '{near}': "
            if near in (*self.words.values(), *self.others):  # the suite's own, which may be mistyped
                hint = f"write '{unknown[0]}' instead of '{near}' in the suite, or "
            raise ModelError(
                f"the model gives labels that are no '{self.attribute}' of the dataset: "
                f"{listed([repr(x) for x in unknown])}.",
                where=f"probe '{name}'",
                remedy=f"{hint}say in the probe's `words` what the model calls a group, and in `others` which labels "
                "are no group",
            )
        predicted = given.renamed(lambda text: written.get(folded(text), "") if text else "")
        correct = predicted == truth
        return {name: ProbeScores(correct.astype(np.float64), predicted, correct, truth=truth)}


@register
class NumberProbe(Probe):
    """Take the number that a table has for every image. Every image needs one: a row that is missing is an error."""

    needs: ClassVar[Capability] = "measure"
    answers_as: ClassVar[str] = "number"
    value_names: ClassVar[Mapping[str, str]] = {"number": "number"}

    kind: Literal["number"]
    column: Text = Field(default="number", description="The column of the table.")

    def utility_check(self, name: str) -> str | None:
        """That numbers still tell images apart as the baseline's do."""
        return f"id: still-useful, probe: {name}, metric: number_agreement"

    def run(
        self, name: str, model: MeasuringModel, rows: Rows, open_instrument: OpenInstrument
    ) -> dict[str, ProbeScores]:
        return {name: ProbeScores(model.measure(self.column))}
