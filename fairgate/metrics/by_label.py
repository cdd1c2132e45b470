"""F1 and balanced accuracy: how well labels are found, which one frequent label does not decide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import balanced_accuracy, f1_by_label, macro_f1
from fairgate.ground.errors import ScoresError, SuiteError, did_you_mean, listed
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    PREDICTED,
    Answers,
    Measure,
    MetricRequest,
    MetricSettings,
    Units,
    register,
)
from fairgate.metrics.limits import OfWorstGroup, in_units, measure_groups
from fairgate.models import folded
from fairgate.probes import PredictionProbe, ProbeScores, Text
from fairgate.records import MetricSpec

Codes = NDArray[np.int64]


class OfLabel(MetricSettings):
    """Which label is looked for."""

    label: Text | None = Field(
        default=None, description="The label that is looked for, in the dataset's word or the model's; left out, all."
    )

    @property
    def counted(self) -> str | None:
        return None if self.label is None else f"'{self.label}'"


_spec = partial(MetricSpec, probes=PREDICTED, better="higher", per_group="maybe", truth=True)


class _ByLabel(OfWorstGroup):
    """A number of how many images have each label, how many were given it, and how many both.

    A label that few images have is seen in few, however many the others are: a value, or a group's, is judged by the
    sets that hold images of its rarest label.
    """

    Settings = OfLabel

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse groups of the attribute that the labels are of: inside each, all images have the same one."""
        if any(r.truth_of in crossing for crossing in r.crossings):
            raise SuiteError(
                f"check '{r.check}' measures {r.metric} over {r.truth_of}, which the probe '{r.probe}' predicts: all "
                "images of a group have one label.",
                where=r.at("over"),
                remedy="name other attributes in `over`; how often each label is found is `metric: accuracy` over "
                f"{r.truth_of}",
            )

    @abstractmethod
    def of_counts(self, hits: Floats, given: Floats, actual: Floats, of_one: bool) -> Floats:
        """The number, (...), of counts (..., labels): of all labels, or of one label (`of_one`) and the rest."""

    @abstractmethod
    def evidence(self, sets_with_label: Codes, label: str | None) -> tuple[Codes, str]:
        """By how many sets each group is judged, (groups,), of those that hold images of every label (groups, labels),
        and what they hold: `label` is the one that is looked for, the first of two, None: all are."""

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Of all images, or of the worst group's. Raises ScoresError where no image has the label, or all have it."""
        truth, given, labels = _coded(r, cell, answers[0])
        of_one = r.settings_of(OfLabel).label is not None
        codings = list(zip(cell.group_codes, map(len, cell.groups), strict=True)) or [(np.zeros_like(truth), 1)]
        tables = [(_tables(cell, codes * labels, truth, given, n * labels), (n, labels)) for codes, n in codings]

        def values(drawn: Counts, unit: Units) -> Floats:
            weight = drawn.astype(np.float64).T
            groupings = []
            for tables_of_grouping, shape in tables:
                of_units = (in_units(table.T, unit).T for table in tables_of_grouping)
                hits, given_, actual = ((table @ weight).T.reshape(-1, *shape) for table in of_units)
                groupings.append(self.of_counts(hits, given_, actual, of_one))
            return np.concatenate(groupings, axis=1)

        now = values(np.ones((1, cell.n_sets), dtype=np.int32), None)[0]
        if np.isnan(now).all():
            raise ScoresError(
                f"check '{r.check}' has no value: no images, in any of its groups, are of the label and of others.",
                where=r.where,
                remedy="leave out `label`, or look at images of several labels",
            )
        missed = np.bincount(cell.set_code, truth != given, minlength=cell.n_sets).astype(np.float64)
        with_label = [(actual > 0).sum(axis=1).astype(np.int64).reshape(shape) for (*_, actual), shape in tables]
        sets_with_label = np.concatenate(with_label)
        evidence, of = self.evidence(sets_with_label, r.settings_of(OfLabel).label)
        more: dict[str, Any] = {"sets": int(evidence[0])}
        if cell.groups:
            more = {"resampled": "groups", "blocks": tuple(n for _, n in codings)}
        return measure_groups(cell, values, now, missed, "min", group_sets=evidence, evidence=of, **more)


@register
class F1(_ByLabel):
    """F1 of a label, or the mean of all labels'."""

    spec = _spec(
        name="f1",
        meaning="harmonic mean of precision and recall of one `label`; without it, the mean over all labels; with "
        "`over`, of the worst group. Judged by the images that have the label, or the rarest one, of each group",
        display="F1",
        plain="F1",
        worst_set="{count} wrong",
    )

    def of_counts(self, hits: Floats, given: Floats, actual: Floats, of_one: bool) -> Floats:
        """That of the label, which comes first, or the mean."""
        return f1_by_label(hits, given, actual)[..., 0] if of_one else macro_f1(hits, given, actual)

    def evidence(self, sets_with_label: Codes, label: str | None) -> tuple[Codes, str]:
        """Those of the label, or of the rarest."""
        return _rarest(sets_with_label) if label is None else (sets_with_label[:, 0], f"of '{label}'")


@register
class BalancedAccuracy(_ByLabel):
    """Mean recall of all labels; of one, the mean of sensitivity and specificity."""

    spec = _spec(
        name="balanced_accuracy",
        meaning="mean over labels of the share of their images that are given them; of one `label`, the mean of "
        "sensitivity and specificity; with `over`, of the worst group. Judged by the images of the rarest label, of "
        "each group",
        utility=True,
        worst_set="{count} wrong",
    )

    def of_counts(self, hits: Floats, given: Floats, actual: Floats, of_one: bool) -> Floats:
        """NaN for one label where all images have it, or none."""
        balanced = balanced_accuracy(hits, actual)
        return np.where(actual.min(axis=-1) > 0, balanced, np.nan) if of_one else balanced

    def evidence(self, sets_with_label: Codes, label: str | None) -> tuple[Codes, str]:
        """Those of the rarest, also of one label and the rest."""
        return (
            _rarest(sets_with_label) if label is None else (sets_with_label.min(axis=1), f"of '{label}', or of others")
        )

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of the labels, each time: right about one of them alone."""
        assert isinstance(settings, OfLabel)
        return 1 / labels if settings.label is None else 0.5


def _tables(cell: Cell, first: Codes, truth: Codes, given: Codes, columns: int) -> tuple[Any, Any, Any]:
    """Hits, given and actual images by group and label (rows) and set (columns), sparse: an image has one place.

    `first` (images,) is the place of each image's group; a `given` label of -1 is none.
    """
    from scipy.sparse import csr_array

    def table(label: Codes, chosen: NDArray[np.bool_]) -> Any:
        places = ((first + label)[chosen], cell.set_code[chosen])
        return csr_array((np.ones(int(chosen.sum())), places), shape=(columns, cell.n_sets))

    everyone = np.ones(len(truth), dtype=bool)
    return table(truth, truth == given), table(given, given >= 0), table(truth, everyone)


def _rarest(sets_with_label: Codes) -> tuple[Codes, str]:
    """Sets of the rarest label that any image has, (groups,)."""
    return sets_with_label[:, sets_with_label.any(axis=0)].min(axis=1), "of the rarest label"


def _coded(r: MetricRequest, cell: Cell, answer: ProbeScores) -> tuple[Codes, Codes, int]:
    """The true and the given label of every image of the cell, (images,) each, and the number of labels: all, or the
    one that is looked for, 0, and the rest, 1. A label that is not given is -1."""
    if answer.truth is None or answer.predicted is None:
        raise ScoresError(
            f"the saved scores of probe '{r.probe}' hold no labels.",
            where=r.where,
            remedy="make the baseline again, or compare with `model:URI`",
        )
    known = list(dict.fromkeys(answer.truth.tolist()))
    truth, given = answer.truth[cell.rows].tolist(), answer.predicted[cell.rows].tolist()
    label = _in_the_models_word(r, known)
    if len(set(truth)) == 1:
        about = f" of '{r.subject}'" if r.subject else ""
        raise ScoresError(
            f"check '{r.check}': all images{about} have one label, so that {r.metric} says nothing of the others.",
            where=r.where,
            remedy="look at images of several labels at once, or measure `accuracy`",
        )
    if label is None:
        code = {name: place for place, name in enumerate(dict.fromkeys([*known, *given])) if name}
        return _codes(truth, code, -1), _codes(given, code, -1), max(code.values()) + 1
    if label not in truth:
        subject = f" of '{r.subject}'" if r.subject else ""
        raise ScoresError(
            f"check '{r.check}' looks for the label '{label}', which no image{subject} has.",
            where=r.at("label"),
            remedy=did_you_mean(label, known) or f"labels: {listed(known)}",
        )
    return _codes(truth, {label: 0}, 1), _codes(given, {label: 0}, 1), 2


def _in_the_models_word(r: MetricRequest, known: Sequence[str]) -> str | None:
    """The label that is looked for as the answers have it: as it is, else by the probe's `words`, up to case."""
    label = r.settings_of(OfLabel).label
    if label is None or label in known:
        return label
    asked = r.asked.word(label) if isinstance(r.asked, PredictionProbe) else label
    return next((name for name in known if folded(name) in (folded(asked), folded(label))), label)


def _codes(names: list[str], code: dict[str, int], other: int) -> Codes:
    return np.array([code.get(name, other) for name in names], dtype=np.int64)
