"""The releases that a change's bases judge on: where one is other data than this change's, both count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fairgate.data import Dataset
from fairgate.gate.baselines import Repository, content_digest, release_at, same_data
from fairgate.gate.bases import THERE, BaseCommit, branch_name, is_full_hash
from fairgate.gate.preparation import Prepared, planned_on
from fairgate.ground.errors import BaselineError, DatasetError, NoVerdict, SuiteError
from fairgate.records import DefinitionChange, NeededApproval
from fairgate.suites import LoadedSuite, same_verdicts


@dataclass
class BaseReleases:
    """The bases' suites, planned on the bases' own releases: as far as those are not the data of this change."""

    prepared: Prepared
    repository: Repository
    planned: list[Prepared] = field(default_factory=list)

    def of(self, suite: LoadedSuite, place: BaseCommit) -> Dataset | None:
        """The release that a suite of a base means there; None if it is the data of this change.

        Raises NoVerdict if it is not to be had.
        """
        try:
            return release_at(self.repository, place.commit, suite.suite.dataset, self.prepared.dataset.manifest)
        except (BaselineError, DatasetError) as error:
            behind = f"; or rebase onto {place.ref}" if place.decider != "merge base" else ""
            pull = f"`fairgate dataset pull` on a checkout of {place.commit[:7]} brings it, if DVC has it"
            raise NoVerdict(
                f"{place.words} judges on dataset '{suite.suite.dataset}', and this run needs it as it is there: "
                f"{error.problem}",
                where=error.where or suite.where("dataset"),
                remedy=f"{error.remedy}; {pull}{behind}",
            ) from error

    def add(self, suite: LoadedSuite, place: BaseCommit) -> Dataset | None:
        """Judge a base's suite on its own release, too, if that is other data; the release, or None.

        Raises NoVerdict if the release is not to be had, or the suite cannot be evaluated on it.
        """
        dataset = self.of(suite, place)
        if dataset is None:
            return None
        known = next(
            (planned for planned in self.planned if same_data(planned.dataset.manifest, dataset.manifest)), None
        )
        if known is not None and any(same_verdicts(suite.suite, each.loaded.suite) for each in known.definitions):
            return dataset
        try:
            definition = planned_on(suite, dataset if known is None else known.dataset, place.decider)
        except SuiteError as error:
            raise NoVerdict(
                f"the checks of {place.words} cannot be evaluated on its own dataset: {error.problem}",
                where=error.where,
                remedy="correct the suite there, in a change of its own with `--fairness-base none`",
            ) from error
        if known is not None:
            self.planned[self.planned.index(known)] = replace(known, others=(*known.others, definition))
            return dataset
        self.planned.append(
            Prepared(
                suite,
                definition.planned,
                definition.null,
                place.decider,
                dataset=dataset,
                root=self.prepared.root,
                release=f"{_whose(place)} release {_named(dataset, self.prepared.dataset)}",
            )
        )
        return dataset


def other_dataset(before: Dataset, now: Dataset, words: str) -> NeededApproval:
    """The approval that other data than a base's need; `words` name the base."""
    what = f"this change judges on {_named(now, before)}, {words} on {_named(before, now)}"
    digests = content_digest(before.manifest, now.manifest), content_digest(now.manifest, before.manifest)
    return NeededApproval(kind="dataset", what=what, before=digests[0], now=digests[1])


def edited_dataset(dataset: Dataset, repository: Repository, base: BaseCommit) -> list[DefinitionChange]:
    """A dataset in git that a commit of this change edits or adds; `tracked` reports DVC's pointers."""
    folder = f"datasets/{dataset.name}/{dataset.version}"
    then, now = (repository.tree(commit, folder) for commit in (base.commit, "HEAD"))
    before, what = (THERE, "edited") if then else (None, "added")
    return [DefinitionChange(what=folder, before=before, now=f"{what} by this change")] if now and now != then else []


def judged_on_both(now: Dataset, there: Sequence[tuple[Prepared, float]]) -> list[str]:
    """Which releases of bases were judged on as well, and the seconds that each took."""
    return [
        f"dataset: this change is judged on {_named(now, judged.dataset)}, and by the base's checks on "
        f"{judged.release} as well: for each check the stricter verdict counts. That took {seconds:.1f} s more"
        for judged, seconds in there
    ]


def _named(dataset: Dataset, other: Dataset) -> str:
    """A release by name and version; by its content, too, if another one has the same."""
    name = f"{dataset.name}/{dataset.version}"
    if name != f"{other.name}/{other.version}":
        return name
    return f"{name} ({content_digest(dataset.manifest, other.manifest)[:12]})"


def _whose(place: BaseCommit) -> str:
    return "the base's" if is_full_hash(place.ref) else f"{branch_name(place.ref)}'s"
