"""A saved record that is compared with: its scores if they can be compared, else its checkpoint's, scored now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from fairgate import tracking
from fairgate.gate import baselines
from fairgate.gate.approvals import record_approval
from fairgate.gate.model_runs import CandidateRun, ComparedRun, dataset_info, entropies_of, model_info, tracking_uri
from fairgate.gate.preparation import Definition
from fairgate.gate.reading import Scores, needs_entropy
from fairgate.gate.reproduction import differences, other_environment, require_reproduced
from fairgate.ground.errors import BaselineError, FairgateError
from fairgate.models import Model, local_paths
from fairgate.models.checkpoints import is_rooted, judging
from fairgate.probes import read_scores, read_set_ids, scores_digest
from fairgate.records import Against, BaselineInfo, RunRecord
from fairgate.suites import Suite, leaves, probe_digests

T = TypeVar("T")


def record_of(spec: baselines.BaselineSpec, run: CandidateRun, scratch: Path) -> baselines.RecordFiles:
    """A saved record; of one in the repository that this change edits, what the merge base has."""
    prepared, folder = run.prepared, spec.target.removesuffix(f"/{baselines.RESULTS}")
    if spec.kind == "file" and folder in prepared.edited_records and prepared.compared is not None:
        return baselines.record_in_git(prepared.repository, prepared.compared.commit, folder, scratch)
    return saved_record(spec, prepared.loaded.name, prepared.repository, run.settings.mlflow, scratch)


def saved_record(
    spec: baselines.BaselineSpec, suite: str, repository: baselines.Repository, mlflow: str | None, scratch: Path
) -> baselines.RecordFiles:
    """The files of a record on disk, in git, or in MLflow; what must be fetched goes to `scratch`."""
    if spec.kind == "file":
        return baselines.record_in_folder(spec.target, repository.root)
    if spec.kind == "git":
        commit = repository.tip(spec.pinned[1]) if spec.pinned else repository.merge_base(spec.target)
        return baselines.record_in_git(repository, commit, baselines.baseline_folder(suite), scratch)
    if spec.kind != "mlflow":
        raise BaselineError(
            f"'{spec}' names no saved record.",
            where="--fairness-baseline",
            remedy="name one: git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID",
        )
    return tracking.fetch_record(spec.target, suite, tracking_uri(mlflow, str(spec)), scratch, repository.root)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A saved record that serves as baseline or anchor, and how its checkpoint is opened again."""

    source: str
    against: Against
    files: baselines.RecordFiles
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
        baselines.require_nothing_vanished(record, data, prepared.dataset.manifest.subjects, self.where)
        baselines.require_same_declaration(record, data, self.where)
        probes = [compared_probes(definition) for definition in prepared.definitions]
        differs = baselines.mismatch(record, data, probes, preparation=candidate.preparation, name=self.against)
        info = BaselineInfo(
            source=self.source,
            uri=record.model.uri,
            fingerprint=record.model.fingerprint,
            created_at=record.created_at,
            commit=self.files.commit,
            rescored=differs,
            weights=record.model.weights,
        )
        if differs is not None:
            model = self.checkpoint(differs)
            compared = self.run.compared(info, model)
            if record.dataset.fingerprint == data.fingerprint:
                return compared
            now = frozenset(prepared.dataset.index.set_id)
            then = read_set_ids(self.files.scores, record.coverage.expected_images)
            sentences = baselines.dataset_notices(record, data, len(prepared.dataset), now, then, self.against)
            return replace(compared, notices=tuple(sentences))
        scores = read_scores(self.files.scores, prepared.dataset.index)
        baselines.require_own_scores(record, scores_digest(scores), self.files.origin or str(self.files.scores))
        suites = [definition.loaded.suite for definition in prepared.definitions]
        compared = ComparedRun(
            info,
            record.model,
            tuple(self._comparable(suite, scores) for suite in suites),
            record.environment,
            tuple(self._comparable(suite, record.answer_entropy) for suite in suites),
        )
        if record.model.fingerprint in self.run.known:
            return self._recomputed(compared, *self.run.known[record.model.fingerprint])
        return self._with_entropies(compared)

    def _recomputed(self, compared: ComparedRun, model: Model, scores: tuple[Scores, ...]) -> ComparedRun:
        """What the record's checkpoint answers in this run counts, and the record's own scores do not.

        Raises BaselineError for a record that differs from it in the same environment, unless this change makes the
        record again: then a person weighs that.
        """
        info = model_info(self.record.model.uri, model)
        notices, weighed = list(compared.notices), list(compared.weighed)
        folder = baselines.baseline_folder(self.run.prepared.loaded.name)
        made_again = self.source.startswith("git:") and folder in self.run.prepared.edited_records
        for then, now in zip(compared.scores, scores, strict=True):
            apart = differences(then, now, self.run.prepared.dataset.index)
            if not apart.beyond:
                continue
            reasons = other_environment(self.record, tracking.environment(self.run.prepared.root, model.device), info)
            if made_again and not reasons:
                what = f"takes the place of one that is not what its checkpoint answers: {apart.beyond[0]}"
                weighed = [record_approval(folder, self.run.prepared, what)]
                continue
            require_reproduced(apart.beyond, reasons, self.where)
            notices.append(
                f"the {self.against}'s record was made in another environment ({reasons[0]}), and its checkpoint "
                f"answers otherwise here: {apart.beyond[0]}. What it answers here counts"
            )
        again = tuple(map(entropies_of, scores))
        return replace(
            compared, scores=scores, entropies=again, notices=tuple(dict.fromkeys(notices)), weighed=tuple(weighed)
        )

    def _with_entropies(self, compared: ComparedRun) -> ComparedRun:
        """With the mean entropies that comparisons of P(true) need, from the checkpoint where the record has none."""
        definitions = zip(self.run.prepared.definitions, self.run.scores, compared.entropies, strict=True)
        if not any(
            not {contest.subject for contest in scores[name].contests} <= known.get(name, {}).keys()
            for definition, scores, known in definitions
            for name in needs_entropy(definition.planned, self.against)
        ):
            return compared
        try:
            model = self.checkpoint(f"the {self.against}'s record holds no answer entropy")
            again = self.run.score_checkpoint(model)
        except FairgateError as error:
            why = f"{error.problem} Make the {self.against} again: `fairgate baseline update SUITE --reason TEXT`"
            return replace(compared, no_entropy=why)
        return replace(self._recomputed(compared, model, again), scored_for_entropy=True)

    def _comparable(self, suite: Suite, values: Mapping[str, T]) -> dict[str, T]:
        """The record's scores, or entropies, of this suite's probes, as far as their digests are equal."""
        same = {name for name, key in probe_digests(suite).items() if self.record.probes.get(name) == key}
        return {name: value for name, value in values.items() if name.partition("[")[0] in same}

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
                    bring_back(kept, self.run.prepared.repository, self.files.commit, base)
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


def bring_back(paths: Sequence[Path], repository: baselines.Repository, commit: str, into: Path) -> None:
    """A checkpoint's files as they were at a commit, below `into`. Raises BaselineError if they are not to be had."""
    kept = [path for path in paths if not (is_rooted(path) or path.is_absolute())]  # no commit holds what is elsewhere
    for path in kept:
        if not any(path != other and path.is_relative_to(other) for other in kept):  # else it comes with that folder
            baselines.check_out(repository, commit, path.as_posix(), into)


def compared_probes(definition: Definition) -> dict[str, str]:
    """Probes that a check compares with another checkpoint, and the digests of their settings."""
    names = {planned.check.probe for planned in definition.planned if planned.against is not None}
    return {name: key for name, key in probe_digests(definition.loaded.suite).items() if name in names}
