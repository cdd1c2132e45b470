"""The baseline or anchor of a run: a saved record or a checkpoint scored now, and whether it can be compared."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from fairgate.baselines import (
    BaselineSpec,
    RecordFiles,
    Repository,
    baseline_folder,
    check_out,
    dataset_notices,
    mismatch,
    parse_baseline,
    record_in_folder,
    record_in_git,
    require_another_checkpoint,
    require_nothing_vanished,
    require_own_scores,
    require_same_declaration,
)
from fairgate.data import Dataset
from fairgate.errors import BaselineError, FairgateError
from fairgate.gate.counterparts import Counterpart, counterpart
from fairgate.gate.models import Progress, logit_scale_of, open_model, tracking_uri
from fairgate.gate.preparation import Prepared
from fairgate.gate.temperature import Scores, needs_entropy
from fairgate.models import Model, local_path
from fairgate.probes import Entropies, mean_entropies, read_scores, read_set_ids, scores_digest
from fairgate.records import Against, BaselineInfo, DatasetInfo, Environment, ModelInfo, RunRecord
from fairgate.suites import PlannedCheck, Settings, Suite, leaves, probe_digests, run_probes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScoredDefinition:
    """One definition's suite, the candidate's scores on its probes, and the checks that read them."""

    suite: Suite
    scores: Scores
    planned: Sequence[PlannedCheck]

    @property
    def compared_probes(self) -> dict[str, str]:
        """Probes that a check compares with another checkpoint, and the digests of their settings."""
        names = {one.check.probe for one in self.planned if one.against is not None}
        return {name: key for name, key in probe_digests(self.suite).items() if name in names}


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all comparisons of one run share: suite and dataset, options, and the progress callback."""

    prepared: Prepared
    settings: Settings
    progress: Progress | None = None

    def open(self, uri: str, base: Path | None = None) -> Model:
        """The model of a URI, over the run's dataset."""
        return open_model(uri, self.prepared, self.settings, self.progress, base)

    def score(self, model: Model, suites: Sequence[Suite]) -> tuple[Scores, ...]:
        """A model's scores on the probes of each suite."""
        return tuple(run_probes(model, self.prepared.dataset.index, suite) for suite in suites)


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A baseline or anchor: what records call it, its scores by definition, and the environment they were made in.

    `entropies` are the mean entropies of the answers by definition and probe; `no_entropy` says why there are none,
    and `scored_for_entropy` that the checkpoint was scored in this run for them alone. `notices` are shown next to the
    verdict. `counterpart` holds the candidate's scores with this checkpoint's tokenizer and preprocessing.
    """

    info: BaselineInfo
    scores: tuple[Scores, ...]
    environment: Environment | None = None
    precision: str | None = None
    logit_scale: float | None = None
    entropies: tuple[Mapping[str, Entropies], ...] = ()
    no_entropy: str | None = None
    scored_for_entropy: bool = False
    notices: tuple[str, ...] = ()
    counterpart: Counterpart = field(default_factory=Counterpart)


def dataset_info(dataset: Dataset) -> DatasetInfo:
    """The dataset as a record names it: by the identity that was computed, `unknown` where none could be."""
    manifest = dataset.manifest
    return DatasetInfo(
        name=dataset.name,
        version=dataset.version,
        fingerprint=dataset.identity or "unknown",
        counterfactual=manifest.counterfactual,
        attributes={name: list(groups) for name, groups in manifest.attributes.items()},
        notice=manifest.notice,
    )


def compare_with(
    text: str,
    definitions: Sequence[ScoredDefinition],
    candidate: Model,
    run: RunContext,
    *,
    anchor: bool = False,
    read_alike: bool = True,
) -> ComparedRun | None:
    """A baseline's (or anchor's) scores, checked to be comparable with the candidate's; None where there is none.

    With `read_alike`, the candidate is also scored with the other checkpoint's tokenizer and preprocessing, where they
    differ. Raises BaselineError where the baseline cannot be found or compared, or is the candidate by mistake.
    """
    from fairgate.reports import read_results

    spec = parse_baseline(text)
    against: Against = "anchor" if anchor else "baseline"
    if spec.kind == "none" or not any(one.against == against for each in definitions for one in each.planned):
        return None
    suites = [one.suite for one in definitions]
    reading: Model | ModelInfo
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        if spec.kind == "model":
            model = run.open(spec.target)
            same = model.fingerprint == candidate.fingerprint
            scores = tuple(one.scores for one in definitions) if same else run.score(model, suites)
            info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=model.fingerprint)
            found, reading, reopen = _scored_now(info, scores, model), model, lambda: model
        else:
            files = saved_record(spec, run.prepared.loaded.name, run.prepared.root, run.settings.mlflow, Path(scratch))
            saved = _SavedRun(str(spec), against, files, read_results(files.results), run, Path(scratch))
            found, reading = saved.compared(definitions, candidate), saved.record.model
            reopen = partial(saved.checkpoint, "tokenizer or preprocessing changed")
        if read_alike and found.info.fingerprint != candidate.fingerprint:
            alike = counterpart(candidate, reading, reopen, lambda model: run.score(model, suites), against)
            found = replace(found, counterpart=alike)
    # A pinned release may well be the checkpoint in use, and so may the record at the merge base of a change that
    # leaves the checkpoint alone. A file or a model that was named as "before" and is "after" is a mistake.
    innocent = anchor or spec.kind in ("git", "mlflow")
    if innocent and found.info.fingerprint == candidate.fingerprint:
        return replace(found, info=found.info.model_copy(update={"unchanged": True}))
    for one, before in zip(definitions, found.scores, strict=True):
        require_another_checkpoint((candidate.fingerprint, one.scores), (found.info.fingerprint, before), str(spec))
    return found


def saved_record(spec: BaselineSpec, suite: str, root: Path, mlflow: str | None, scratch: Path) -> RecordFiles:
    """The files of a record on disk, in git, or in MLflow; what must be fetched goes to `scratch`."""
    if spec.kind == "file":
        return record_in_folder(spec.target, root)
    if spec.kind == "git":
        repository = Repository(root)
        return record_in_git(repository, repository.merge_base(spec.target), baseline_folder(suite), scratch)
    if spec.kind != "mlflow":
        raise BaselineError(
            f"'{spec}' names no saved record.",
            where="--fairness-baseline",
            remedy="name one: git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID",
        )
    from fairgate.tracking import fetch_record

    run = fetch_record(spec.target, suite, tracking_uri(mlflow, str(spec)), scratch)
    return RecordFiles(run.results, run.scores, origin=f"MLflow run {run.run_id}")


@dataclass(frozen=True, slots=True)
class _SavedRun:
    """A saved record that serves as baseline or anchor, and how its checkpoint is opened again."""

    source: str
    against: Against
    files: RecordFiles
    record: RunRecord
    run: RunContext
    scratch: Path

    @property
    def where(self) -> str:
        """How errors name the record."""
        return self.files.origin or str(self.files.results)

    def compared(self, definitions: Sequence[ScoredDefinition], candidate: Model) -> ComparedRun:
        """The record's scores where its data and probes are those of this run; else its checkpoint is scored now."""
        record, prepared = self.record, self.run.prepared
        data = dataset_info(prepared.dataset)
        require_nothing_vanished(record, data, prepared.dataset.manifest.subjects, self.where)
        require_same_declaration(record, data, self.where)
        probes = [one.compared_probes for one in definitions]
        differs = mismatch(record, data, probes, preparation=candidate.preparation, name=self.against)
        info = BaselineInfo(
            source=self.source,
            uri=record.model.uri,
            fingerprint=record.model.fingerprint,
            created_at=record.created_at,
            commit=self.files.commit,
            rescored=differs,
        )
        if differs is not None:
            model = self.checkpoint(differs)
            found = _scored_now(info, self.run.score(model, [one.suite for one in definitions]), model)
            if record.dataset.fingerprint == data.fingerprint:
                return found
            now = frozenset(prepared.dataset.index.set_id)
            then = read_set_ids(self.files.scores, record.coverage.expected_images)
            said = dataset_notices(record, data, len(prepared.dataset), now, then, self.against)
            return replace(found, notices=tuple(said))
        scores = read_scores(self.files.scores, prepared.dataset.index)
        require_own_scores(record, scores_digest(scores), self.files.origin or str(self.files.scores))
        found = ComparedRun(
            info,
            tuple(self._comparable(one.suite, scores) for one in definitions),
            record.environment,
            record.model.precision,
            record.model.logit_scale,
            tuple(self._comparable(one.suite, record.answer_entropy) for one in definitions),
        )
        return found if record.model.fingerprint == candidate.fingerprint else self._with_entropies(found, definitions)

    def _with_entropies(self, found: ComparedRun, definitions: Sequence[ScoredDefinition]) -> ComparedRun:
        """With the mean entropies that comparisons of P(true) need, from the checkpoint where the record has none."""
        lacking = [
            _without_entropy(one, known, self.against) for one, known in zip(definitions, found.entropies, strict=True)
        ]
        if not any(lacking):
            return found
        suites = []
        for one, names in zip(definitions, lacking, strict=True):
            probes = {name: probe for name, probe in one.suite.probes.items() if name in names}
            suites.append(one.suite.model_copy(update={"probes": probes}))
        try:
            model = self.checkpoint(f"the {self.against}'s record holds no answer entropy")
            again = self.run.score(model, suites)
        except FairgateError as error:
            why = f"{error.problem} Make the {self.against} again: `fairgate baseline update SUITE --reason TEXT`"
            return replace(found, no_entropy=why)
        entropies = tuple({**known, **_entropies(new)} for known, new in zip(found.entropies, again, strict=True))
        return replace(found, entropies=entropies, scored_for_entropy=True)

    def _comparable(self, suite: Suite, values: Mapping[str, T]) -> dict[str, T]:
        """The record's scores, or entropies, of this suite's probes, as far as their digests are equal."""
        same = {name for name, key in probe_digests(suite).items() if self.record.probes.get(name) == key}
        return {name: one for name, one in values.items() if name.partition("[")[0] in same}

    def checkpoint(self, why: str) -> Model:
        """The very checkpoint that the record was made of: where its URI points here, or as it was at the merge base.

        Raises BaselineError, with the reason `why` it is needed, where neither is that checkpoint any more.
        """
        uri, wanted, root = self.record.model.uri, self.record.model.fingerprint, self.run.prepared.root
        if leaves(local_path(uri), root):  # whoever writes a record does not choose what this machine reads
            raise BaselineError(
                f"{why}; the {self.against}'s checkpoint would have to be scored again, and its record names a file "
                "outside of the repository.",
                where=self.where,
                remedy=f"if that file is the one to compare with, type it: --fairness-baseline 'model:{uri}'",
            )
        problems: list[str] = []
        for base in (root, self.scratch / "checkpoint"):
            try:
                if base != root:  # as it was at the record's commit
                    path = local_path(uri)
                    if self.files.commit is None or path is None or path.is_absolute():
                        continue
                    check_out(Repository(root), self.files.commit, path.as_posix(), base)
                model = self.run.open(uri, base)
            except FairgateError as error:
                problems.append(error.problem)
                continue
            if model.fingerprint == wanted:
                return model
            problems.append(
                f"'{uri}' now holds checkpoint {model.fingerprint[:12]}, the record was made of {wanted[:12]}"
            )
        raise BaselineError(
            f"{why}; the {self.against}'s checkpoint would have to be scored again, and it is not to be had: "
            f"{'; '.join(dict.fromkeys(problems))}.",
            where=self.where,
            remedy="name a checkpoint to compare with: `--fairness-baseline model:URI`, or make the baseline again",
        )


def _scored_now(info: BaselineInfo, scores: tuple[Scores, ...], model: Model) -> ComparedRun:
    return ComparedRun(
        info,
        scores,
        precision=model.precision,
        logit_scale=logit_scale_of(model),
        entropies=tuple(map(_entropies, scores)),
    )


def _entropies(scores: Scores) -> dict[str, Entropies]:
    return {name: mean_entropies(one) for name, one in scores.items() if one.contests}


def _without_entropy(one: ScoredDefinition, known: Mapping[str, Entropies], against: Against) -> set[str]:
    """Probes whose P(true) is compared and whose mean entropies are not known for every subject."""
    return {
        name
        for name in needs_entropy(one.planned, against)
        if not {contest.subject for contest in one.scores[name].contests} <= known.get(name, {}).keys()
    }
