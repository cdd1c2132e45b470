"""Compare a change's definition of the gate with its base's: edits are reported, and count only where stricter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairgate import suites
from fairgate.data import Dataset
from fairgate.gate import bases
from fairgate.gate.approvals import another_suite, approving, edited_anchor, other_model, weaker_definition
from fairgate.gate.base_data import TABLES, BaseReleases, edited, edited_dataset, edited_tables, other_dataset
from fairgate.gate.baselines import Repository, baseline_folder
from fairgate.gate.preparation import Definition, Prepared, planned_on
from fairgate.ground.errors import NoVerdict, SuiteError, listed
from fairgate.models import local_paths, published_models, schemes, uri_options
from fairgate.records import DefinitionChange, GateDefinition, NeededApproval, OtherDefinition


def hold(prepared: Prepared, settings: suites.Settings) -> tuple[Prepared, suites.Settings]:
    """Compare a suite with its definition at the merge base, at the base's tip and on the default branch.

    Where a change edits `baseline:`, the base's counts in the settings. Raises BaselineError where a base that was
    named, or the merge base with it, is not to be found.
    """
    repository = prepared.repository
    places = bases.base_commits_of_run(repository, settings)
    if not places:
        return prepared, settings
    releases = BaseReleases(prepared, repository)
    return _Comparison(prepared, prepared.loaded, settings, repository, places, releases).made()


@dataclass
class _Comparison:
    """How a change's gate differs from that of each base commit."""

    prepared: Prepared
    here: suites.LoadedSuite
    settings: suites.Settings
    repository: Repository
    places: list[bases.BaseCommit]
    releases: BaseReleases
    changes: list[DefinitionChange] = field(default_factory=list)
    others: list[Definition] = field(default_factory=list)
    elsewhere: list[OtherDefinition] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    weighed: list[NeededApproval] = field(default_factory=list)
    edited_records: list[str] = field(default_factory=list)
    trouble: NoVerdict | None = None

    def made(self) -> tuple[Prepared, suites.Settings]:
        """Compare with each base commit, and add the differences to what is prepared."""
        base, *others = self.places
        if not self.prepared.deleted:
            with self._without_verdict():
                bases.require_as_committed(self.repository, self.here, self.settings)
        text = self._text(base)
        old = self._compare_with_base(text, base)
        for place in others:
            with self._without_verdict():
                self._other(place, text, old)
        for there in bases.further_starts(self.repository, self.places) if not self.prepared.deleted else []:
            with self._without_verdict():
                self._weigh_since(there)
        self._tables(base)
        self._baseline_files(base)
        self._newer_baselines(base, others)
        self.changes += edited_dataset(self.prepared.dataset, self.repository, base)
        self.notices += bases.base_notices(self.repository, self.settings, base)
        compared = GateDefinition(
            source=f"git:{base.ref}",
            commit=base.commit,
            suite_digest=old.digest if old is not None else None,
            # what is added hides no other change
            changes=sorted(self.changes, key=lambda change: change.before is None),
            others=self.elsewhere,
        )
        completed = replace(
            self.prepared,
            compared=compared,
            others=tuple(self.others),
            places=tuple(self.places),
            notices=tuple(self.notices),
            weighed=tuple(self.weighed),
            edited_records=tuple(dict.fromkeys(self.edited_records)),
            approving=approving(self.here, self.repository, self.settings, self.places),
            trouble=self.trouble,
            on_base_data=tuple(
                replace(each, compared=compared, edited_records=tuple(self.edited_records))
                for each in self.releases.planned
            ),
        )
        return completed, self.settings

    def _compare_with_base(self, text: bytes | None, base: bases.BaseCommit) -> suites.LoadedSuite | None:
        """The base's suite, with how this change's differs from it; None if there is none that can be read."""
        loaded = None if text is None else self._loaded(text, base)
        old = None if isinstance(loaded, SuiteError) else loaded
        if old is not None:
            with self._without_verdict():
                self._dataset(base, self.releases.add(old, base))
            self._merge_base(old, base)
        elif isinstance(loaded, SuiteError):
            before = f"not readable: {loaded.problem}"
            self.changes.append(DefinitionChange(what="the suite", before=before, now="readable"))
            self.weighed.append(another_suite(text, self.here.suite, f"{base.words} has a suite that cannot be read"))
        else:
            self.changes.append(DefinitionChange(what="the suite", before=None, now="added by this change"))
            gone = sorted(
                set(bases.suites_at(self.repository, base.commit)) - set(suites.suite_names(self.prepared.root))
            )
            if gone:
                what = f"this change adds suite '{self.here.name}' and deletes {listed(gone)}"
                self.notices.append(f"{what}: nobody has reviewed what the new one asks for")
                self.weighed.append(another_suite(None, self.here.suite, what))
        return old

    @contextlib.contextmanager
    def _without_verdict(self) -> Iterator[None]:
        """The first reason why a base's gate cannot be evaluated ends the run, once all bases were compared with."""
        try:
            yield
        except NoVerdict as trouble:
            self.trouble = self.trouble or trouble

    def _text(self, place: bases.BaseCommit) -> bytes | None:
        return self.repository.read(place.commit, f"{suites.FOLDER}/{self.here.name}.yaml")

    def _loaded(self, text: bytes, place: bases.BaseCommit) -> suites.LoadedSuite | SuiteError:
        """A base commit's suite, or why this fairgate cannot read it: a change may fix a broken suite."""
        try:
            return suites.load_text(
                text, self.here.path, shown=f"{suites.FOLDER}/{self.here.name}.yaml at {place.commit[:7]}"
            )
        except SuiteError as error:
            return error

    def _merge_base(self, old: suites.LoadedSuite, base: bases.BaseCommit) -> None:
        if self.prepared.deleted:
            self.changes.append(DefinitionChange(what="the suite", before="there", now=None))
            what = f"this change deletes suite '{self.here.name}'"
            self.notices.append(f"{what}: judged as {base.words} has it")
            self.weighed.append(another_suite(self._text(base), None, what))
            return
        self._weigh(old, base)
        self.changes += suites.changes_between(old.suite, self.here.suite)
        if not suites.same_verdicts(old.suite, self.here.suite):
            self._plan_before(old, base)
        self._model(old.suite.model, base)
        before, now = old.suite.baseline or "none", self.here.suite.baseline or "none"
        if "baseline" in self.settings.from_suite and before not in (now, "none"):
            self.settings = replace(self.settings, baseline=before)
            self.notices.append(
                f"this change sets `baseline:` to {now}; compared with {before} of {base.words} until that is merged"
            )

    def _weigh(self, old: suites.LoadedSuite, base: bases.BaseCommit) -> None:
        """What a person has to approve of this change's suite, compared with an older one."""
        self.weighed += weaker_definition(old.suite, self.here.suite, base.words)
        self.weighed += edited_anchor(old.suite.anchor, self.here.suite.anchor, self.repository, base)
        before, now = old.suite.model, self.here.suite.model
        if "model" in self.settings.from_suite and before and now and before != now:
            self.weighed.append(other_model(before, now, base.words))

    def _dataset(self, place: bases.BaseCommit, release: Dataset | None) -> None:
        """Other data than a base's have to be approved."""
        if release is not None:
            self.weighed.append(other_dataset(release, self.prepared.dataset, place.words))

    def _weigh_since(self, there: bases.BaseCommit) -> None:
        """What a person has to approve of all that was changed since a commit."""
        text = self._text(there)
        old = self._loaded(text, there) if text is not None else None
        self._tables(there)
        self._records(there)
        if isinstance(old, suites.LoadedSuite):
            self._weigh(old, there)
            self._dataset(there, self.releases.of(old, there))
        elif old is not None:
            self.weighed.append(another_suite(text, self.here.suite, f"{there.words} has a suite that cannot be read"))

    def _tables(self, base: bases.BaseCommit) -> None:
        """Tables that are judged or compared with."""
        compared = [text.removeprefix("model:") for text in self._compared() if text.startswith("model:")]
        uris = [self.settings.model, *compared]
        self.weighed += edited_tables(self.repository, base.commit, base.words, uris)

    def _compared(self) -> list[str]:
        """The baseline and the anchors that are compared with, each once."""
        judged = (self.here, *(other.loaded for other in self.others))
        return list(dict.fromkeys((self.settings.baseline, *(loaded.suite.anchor or "none" for loaded in judged))))

    def _plan_before(self, old: suites.LoadedSuite, base: bases.BaseCommit) -> None:
        """The merge base's suite on this dataset; with this change's labels for subjects that the old ones lack."""
        dataset = self.prepared.dataset
        try:
            self.others.append(planned_on(old, dataset, base.decider))
        except SuiteError:
            try:
                self.others.append(planned_on(suites.with_subjects_of(old, self.here), dataset, base.decider))
            except SuiteError as error:
                if self.releases.planned:  # they are judged on the base's own release
                    return
                self.trouble = NoVerdict(
                    f"the checks of {base.words} cannot be evaluated on this dataset: {error.problem}",
                    where=error.where,
                    remedy="merge the change of dataset and checks by itself first, reviewed, with `--fairness-base "
                    "none`; then judge checkpoints by it",
                )
            else:
                self.notices.append(
                    f"the labels of {base.words} do not fit dataset {dataset.name}/{dataset.version}: subjects that "
                    "they lack are judged by the labels of this change"
                )

    def _model(self, before: str | None, base: bases.BaseCommit) -> None:
        """Another scheme of `model:` is reported, other options (what a language model is asked, how many samples are
        drawn), and another path where the old one's file was edited as well; a table of scores in place of a checkpoint
        must be named outside."""
        now = self.here.suite.model
        if before is None or now is None or before == now or "model" not in self.settings.from_suite:
            return
        if schemes(now) == schemes(before):
            asked, asks = uri_options(before), uri_options(now)
            if asked != asks:
                self.changes.append(
                    DefinitionChange(what="options of the model", before=asked or None, now=asks or None)
                )
                self.notices.append(
                    f"this change judges the model with other options ({asks or 'none'}) than {base.words} "
                    f"({asked or 'none'}): bounds are held to other answers"
                )
            self.notices += [
                f"this change edits {path.as_posix()}, which {base.words} judges, and has {now} judged instead"
                for path in local_paths(before)
                if path not in local_paths(now) and edited(self.repository, base.commit, path)
            ]
            if published_models(now) != published_models(before):
                self.notices.append(f"this change has {now} judged, where {base.words} judges {before}")
            return
        self.changes.append(DefinitionChange(what="model", before=before, now=now))
        scheme, old_scheme = (uri.partition(":")[0] for uri in (now, before))
        if scheme not in TABLES:
            kinds = (" of ".join(f"{scheme}:" for scheme in schemes(uri)) for uri in (now, before))
            self.notices.append("this change judges {}, where {} was judged before".format(*kinds))
            return
        self.trouble = NoVerdict(
            f"this change replaces a checkpoint ({old_scheme}:) by a table of {scheme}, which anybody can make up.",
            where=self.here.where("model"),
            remedy=f"if that is meant, name the table on the command line or in the workflow: --fairness-model {now}",
        )

    def _other(self, place: bases.BaseCommit, at_base: bytes | None, old: suites.LoadedSuite | None) -> None:
        """Another base commit (the base's tip, or the default branch): its definition counts where it differs.

        Raises NoVerdict where this branch cannot be judged by it.
        """
        text = self._text(place)
        if text is None:
            return
        rebase = f"rebase onto {place.ref}, or merge it into this branch"
        loaded = self._loaded(text, place)
        if isinstance(loaded, SuiteError):
            raise NoVerdict(f"{place.words}: {loaded.problem}", where=loaded.where, remedy=rebase)
        moved = self.releases.add(loaded, place) is not None
        known = [self.here, *(definition.loaded for definition in self.others), *([old] if old is not None else [])]
        alike = any(suites.same_verdicts(loaded.suite, definition.suite) for definition in known)
        if text == at_base or (alike and not moved):
            return
        changes = suites.changes_between(self.here.suite, loaded.suite)
        self.elsewhere.append(
            OtherDefinition(
                decider=place.decider, ref=place.ref, commit=place.commit, suite_digest=loaded.digest, changes=changes
            )
        )
        if alike:
            return
        try:
            self.others.append(planned_on(loaded, self.prepared.dataset, place.decider))
        except SuiteError as error:
            if moved:  # they are judged on that branch's own release
                return
            problem = f"the checks of {place.words} cannot be evaluated on this branch: {error.problem}"
            raise NoVerdict(problem, where=error.where, remedy=rebase) from error
        self.notices.append(
            f"{place.words} defines the gate otherwise ({listed([change.what for change in changes])}): "
            "for each check the stricter definition counts"
        )

    def _baseline_files(self, base: bases.BaseCommit) -> None:
        """What this change edits and is compared with (records, checkpoints): read at the merge base, or reported."""
        for text in self._compared():
            kind, _, target = text.partition(":")
            if kind == "model":
                for path in local_paths(target):
                    if edited(self.repository, base.commit, path):
                        self._edits(text, f"{path.as_posix()}, the checkpoint", base)
            elif kind == "file":
                record = target.removesuffix("/results.json")
                in_git = any(self.repository.tree(commit, record) for commit in (base.commit, "HEAD"))
                differs = in_git and self.repository.differs(base.commit, record)
                if differs or edited(self.repository, base.commit, Path(record)):
                    self._edits(text, f"{record}, the record", base)
                    self.edited_records.append(record)
        folder = baseline_folder(self.here.name)
        if not self.settings.baseline.startswith("file:") and self.repository.differs(base.commit, folder):
            change = DefinitionChange(what="the committed baseline", before=None, now="added by this change")
            if self.repository.tree(base.commit, folder):
                now = "edited; it counts from the merge on" if (self.repository.root / folder).exists() else None
                change = DefinitionChange(what=change.what, before=bases.THERE, now=now)
            self.changes.append(change)
        self._records(base)

    def _edits(self, compared: str, named: str, base: bases.BaseCommit) -> None:
        """What is compared with is edited by this change, and read as the merge base has it."""
        self.changes.append(DefinitionChange(what=compared, before=bases.THERE, now="edited by this change"))
        self.notices.append(f"this change edits {named} that it is compared with: read as {base.words} has it")

    def _records(self, base: bases.BaseCommit) -> None:
        """The committed record, if it is not as a base has it."""
        folder = baseline_folder(self.here.name)
        if self.repository.differs(base.commit, folder):
            self.edited_records.append(folder)

    def _newer_baselines(self, base: bases.BaseCommit, others: list[bases.BaseCommit]) -> None:
        """A record that is not the base's present one: of a branch that is behind, or of a commit inside a merged
        branch, which was not reviewed by itself."""
        used, folder = self.settings.baseline, baseline_folder(self.here.name)
        then = self.repository.tree(base.commit, folder)
        if not used.startswith("git:") or not then:
            return
        self.notices += [
            f"compared with the baseline of {base.words}; {place.words} has another one, which must not fail "
            "either: rebase onto it to be compared with that alone"
            for place in others
            if self.repository.tree(place.commit, folder) not in (then, [])
        ]
