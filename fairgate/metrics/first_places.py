"""Is the right one among the k first: of the queries nearest to an image (R@K), or of the labels that are most probable
(top-5 accuracy)?"""

from __future__ import annotations

from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import found_at_k
from fairgate.ground.errors import ScoresError, SuiteError
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import CLASSIFIED, RETRIEVED, Answers, MetricRequest, MetricSettings, register
from fairgate.metrics.image_means import Right, right_spec
from fairgate.probes import RANKS, within


class Nearest(MetricSettings):
    """How many of the nearest queries, or of the most probable labels, are looked at."""

    k: int = Field(ge=1)


class AmongFirst(Right):
    """Share of images whose own query or label has one of the k first places."""

    Settings = Nearest

    def _require_views(self, r: MetricRequest) -> None:
        """Refuse a k that is not recorded of several views."""
        if r.asked is not None and r.asked.views > 1 and _k(r.settings) > RANKS:
            raise SuiteError(
                f"check '{r.check}' measures {r.metric} among the {_k(r.settings)} first over views.",
                where=r.at("k"),
                remedy=f"choose k of {RANKS} at most, or remove `views` from the probe",
            )

    def right(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        """1 where an image's own has one of the k first places; of several views, the share of those."""
        rank, k = answers[0].rank, _k(r.settings)
        if known := [at for at in range(1, k + 1) if within(at) in answers[0].more]:  # no view is farther than the last
            return answers[0].more[within(known[-1])][cell.rows]
        if rank is None:
            raise ScoresError(
                f"the kept scores of probe '{r.probe}' hold no ranks, which {r.metric} needs.",
                where=r.where,
                remedy="make the baseline again with this version of fairgate, or compare with `model:URI`",
            )
        return found_at_k(rank[cell.rows], k)


@register
class Recall(AmongFirst):
    """Share of images that find their own subject's query."""

    spec = right_spec(
        name="recall_at_k",
        meaning="share of images whose own subject's query is among the k nearest of all subjects' queries; with "
        "`over`, of the worst group",
        probes=RETRIEVED,
        turns=True,
        display="Recall",
        alias="recall",
        usual_k=1,
    )

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse a k among which the right subject always is."""
        if _k(r.settings) >= len(dataset.subjects):
            raise SuiteError(
                f"check '{r.check}' looks for the right one among the {_k(r.settings)} nearest of "
                f"{len(dataset.subjects)} subjects: it would always be there.",
                where=r.at("k"),
                remedy="choose k below the number of subjects"
                + ("" if len(dataset.subjects) > 1 else "; with one subject use accuracy on a classification probe"),
            )
        self._require_views(r)

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """k of all subjects, each time."""
        return 0.0 if subjects is None else min(1.0, _k(settings) / subjects)


@register
class AccuracyAtK(AmongFirst):
    """Share of images whose true label is among the k most probable."""

    spec = right_spec(
        name="accuracy_at_k",
        meaning="share of images whose true label is among the k most probable (top-5 accuracy), of a probe with "
        "`ranks: true`; with `over`, of the worst group",
        probes=CLASSIFIED,
        truth=True,
        turns=True,
        display="accuracy",
        alias="accuracy_at",
        usual_k=5,
    )

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse a probe without ranks, and a k among which the true label always is."""
        if r.asked is None or not getattr(r.asked, "ranks", False):
            raise SuiteError(
                f"check '{r.check}' needs the place of the true label, which probe '{r.probe}' does not record.",
                where=r.where,
                remedy=f"write `ranks: true` at the probe '{r.probe}'",
            )
        fewest = min((len(choice.prompts) for choice in r.asked.choices(dataset.subjects)), default=0)
        if _k(r.settings) >= fewest:
            raise SuiteError(
                f"check '{r.check}' looks for the true label among the {_k(r.settings)} most probable of {fewest}: it "
                "would always be there.",
                where=r.at("k"),
                remedy="choose k below the number of labels",
            )
        self._require_views(r)

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """k of the labels, each time."""
        return min(1.0, _k(settings) / labels)


def _k(settings: MetricSettings) -> int:
    assert isinstance(settings, Nearest)
    return settings.k
