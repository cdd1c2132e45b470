"""What will be evaluated, known before anything is scored: the suite, and where a change edits it, its base's too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairgate import suites
from fairgate.data import Dataset, open_dataset, releases_folder
from fairgate.formulas.metrics import NullSkew
from fairgate.gate.baselines import Repository
from fairgate.gate.bases import BaseCommit, base_commits, suites_at
from fairgate.ground.errors import FairgateError, NoVerdict, SuiteError
from fairgate.ground.seals import SealedNotes
from fairgate.ground.spans import span
from fairgate.models import cache_key, require_cache_outside
from fairgate.records import Decider, GateDefinition, NeededApproval

if TYPE_CHECKING:
    from fairgate.models import EmbeddingCache, ImageSource
    from fairgate.models.checkpoints import Device


@dataclass(frozen=True, slots=True)
class Definition:
    """A suite planned on a dataset, with what a fair ranker has; `decider` is whose suite it is."""

    loaded: suites.LoadedSuite
    planned: list[suites.PlannedCheck]
    null: dict[str, NullSkew]
    decider: Decider = "this change"


@dataclass(frozen=True, slots=True)
class Approving:
    """Whose approvals count: the suite there (None: it has none that can be read), and how messages name the place."""

    suite: suites.Suite | None
    words: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """Where a run has its numbers instead of the user's cache: of scoring that is spread over jobs, the cache in which
    they meet, and the device that they are of; in a job, which shard of the images is its own (number, count)."""

    cache: EmbeddingCache
    device: Device | str
    shard: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Definition):
    """A suite that is known to make sense on its dataset, before anything is scored.

    `compared` is what the change alters in the gate's definition, where it has a base; `others` are the definitions of
    the base that differ, planned on the same dataset; `places` the commits that define the gate. `notices` go into the
    record. `weighed` is what a person has to approve, and `approving` the suite whose approvals count: the default
    branch's (None: there is none that is known). `edited_records` are folders of saved records that this change edits.
    `trouble`: the base's gate cannot be evaluated on this branch, so that the run ends without a verdict. `deleted`:
    this branch has no such suite, and `loaded` is the merge base's. `on_base_data` are the bases' suites on their own
    releases, if those are other data; `release` names one of these.
    """

    dataset: Dataset
    repository: Repository
    compared: GateDefinition | None = None
    others: tuple[Definition, ...] = ()
    places: tuple[BaseCommit, ...] = ()
    notices: tuple[str, ...] = ()
    weighed: tuple[NeededApproval, ...] = ()
    approving: Approving | None = None
    edited_records: tuple[str, ...] = ()
    trouble: FairgateError | None = None
    deleted: bool = False
    on_base_data: tuple[Prepared, ...] = ()
    release: str = ""
    distribution: Distribution | None = None

    @property
    def root(self) -> Path:
        """The folder that is judged, with its suites and data."""
        return self.repository.root

    @property
    def source(self) -> ImageSource:
        """The images that are scored here: the dataset's, or a shard of them."""
        if self.distribution is None or self.distribution.shard is None:
            return self.dataset
        from fairgate.models import ImageShard

        return ImageShard(self.dataset, *self.distribution.shard)

    def spread(self, distribution: Distribution) -> Prepared:
        """The same, scored by several jobs."""
        others = tuple(each.spread(distribution) for each in self.on_base_data)
        return replace(self, distribution=distribution, on_base_data=others)

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """This change's definition, then the base's as far as they differ."""
        return (self, *self.others)

    @property
    def every_definition(self) -> tuple[Definition, ...]:
        """The definitions on this change's dataset, then those on the releases of its bases."""
        return (*self.definitions, *(definition for each in self.on_base_data for definition in each.definitions))

    @property
    def everything(self) -> list[suites.PlannedCheck]:
        """Every check that will be decided: this change's, then those that it takes away."""
        return every_check(self.every_definition)


def every_check(definitions: Sequence[Definition]) -> list[suites.PlannedCheck]:
    """The checks of several definitions; of those with one name, the first."""
    checks: dict[str, suites.PlannedCheck] = {}
    for definition in definitions:
        for check in definition.planned:
            checks.setdefault(check.item, check)
    return list(checks.values())


def settings_of(
    prepared: Prepared,
    *,
    ini: Callable[[str], str | None] = lambda _name: None,
    **typed: str | None,
) -> suites.Settings:
    """The options of a run of a prepared suite, from what was typed: `model=`, `on_inconclusive=`, ... (None: nothing).

    Raises SettingsError as `fairgate.suites.resolve` does, and for a cache inside of the repository.
    """
    options = {name.replace("_", "-"): value for name, value in typed.items()}
    settings = suites.resolve(prepared.loaded.suite, options, ini=ini)
    if settings.cache is not None:
        require_cache_outside(settings.cache, prepared.root)
    return settings


def prepare(name: str, root: Path, bases: tuple[str, ...] | None = None) -> Prepared:
    """Load a suite by name and plan it on its dataset; one that this branch deletes as the merge base has it.

    `bases` are the branches that were named (`named_bases`). Raises SuiteError or DatasetError (exit code 4) for
    whatever can be known to be wrong now, and NoVerdict for a suite that only a newer commit of the base has.
    """
    deleted = None
    try:
        loaded = suites.load_suite(suites.suite_path(name, root), root)
    except SuiteError:
        deleted = None if name in suites.suite_names(root) else _deleted(name, root, bases)
        if deleted is None:
            raise
        loaded = deleted
    dataset = open_dataset(loaded.suite.dataset, releases_folder(root))
    prepared = prepared_on(loaded, dataset, root, deleted=deleted is not None)
    if deleted is None:  # a base's words without effect decide nothing, and must not keep a change from mending them
        suites.require_known_words(loaded, dataset.manifest)
        suites.require_reasons(loaded)
    return prepared


def prepared_on(loaded: suites.LoadedSuite, dataset: Dataset, root: Path, *, deleted: bool = False) -> Prepared:
    """A suite planned on a dataset, in the repository around a folder. Raises SuiteError as `planned_on` does."""
    here, repository = planned_on(loaded, dataset), Repository(root)
    return Prepared(loaded, here.planned, here.null, dataset=dataset, repository=repository, deleted=deleted)


def planned_on(loaded: suites.LoadedSuite, dataset: Dataset, decider: Decider = "this change") -> Definition:
    """A suite planned on a dataset. Raises SuiteError for what the dataset cannot answer."""
    planned = suites.plan_checks(loaded, dataset.manifest)
    suites.require_utility(loaded.suite, loaded.source, dataset=dataset.manifest, rows=dataset.index)
    suites.require_waived_checks(loaded.suite, planned, loaded.source)
    suites.require_groups_present(planned, dataset.index)
    null = suites.fair_rankers(planned, dataset.index, loaded.suite.groups.min_sets)
    suites.require_attainable(planned, null)
    return Definition(loaded, planned, null, decider)


def _deleted(name: str, root: Path, bases: tuple[str, ...] | None) -> suites.LoadedSuite | None:
    """The suite as the merge base has it; None where no base has one of this name."""
    repository = Repository(root)
    for place in base_commits(repository, bases):
        if name not in suites_at(repository, place.commit):
            continue
        path = f"{suites.FOLDER}/{name}.yaml"
        if place.decider != "merge base":
            raise NoVerdict(
                f"suite '{name}' is not on this branch, and {place.words} has it.",
                where=path,
                remedy=f"rebase onto {place.ref}, or merge it into this branch",
            )
        return suites.load_text(
            repository.read(place.commit, path) or b"", root / path, shown=f"{path} at {place.commit[:7]}"
        )
    return None


def require_intact(
    dataset: Dataset, settings: suites.Settings, root: Path, progress: Callable[[str, int, int], None] | None
) -> None:
    """Compute the identity of a run's dataset from what is read; what was found intact before is remembered by content
    in the embedding cache, sealed as its entries are. Raises DatasetError for a release that is not what its manifest
    says."""
    report = None if progress is None else partial(progress, f"reading {dataset.manifest.ref}")
    memory = None if settings.cache is None else SealedNotes(settings.cache / "datasets", cache_key(root))
    with span("read"):
        dataset.require_intact(memory, report)
