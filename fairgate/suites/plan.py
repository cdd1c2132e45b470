"""A suite meets a dataset: which checks on which subjects and groups, known before anything is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairgate.errors import SuiteError, did_you_mean
from fairgate.suites.catalog import METRICS
from fairgate.suites.load import LoadedSuite
from fairgate.suites.schema import Check, ZeroShotProbe
from fairgate.suites.source import Loc

Grouping = tuple[str, ...]
"""Attributes that are crossed into one partition of the images; one attribute is a crossing of one."""


class DatasetFacts(Protocol):
    """What planning needs to know of a dataset; its manifest tells it."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def subjects(self) -> Sequence[str]: ...
    @property
    def counterfactual(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """One check on one subject (None: on all): one pytest item, one row of every table."""

    check: Check
    subject: str | None
    groupings: tuple[Grouping, ...]
    where: str

    @property
    def item(self) -> str:
        """`skew[doctor]`, or `skew` when it is over all subjects."""
        return self.check.id if self.subject is None else f"{self.check.id}[{self.subject}]"

    @property
    def over(self) -> str | None:
        """The groupings as a reader sees them: `skin_tone; gender` or `skin_tone × gender`."""
        return "; ".join(" × ".join(grouping) for grouping in self.groupings) or None


def plan_checks(loaded: LoadedSuite, dataset: DatasetFacts) -> list[PlannedCheck]:
    """Every check of a suite on every subject, in the suite's order.

    Raises SuiteError for an attribute or subject that the dataset lacks, and for a metric that its kind of sets cannot
    carry.
    """
    for name, probe in loaded.suite.probes.items():
        if isinstance(probe, ZeroShotProbe):
            _probe_fits(loaded, name, probe, dataset)
    return [
        one
        for index, check in enumerate(loaded.suite.checks)
        for one in plan_check(loaded, check, dataset, ("checks", index))
    ]


def plan_check(loaded: LoadedSuite, check: Check, dataset: DatasetFacts, loc: Loc = ("checks",)) -> list[PlannedCheck]:
    """One check on every subject it is about. `loc` is its place in the suite. Refuses as `plan_checks` does."""
    where = loaded.where(*loc)
    if METRICS[check.metric].counterfactual and not dataset.counterfactual:
        raise SuiteError(
            f"check '{check.id}' measures {check.metric} inside counterfactual sets, and dataset "
            f"'{dataset.name}' has one image per set.",
            where=where,
            remedy="use `metric: accuracy` with `over`, or a counterfactual dataset",
        )
    groupings = _groupings(loaded, check, dataset, loaded.where(*loc, "over"))
    subjects: Sequence[str | None] = dataset.subjects if check.by == "subject" else [None]
    return [PlannedCheck(check, subject, groupings, where) for subject in subjects]


def _groupings(loaded: LoadedSuite, check: Check, dataset: DatasetFacts, where: str) -> tuple[Grouping, ...]:
    chosen = loaded.suite.groups.attributes
    attributes = list(dataset.attributes) if chosen == "each" else list(chosen)
    for attribute in attributes:
        _attribute_exists(attribute, f"suite '{loaded.name}' looks at", dataset, loaded.where("groups", "attributes"))
    if check.over is None:
        return ()
    if check.over == "each":
        return tuple((attribute,) for attribute in attributes)
    if check.over == "crossed":
        return (tuple(attributes),)
    named = [check.over] if isinstance(check.over, str) else check.over
    for attribute in named:
        _attribute_exists(attribute, f"check '{check.id}' groups by", dataset, where)
    if len(set(named)) < len(named):
        raise SuiteError(f"check '{check.id}' names an attribute twice.", where=where, remedy="name each once")
    return (tuple(named),)


def _attribute_exists(attribute: str, who: str, dataset: DatasetFacts, where: str) -> None:
    if attribute not in dataset.attributes:
        near = did_you_mean(attribute, dataset.attributes)
        recorded = f"recorded attributes: {', '.join(dataset.attributes)}"
        raise SuiteError(
            f"{who} '{attribute}', which dataset '{dataset.name}/{dataset.version}' does not record.",
            where=where,
            remedy=" ".join(filter(None, [near, recorded])),
        )


def _probe_fits(loaded: LoadedSuite, name: str, probe: ZeroShotProbe, dataset: DatasetFacts) -> None:
    """Every image must find its truth among the labels that compete for it."""
    where = loaded.where("probes", name, "labels")
    if isinstance(probe.labels, dict):
        missing = [subject for subject in dataset.subjects if subject not in probe.labels]
        unknown = [subject for subject in probe.labels if subject not in dataset.subjects]
        if missing or unknown:
            near = did_you_mean(unknown[0], dataset.subjects) if unknown else None
            raise SuiteError(
                f"probe '{name}' has labels for {', '.join(probe.labels)}; dataset '{dataset.name}/{dataset.version}' "
                f"shows {', '.join(dataset.subjects)}.",
                where=where,
                remedy=" ".join(filter(None, [near, "give one list of labels per subject of the dataset"])),
            )
    if probe.truth != "subject":
        _attribute_exists(probe.truth, f"probe '{name}' takes as truth", dataset, loaded.where("probes", name, "truth"))
    for subject in dataset.subjects:
        truths = [subject] if probe.truth == "subject" else list(dataset.attributes[probe.truth])
        lost = [probe.word(truth) for truth in truths if probe.word(truth) not in probe.labels_of(subject)]
        if lost:
            labels = probe.labels_of(subject)
            near = did_you_mean(lost[0], labels)
            raise SuiteError(
                f"probe '{name}' can never be right for '{subject}': the true label '{lost[0]}' is not among its "
                f"labels ({', '.join(labels)}).",
                where=where,
                remedy=" ".join(filter(None, [near, "add the label, or say in `words` how the truth is written"])),
            )
