"""What will be asked, known before anything is scored: the suite, and where a change edits it, the one from before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fairgate.baselines import Repository, baseline_folder, parse_baseline
from fairgate.data import Dataset, open_dataset
from fairgate.errors import SuiteError
from fairgate.metrics import NullSkew
from fairgate.records import DefinitionChange, GateDefinition
from fairgate.suites import LoadedSuite, PlannedCheck, Settings, load_suite, plan_checks, suite_path
from fairgate.suites.definition import asks_the_same, changes_between, with_probes_of
from fairgate.suites.load import FOLDER, load_text
from fairgate.suites.null import fair_rankers, require_attainable
from fairgate.suites.present import require_groups_present
from fairgate.suites.waivers import require_waived_checks


@dataclass(frozen=True, slots=True)
class Definition:
    """One way of asking: a suite planned on a dataset, with what a fair ranker has."""

    loaded: LoadedSuite
    planned: list[PlannedCheck]
    null: dict[str, NullSkew]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite that is known to make sense on its dataset, before anything is scored.

    `compared` holds the gate's definition against that of the merge base, where the baseline is `git:`; `before` is
    the merge base's suite, planned on the same dataset, where it asks otherwise.
    """

    loaded: LoadedSuite
    dataset: Dataset
    planned: list[PlannedCheck]
    null: dict[str, NullSkew]
    root: Path
    compared: GateDefinition | None = None
    before: Definition | None = None

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """This change's definition, then the merge base's where it asks otherwise."""
        here = Definition(self.loaded, self.planned, self.null)
        return (here,) if self.before is None else (here, self.before)

    @property
    def everything(self) -> list[PlannedCheck]:
        """Every check that will be decided: this change's, then those that it takes away."""
        known = {one.item for one in self.planned}
        return [*self.planned, *(one for one in (self.before.planned if self.before else []) if one.item not in known)]


def prepare(name: str, root: Path) -> Prepared:
    """Load a suite by name and plan it on its dataset.

    Raises SuiteError or DatasetError (exit code 4) for whatever can be known to be wrong now.
    """
    loaded = load_suite(suite_path(name, root), root)
    dataset = open_dataset(loaded.suite.dataset, root / "datasets")
    here = _planned(loaded, dataset)
    return Prepared(loaded, dataset, here.planned, here.null, root)


def hold(prepared: Prepared, settings: Settings) -> Prepared:
    """Hold the suite against its definition at the merge base, where the baseline is `git:REF`.

    What a change edits in the gate itself is told, and decides only where it is stricter: both definitions are asked.
    Raises BaselineError where the merge base is not to be found, and SuiteError where its checks cannot be asked of
    this dataset at all.
    """
    spec = parse_baseline(settings.baseline)
    if spec.kind != "git":
        return prepared
    repository = Repository(prepared.root)
    commit = repository.merge_base(spec.target)
    text = repository.read(commit, f"{FOLDER}/{prepared.loaded.name}.yaml")
    changes: list[DefinitionChange] = []
    before: Definition | None = None
    digest: str | None = None
    if text is None:
        changes.append(DefinitionChange(what="the suite", before=None, now="added by this change"))
    else:
        shown = f"{prepared.loaded.source.shown} at {commit[:7]}"
        old = _loaded_before(text, prepared, shown)
        if isinstance(old, SuiteError):
            changes.append(DefinitionChange(what="the suite", before=f"not readable: {old.problem}", now="readable"))
        else:
            digest = old.digest
            changes += changes_between(old.suite, prepared.loaded.suite)
            before = None if asks_the_same(old.suite, prepared.loaded.suite) else _planned_before(old, prepared, commit)
    if repository.differs(commit, baseline_folder(prepared.loaded.name)):
        kept = "the merge base's baseline is compared with"
        changes.append(DefinitionChange(what="the committed baseline", before=kept, now="edited by this change"))
    compared = GateDefinition(source=settings.baseline, commit=commit, suite_digest=digest, changes=changes)
    return replace(prepared, compared=compared, before=before)


def _planned(loaded: LoadedSuite, dataset: Dataset) -> Definition:
    planned = plan_checks(loaded, dataset.manifest)
    require_waived_checks(loaded.suite, planned, loaded.source)
    require_groups_present(planned, dataset.index)
    null = fair_rankers(planned, dataset.index)
    require_attainable(planned, null)
    return Definition(loaded, planned, null)


def _loaded_before(text: bytes, prepared: Prepared, shown: str) -> LoadedSuite | SuiteError:
    """The merge base's suite, or why today's fairgate cannot read it: a broken suite is there to be mended."""
    try:
        return load_text(text, prepared.loaded.path, shown=shown)
    except SuiteError as error:
        return error


def _planned_before(old: LoadedSuite, prepared: Prepared, commit: str) -> Definition:
    """The merge base's suite on this dataset; with this change's probes where the dataset outgrew the old ones."""
    try:
        return _planned(old, prepared.dataset)
    except SuiteError:
        try:
            return _planned(with_probes_of(old, prepared.loaded), prepared.dataset)
        except SuiteError as error:
            raise SuiteError(
                f"the checks of the merge base ({commit[:7]}) cannot be asked of this dataset: {error.problem}",
                where=error.where,
                remedy="merge the change of dataset and checks by itself first, reviewed, with `--fairness-baseline "
                "none`; then hold checkpoints against it",
            ) from error
