"""The baseline or anchor of a run: a saved record or a checkpoint scored now, and whether it can be compared."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from fairgate.data import Dataset
from fairgate.gate.anchors import moved_anchor
from fairgate.gate.baselines import (
    RESULTS,
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
    scores_in_common,
)
from fairgate.gate.counterparts import Counterpart, counterpart
from fairgate.gate.models import Progress, model_info, open_instrument, open_model, tracking_uri
from fairgate.gate.preparation import Definition, Prepared
from fairgate.gate.record_approvals import record_approval
from fairgate.gate.reproduction import differences, other_environment, require_reproduced
from fairgate.gate.tables import edited
from fairgate.gate.temperature import Scores, needs_entropy
from fairgate.ground.errors import BaselineError, FairgateError
from fairgate.models import Model, local_paths
from fairgate.models.checkpoints import is_rooted, judging
from fairgate.probes import Entropies, mean_entropies, read_scores, read_set_ids, scores_digest
from fairgate.records import Against, BaselineInfo, DatasetInfo, Environment, ModelInfo, NeededApproval, RunRecord
from fairgate.suites import Settings, Suite, leaves, probe_digests, run_probes
from fairgate.tracking import environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A candidate, scored on the probes of each definition, and how others are opened and scored that it is compared
    with. `known` holds every checkpoint that this run has scored, with its scores, by fingerprint."""

    prepared: Prepared
    settings: Settings
    progress: Progress | None
    candidate: Model
    known: dict[str, tuple[Model, tuple[Scores, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.score_checkpoint(self.candidate)

    @property
    def scores(self) -> tuple[Scores, ...]:
        """The candidate's scores by definition."""
        return self.score_checkpoint(self.candidate)

    def open(self, uri: str, base: Path | None = None) -> Model:
        """The model of a URI, over the run's dataset."""
        return open_model(uri, self.prepared, self.settings, self.progress, base)

    def score(self, model: Model) -> tuple[Scores, ...]:
        """A model's scores by definition, also of a checkpoint that reads otherwise than its files say; definitions
        with equal probes share them."""
        suites, scores = [one.loaded.suite for one in self.prepared.definitions], list[Scores]()
        instruments = partial(open_instrument, self.prepared, self.settings, self.progress)
        for suite in suites:
            same = [other.probes for other in suites].index(suite.probes)
            known = same < len(scores)
            scores.append(scores[same] if known else run_probes(model, self.prepared.dataset.index, suite, instruments))
        return tuple(scores)

    def score_checkpoint(self, model: Model) -> tuple[Scores, ...]:
        """A checkpoint's scores by definition, as it reads by itself: from then on, no record of it counts instead."""
        if model.fingerprint not in self.known:
            self.known[model.fingerprint] = (model, self.score(model))
        return self.known[model.fingerprint][1]


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A baseline or anchor: its model, its scores by definition, and the environment they were made in.

    `entropies` are the mean entropies of the answers by definition and probe; `no_entropy` says why there are none,
    and `scored_for_entropy` that the checkpoint was scored in this run for them alone. `notices` are shown next to the
    verdict, `weighed` is what a person has to approve. `counterpart` holds the candidate's scores with this
    checkpoint's tokenizer and preprocessing.
    """

    info: BaselineInfo
    model: ModelInfo
    scores: tuple[Scores, ...]
    environment: Environment | None = None
    entropies: tuple[Mapping[str, Entropies], ...] = ()
    no_entropy: str | None = None
    scored_for_entropy: bool = False
    notices: tuple[str, ...] = ()
    weighed: tuple[NeededApproval, ...] = ()
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
    text: str, run: CandidateRun, against: Against = "baseline", *, read_alike: bool = True
) -> ComparedRun | None:
    """A baseline's (or anchor's) scores, checked to be comparable with the candidate's; None where there is none.

    With `read_alike`, the candidate is also scored with the other checkpoint's tokenizer and preprocessing, where they
    differ. Raises BaselineError where the baseline cannot be found or compared, or is the candidate by mistake.
    """
    from fairgate.reports import read_results

    spec = parse_baseline(text)
    compared = {one.against for each in run.prepared.definitions for one in each.planned}
    if spec.kind == "none" or against not in compared:
        return None
    candidate = run.candidate
    reading: Model | ModelInfo
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        if spec.kind == "model":
            model = _model_to_compare(spec.target, run, Path(scratch))
            scores = run.score_checkpoint(model)
            info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=model.fingerprint)
            found, reading, reopen = _scored_now(info, scores, model), model, lambda: model
        else:
            files = _record_of(spec, run, Path(scratch))
            saved = _SavedRun(str(spec), against, files, read_results(files.results), run, Path(scratch))
            found, reading = saved.compared(), saved.record.model
            reopen = partial(saved.checkpoint, "tokenizer or preprocessing changed")
        if read_alike and found.info.fingerprint != candidate.fingerprint:
            found = replace(found, counterpart=counterpart(candidate, reading, reopen, run.score, against))
    # A pinned release may well be the checkpoint in use, and so may the record at the merge base of a change that
    # leaves the checkpoint alone. A file or a model that was named as "before" and is "after" is a mistake.
    moved = moved_anchor(spec, Repository(run.prepared.root)) if against == "anchor" else []
    found = replace(found, weighed=(*found.weighed, *moved))
    innocent = against == "anchor" or spec.kind in ("git", "mlflow")
    if innocent and found.info.fingerprint == candidate.fingerprint:
        return replace(found, info=found.info.model_copy(update={"unchanged": True}))
    for now, before in zip(run.scores, found.scores, strict=True):
        require_another_checkpoint((candidate.fingerprint, now), (found.info.fingerprint, before), str(spec))
    both = zip(run.scores, found.scores, strict=True)
    if all(scores_in_common(now, before) == "same words" for now, before in both):
        said = f"every answer is that of the {against}, image by image; if that is a surprise, check both URIs"
        return replace(found, notices=(*found.notices, said))
    return found


def _model_to_compare(uri: str, run: CandidateRun, scratch: Path) -> Model:
    """The checkpoint of a `model:` baseline; of one that this change edits, what the merge base has."""
    prepared, paths = run.prepared, local_paths(uri)
    repository, base = Repository(prepared.root), prepared.compared
    changed = [path for path in paths if base is not None and edited(repository, base.commit, path)]
    if base is None or not changed:
        return run.open(uri)
    if any(path.is_absolute() for path in changed):
        raise BaselineError(
            f"this change edits {changed[0]}, which it is compared with, and the merge base's cannot take its place.",
            where=f"model:{uri}",
            remedy="name it by its path in the repository",
        )
    _bring_back(paths, repository, base.commit, scratch)
    with judging(prepared.root):
        return run.open(uri, scratch)


def _bring_back(paths: Sequence[Path], repository: Repository, commit: str, into: Path) -> None:
    """A checkpoint's files as they were at a commit, below `into`. Raises BaselineError if they are not to be had."""
    kept = [path for path in paths if not (is_rooted(path) or path.is_absolute())]  # no commit holds what is elsewhere
    for path in kept:
        if not any(path != other and path.is_relative_to(other) for other in kept):  # else it comes with that folder
            check_out(repository, commit, path.as_posix(), into)


def _record_of(spec: BaselineSpec, run: CandidateRun, scratch: Path) -> RecordFiles:
    """A saved record; of one in the repository that this change edits, what the merge base has."""
    prepared, folder = run.prepared, spec.target.removesuffix(f"/{RESULTS}")
    if spec.kind == "file" and folder in prepared.edited_records and prepared.compared is not None:
        return record_in_git(Repository(prepared.root), prepared.compared.commit, folder, scratch)
    return saved_record(spec, prepared.loaded.name, prepared.root, run.settings.mlflow, scratch)


def saved_record(spec: BaselineSpec, suite: str, root: Path, mlflow: str | None, scratch: Path) -> RecordFiles:
    """The files of a record on disk, in git, or in MLflow; what must be fetched goes to `scratch`."""
    if spec.kind == "file":
        return record_in_folder(spec.target, root)
    if spec.kind == "git":
        repository = Repository(root)
        commit = repository.tip(spec.pinned[1]) if spec.pinned else repository.merge_base(spec.target)
        return record_in_git(repository, commit, baseline_folder(suite), scratch)
    if spec.kind != "mlflow":
        raise BaselineError(
            f"'{spec}' names no saved record.",
            where="--fairness-baseline",
            remedy="name one: git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID",
        )
    from fairgate.tracking import fetch_record

    return fetch_record(spec.target, suite, tracking_uri(mlflow, str(spec)), scratch, root)


@dataclass(frozen=True, slots=True)
class _SavedRun:
    """A saved record that serves as baseline or anchor, and how its checkpoint is opened again."""

    source: str
    against: Against
    files: RecordFiles
    record: RunRecord
    run: CandidateRun
    scratch: Path

    @property
    def where(self) -> str:
        """How errors name the record."""
        return self.files.origin or str(self.files.results)

    def compared(self) -> ComparedRun:
        """The record's scores where its data and probes are those of this run; else its checkpoint is scored now."""
        record, prepared, candidate = self.record, self.run.prepared, self.run.candidate
        data = dataset_info(prepared.dataset)
        require_nothing_vanished(record, data, prepared.dataset.manifest.subjects, self.where)
        require_same_declaration(record, data, self.where)
        probes = [_compared_probes(one) for one in prepared.definitions]
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
            found = _scored_now(info, self.run.score_checkpoint(model), model)
            if record.dataset.fingerprint == data.fingerprint:
                return found
            now = frozenset(prepared.dataset.index.set_id)
            then = read_set_ids(self.files.scores, record.coverage.expected_images)
            said = dataset_notices(record, data, len(prepared.dataset), now, then, self.against)
            return replace(found, notices=tuple(said))
        scores = read_scores(self.files.scores, prepared.dataset.index)
        require_own_scores(record, scores_digest(scores), self.files.origin or str(self.files.scores))
        suites = [one.loaded.suite for one in prepared.definitions]
        found = ComparedRun(
            info,
            record.model,
            tuple(self._comparable(suite, scores) for suite in suites),
            record.environment,
            tuple(self._comparable(suite, record.answer_entropy) for suite in suites),
        )
        if record.model.fingerprint in self.run.known:
            return self._recomputed(found, *self.run.known[record.model.fingerprint])
        return self._with_entropies(found)

    def _recomputed(self, found: ComparedRun, model: Model, scores: tuple[Scores, ...]) -> ComparedRun:
        """What the record's checkpoint answers in this run counts, and the record's own scores do not.

        Raises BaselineError for a record that differs from it in the same environment, unless this change makes the
        record again: then a person weighs that.
        """
        info, notices, weighed = model_info(self.record.model.uri, model), list(found.notices), list(found.weighed)
        folder = baseline_folder(self.run.prepared.loaded.name)
        made_again = self.source.startswith("git:") and folder in self.run.prepared.edited_records
        for then, now in zip(found.scores, scores, strict=True):
            apart = differences(then, now, self.run.prepared.dataset.index)
            if not apart.beyond:
                continue
            reasons = other_environment(self.record, environment(self.run.prepared.root, model.device), info)
            if made_again and not reasons:
                what = f"takes the place of one that is not what its checkpoint answers: {apart.beyond[0]}"
                weighed = [record_approval(folder, self.run.prepared, what)]
                continue
            require_reproduced(apart.beyond, reasons, self.where)
            notices.append(
                f"the {self.against}'s record was made in another environment ({reasons[0]}), and its checkpoint "
                f"answers otherwise here: {apart.beyond[0]}. What it answers here counts"
            )
        again = tuple(map(_entropies, scores))
        return replace(
            found, scores=scores, entropies=again, notices=tuple(dict.fromkeys(notices)), weighed=tuple(weighed)
        )

    def _with_entropies(self, found: ComparedRun) -> ComparedRun:
        """With the mean entropies that comparisons of P(true) need, from the checkpoint where the record has none."""
        definitions = zip(self.run.prepared.definitions, self.run.scores, found.entropies, strict=True)
        if not any(
            not {contest.subject for contest in scores[name].contests} <= known.get(name, {}).keys()
            for one, scores, known in definitions
            for name in needs_entropy(one.planned, self.against)
        ):
            return found
        try:
            model = self.checkpoint(f"the {self.against}'s record holds no answer entropy")
            again = self.run.score_checkpoint(model)
        except FairgateError as error:
            why = f"{error.problem} Make the {self.against} again: `fairgate baseline update SUITE --reason TEXT`"
            return replace(found, no_entropy=why)
        return replace(self._recomputed(found, model, again), scored_for_entropy=True)

    def _comparable(self, suite: Suite, values: Mapping[str, T]) -> dict[str, T]:
        """The record's scores, or entropies, of this suite's probes, as far as their digests are equal."""
        same = {name for name, key in probe_digests(suite).items() if self.record.probes.get(name) == key}
        return {name: one for name, one in values.items() if name.partition("[")[0] in same}

    def checkpoint(self, why: str) -> Model:
        """The very checkpoint that the record was made of: where its URI points here, or as it was at the merge base.

        Raises BaselineError, with the reason `why` it is needed, where neither is that checkpoint any more.
        """
        uri, wanted, root = self.record.model.uri, self.record.model.fingerprint, self.run.prepared.root
        paths = local_paths(uri)
        if any(leaves(path, root) for path in paths):  # whoever writes a record does not choose what this machine reads
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
                    kept = [path for path in paths if not is_rooted(path)]
                    if self.files.commit is None or not kept or any(path.is_absolute() for path in kept):
                        continue
                    _bring_back(kept, Repository(root), self.files.commit, base)
                with judging(root):
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


def _compared_probes(one: Definition) -> dict[str, str]:
    """Probes that a check compares with another checkpoint, and the digests of their settings."""
    names = {planned.check.probe for planned in one.planned if planned.against is not None}
    return {name: key for name, key in probe_digests(one.loaded.suite).items() if name in names}


def _scored_now(info: BaselineInfo, scores: tuple[Scores, ...], model: Model) -> ComparedRun:
    return ComparedRun(info, model_info(info.uri, model), scores, entropies=tuple(map(_entropies, scores)))


def _entropies(scores: Scores) -> dict[str, Entropies]:
    return {name: mean_entropies(one) for name, one in scores.items() if one.contests}
