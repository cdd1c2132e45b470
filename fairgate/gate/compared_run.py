"""What a candidate is compared with: a record that was kept, a checkpoint scored now, and whether it may be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from fairgate.baselines import (
    BaselineSpec,
    Kept,
    Repository,
    baseline_folder,
    kept_in_folder,
    kept_in_git,
    mismatch,
    parse_baseline,
    require_another_checkpoint,
    require_nothing_vanished,
    require_own_scores,
    require_same_declaration,
)
from fairgate.data import Dataset
from fairgate.errors import BaselineError, FairgateError, ModelError
from fairgate.gate.counterparts import Counterpart, Reading, counterpart
from fairgate.gate.notices import dataset_notices
from fairgate.gate.prepare import Prepared
from fairgate.gate.temperature import needs_entropy
from fairgate.models import EmbeddingCache, Model, local_path, open_scorer
from fairgate.probes import Entropies, ProbeScores, mean_entropies, read_scores, read_set_ids, scores_digest
from fairgate.records import Against, BaselineInfo, DatasetInfo, Environment, RunRecord
from fairgate.suites import PlannedCheck, Settings
from fairgate.suites.run_probes import probe_digests, run_probes
from fairgate.suites.schema import Suite
from fairgate.suites.settings import default_cache
from fairgate.suites.validate import leaves

Progress = Callable[[str, int, int], None]
Scores = dict[str, ProbeScores]
T = TypeVar("T")

MLFLOW_MODEL = "mlflow-model:"


@dataclass(frozen=True, slots=True)
class Asked:
    """One definition's suite, what the candidate answered to it, and the checks that read the answers."""

    suite: Suite
    scores: Scores
    planned: Sequence[PlannedCheck]

    @property
    def compared_probes(self) -> dict[str, str]:
        """Probes that a check compares with another checkpoint, and the digests of what they ask."""
        names = {one.check.probe for one in self.planned if one.against is not None}
        return {name: key for name, key in probe_digests(self.suite).items() if name in names}


@dataclass(frozen=True, slots=True)
class Run:
    """What everything that is compared in one run shares: suite and dataset, options, and whom to tell of progress."""

    prepared: Prepared
    settings: Settings
    progress: Progress | None = None
    read_alike: bool = True

    def open(self, uri: str, base: Path | None = None) -> Model:
        """The model of a URI, over the run's dataset."""
        return open_model(uri, self.prepared, self.settings, self.progress, base)

    def ask(self, scorer: Model, suite: Suite) -> Scores:
        """A model's answers to a suite's probes."""
        return run_probes(scorer, self.prepared.dataset.index, suite)


@dataclass(frozen=True, slots=True)
class Compared:
    """A baseline or anchor: its name, its answers to each definition, where its record was made, and what a reviewer is
    shown of it next to the verdict.

    `counterpart` holds what the candidate answers when it reads texts and pictures as this checkpoint did. `entropies`
    are the mean entropies of the answers to each definition, by probe, `no_entropy` says why there are none
    and `scored_for_entropy` that its checkpoint was scored in this run for them alone.
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


def open_model(
    uri: str, prepared: Prepared, settings: Settings, progress: Progress | None = None, base: Path | None = None
) -> Model:
    """The model of a URI, over the prepared dataset."""
    return open_local(registered(uri, settings)[0], prepared, settings, progress, base)


def open_local(
    uri: str, prepared: Prepared, settings: Settings, progress: Progress | None = None, base: Path | None = None
) -> Model:
    """The model of a URI that needs no registry."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(uri, done, total)

    return open_scorer(
        uri,
        prepared.dataset,
        device=settings.device,
        cache=EmbeddingCache(settings.cache) if settings.cache is not None else None,
        allow_pickle=settings.allow_pickle,
        base=base or prepared.root,
        progress=report,
    )


def compare_with(
    text: str, asked: Sequence[Asked], candidate: Model, run: Run, *, anchor: bool = False, read_alike: bool = True
) -> Compared | None:
    """A baseline's (or anchor's) answers, known to be comparable with the candidate's; None where there is none.

    With `read_alike`, the candidate is also asked with its tokenizer and preprocessing, where they differ.

    Raises BaselineError where it cannot be found or compared, and where it is the candidate by mistake.
    """
    run = replace(run, read_alike=read_alike)
    spec = parse_baseline(text)
    wanted: Against = "anchor" if anchor else "baseline"
    if spec.kind == "none" or not any(one.against == wanted for each in asked for one in each.planned):
        return None
    if spec.kind == "model":
        scorer = run.open(spec.target)
        same = scorer.fingerprint == candidate.fingerprint
        answers = tuple(one.scores if same else run.ask(scorer, one.suite) for one in asked)
        info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=scorer.fingerprint)
        found = _read_alike(
            _scored_now(info, answers, scorer), Reading.of(scorer), lambda: scorer, asked, candidate, run, wanted
        )
    else:
        with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
            found = _of_record(spec, wanted, asked, candidate, run, Path(scratch))
    # A pinned release may well be the checkpoint in use, and so may the record at the merge base of a change that
    # leaves the checkpoint alone. A file or a model that was named as "before" and is "after" is a mistake.
    innocent = anchor or spec.kind in ("git", "mlflow")
    if innocent and found.info.fingerprint == candidate.fingerprint:
        return replace(found, info=found.info.model_copy(update={"unchanged": True}))
    for one, before in zip(asked, found.scores, strict=True):
        require_another_checkpoint((candidate.fingerprint, one.scores), (found.info.fingerprint, before), str(spec))
    return found


def kept_record(spec: BaselineSpec, suite: str, root: Path, mlflow: str | None, scratch: Path) -> Kept:
    """The files of a record that was kept on disk, in git, or in MLflow; what must be fetched goes to `scratch`."""
    if spec.kind == "file":
        return kept_in_folder(spec.target, root)
    if spec.kind == "git":
        repository = Repository(root)
        return kept_in_git(repository, repository.merge_base(spec.target), baseline_folder(suite), scratch)
    if spec.kind != "mlflow":
        raise BaselineError(
            f"'{spec}' is no record that was kept.",
            where="--fairness-baseline",
            remedy="name one: git:REF, file:PATH, mlflow:latest or mlflow:RUN_ID",
        )
    from fairgate.tracking import fetch_record

    run = fetch_record(spec.target, suite, _tracking_uri(mlflow, str(spec)), scratch)
    return Kept(run.results, run.scores, origin=f"MLflow run {run.run_id}")


def _of_record(
    spec: BaselineSpec, name: Against, asked: Sequence[Asked], candidate: Model, run: Run, scratch: Path
) -> Compared:
    """What was kept of a run, and what the candidate answers when it reads as that run's checkpoint did."""
    from fairgate.reports import read_results

    kept = kept_record(spec, run.prepared.loaded.name, run.prepared.root, run.settings.mlflow, scratch)
    record = read_results(kept.results)
    found = _answers_of_record(spec, name, record, kept, asked, candidate, run, scratch)
    reopen = partial(_the_same_checkpoint, record, name, kept, "tokenizer or preprocessing changed", run, scratch)
    reads = Reading(record.model.tokenizer, record.model.preprocessing)
    return _read_alike(found, reads, reopen, asked, candidate, run, name)


def _read_alike(
    found: Compared,
    reads: Reading,
    reopen: Callable[[], Model],
    asked: Sequence[Asked],
    candidate: Model,
    run: Run,
    against: Against,
) -> Compared:
    if not run.read_alike or found.info.fingerprint == candidate.fingerprint:
        return found

    def answer(scorer: Model) -> tuple[Scores, ...]:
        return tuple(run.ask(scorer, one.suite) for one in asked)

    return replace(found, counterpart=counterpart(candidate, reads, reopen, answer, against))


def _answers_of_record(
    spec: BaselineSpec,
    name: Against,
    record: RunRecord,
    kept: Kept,
    asked: Sequence[Asked],
    candidate: Model,
    run: Run,
    scratch: Path,
) -> Compared:
    """A kept record's answers where it was asked the same of the same data; else its checkpoint's, scored now."""
    prepared = run.prepared
    data, subjects = dataset_info(prepared.dataset), prepared.dataset.manifest.subjects
    require_nothing_vanished(record, data, subjects, kept.origin or str(kept.results))
    require_same_declaration(record, data, kept.origin or str(kept.results))
    questions = [one.compared_probes for one in asked]
    differs = mismatch(record, data, questions, preparation=candidate.preparation, name=name)
    info = BaselineInfo(
        source=str(spec),
        uri=record.model.uri,
        fingerprint=record.model.fingerprint,
        created_at=record.created_at,
        commit=kept.commit,
        rescored=differs,
    )
    if differs is not None:
        scorer = _the_same_checkpoint(record, name, kept, differs, run, scratch)
        answers = tuple(run.ask(scorer, one.suite) for one in asked)
        return replace(_scored_now(info, answers, scorer), notices=_other_data(record, kept, prepared, name))
    scores = read_scores(kept.scores, prepared.dataset.index)
    require_own_scores(record, scores_digest(scores), kept.origin or str(kept.scores))
    found = Compared(
        info,
        tuple(_answering(one.suite, record, scores) for one in asked),
        record.environment,
        record.model.precision,
        record.model.logit_scale,
        tuple(_answering(one.suite, record, record.answer_entropy) for one in asked),
    )
    lacking = [_without_entropy(one, known, name) for one, known in zip(asked, found.entropies, strict=True)]
    if not any(lacking) or record.model.fingerprint == candidate.fingerprint:
        return found
    try:
        scorer = _the_same_checkpoint(record, name, kept, f"the {name}'s record holds no answer entropy", run, scratch)
        again = [run.ask(scorer, _with_probes(one.suite, names)) for one, names in zip(asked, lacking, strict=True)]
    except FairgateError as error:
        why = f"{error.problem} Make the {name} again: `fairgate baseline update SUITE --reason TEXT`"
        return replace(found, no_entropy=why)
    entropies = tuple({**known, **_entropies(new)} for known, new in zip(found.entropies, again, strict=True))
    return replace(found, entropies=entropies, scored_for_entropy=True)


def _scored_now(info: BaselineInfo, answers: tuple[Scores, ...], scorer: Model) -> Compared:
    return Compared(
        info,
        answers,
        precision=scorer.precision,
        logit_scale=logit_scale_of(scorer),
        entropies=tuple(_entropies(scores) for scores in answers),
    )


def _other_data(record: RunRecord, kept: Kept, prepared: Prepared, name: str) -> tuple[str, ...]:
    """What of the data is not what a record was made on."""
    data, now = dataset_info(prepared.dataset), frozenset(prepared.dataset.index.set_id)
    if record.dataset.fingerprint == data.fingerprint:
        return ()
    then = read_set_ids(kept.scores, record.coverage.expected_images)
    return tuple(dataset_notices(record, data, len(prepared.dataset), now, then, name))


def logit_scale_of(scorer: Model) -> float | None:
    """What multiplies cosines before the softmax; None for a model that has no such number, or does not tell it."""
    scale = getattr(scorer, "logit_scale", None)
    return None if scale is None else float(scale)


def _entropies(scores: Scores) -> dict[str, Entropies]:
    return {name: mean_entropies(one) for name, one in scores.items() if one.contests}


def _without_entropy(one: Asked, known: Mapping[str, Entropies], wanted: Against) -> set[str]:
    """Probes whose P(true) is compared and whose mean entropies are not known for every subject."""
    return {
        name
        for name in needs_entropy(one.planned, wanted)
        if not {contest.subject for contest in one.scores[name].contests} <= known.get(name, {}).keys()
    }


def _with_probes(suite: Suite, names: Collection[str]) -> Suite:
    return suite.model_copy(update={"probes": {name: probe for name, probe in suite.probes.items() if name in names}})


def _answering(suite: Suite, record: RunRecord, scores: Mapping[str, T]) -> dict[str, T]:
    """What a record holds of this suite's probes, where it asked the same: scores or entropies."""
    same = {name for name, key in probe_digests(suite).items() if record.probes.get(name) == key}
    return {name: one for name, one in scores.items() if name.partition("[")[0] in same}


def _the_same_checkpoint(record: RunRecord, name: str, kept: Kept, differs: str, run: Run, scratch: Path) -> Model:
    """The very checkpoint that a record was made of: where its URI points here, or as it was at the merge base.

    Raises BaselineError, saying what differs, where neither is that checkpoint any more.
    """
    uri, wanted, root = record.model.uri, record.model.fingerprint, run.prepared.root
    if leaves(local_path(uri), root):  # whoever writes a record does not choose what this machine reads
        raise BaselineError(
            f"{differs}; the {name}'s checkpoint would have to be scored again, and its record names a file outside "
            "of the repository.",
            where=kept.origin or str(kept.results),
            remedy=f"if that file is the one to compare with, type it: --fairness-baseline 'model:{uri}'",
        )
    told: list[str] = []
    for base in (root, scratch / "checkpoint"):
        try:
            if base != root and not _brought_back(uri, kept, root, base):
                continue
            scorer = run.open(uri, base)
        except FairgateError as error:
            told.append(error.problem)
            continue
        if scorer.fingerprint == wanted:
            return scorer
        told.append(f"'{uri}' now holds checkpoint {scorer.fingerprint[:12]}, the record was made of {wanted[:12]}")
    raise BaselineError(
        f"{differs}; the {name}'s checkpoint would have to be scored again, and it is not to be had: "
        f"{'; '.join(dict.fromkeys(told))}.",
        where=kept.origin or str(kept.results),
        remedy="name a checkpoint to compare with: `--fairness-baseline model:URI`, or make the baseline again",
    )


def _brought_back(uri: str, kept: Kept, root: Path, into: Path) -> bool:
    """Whether the files of a model URI could be brought back as they were at the record's commit."""
    path = local_path(uri)
    if kept.commit is None or path is None or path.is_absolute():
        return False
    Repository(root).check_out(kept.commit, path.as_posix(), into)
    return True


def registered(uri: str, settings: Settings) -> tuple[str, str | None]:
    """A URI that can be opened here, and `NAME/VERSION` where it came from MLflow's registry: fetched first, once."""
    if not uri.startswith(MLFLOW_MODEL):
        return uri, None
    from fairgate.tracking import fetch_model

    folder = (settings.cache or default_cache(os.environ)) / "registered"
    found = fetch_model(uri.removeprefix(MLFLOW_MODEL), _tracking_uri(settings.mlflow, uri), folder)
    return found.local_uri, f"{found.name}/{found.version}"


def _tracking_uri(mlflow: str | None, what: str) -> str:
    uri = mlflow or os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        return uri
    raise ModelError(
        f"'{what}' is kept in MLflow, and MLflow is off.",
        where="--fairness-mlflow",
        remedy="give the tracking URI with --fairness-mlflow, or in MLFLOW_TRACKING_URI (it is only read from then)",
    )
