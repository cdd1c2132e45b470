"""What a candidate is compared with: a record that was kept, a checkpoint scored now, and whether it may be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
)
from fairgate.data import Dataset
from fairgate.errors import BaselineError, FairgateError, ModelError
from fairgate.gate.prepare import Prepared
from fairgate.models import EmbeddingCache, Scorer, local_path, open_scorer
from fairgate.probes import ProbeScores, read_scores, scores_digest
from fairgate.records import BaselineInfo, DatasetInfo, Environment, RunRecord
from fairgate.suites import PlannedCheck, Settings
from fairgate.suites.ask import ask
from fairgate.suites.asked import probe_digests
from fairgate.suites.inside import leaves
from fairgate.suites.schema import Suite
from fairgate.suites.settings import default_cache

Progress = Callable[[str, int, int], None]
Scores = dict[str, ProbeScores]

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

    def open(self, uri: str, base: Path | None = None) -> Scorer:
        """The model of a URI, over the run's dataset."""
        return open_model(uri, self.prepared, self.settings, self.progress, base)

    def ask(self, scorer: Scorer, suite: Suite) -> Scores:
        """A model's answers to a suite's probes."""
        return ask(scorer, self.prepared.dataset.index, suite)


@dataclass(frozen=True, slots=True)
class Compared:
    """A baseline or anchor: its name, its answers to each definition, and where its record was made."""

    info: BaselineInfo
    scores: tuple[Scores, ...]
    environment: Environment | None = None
    precision: str | None = None


def dataset_info(dataset: Dataset) -> DatasetInfo:
    """The dataset as a record names it."""
    manifest = dataset.manifest
    return DatasetInfo(
        name=dataset.name,
        version=dataset.version,
        fingerprint=dataset.fingerprint,
        counterfactual=manifest.counterfactual,
        attributes={name: list(groups) for name, groups in manifest.attributes.items()},
        notice=manifest.notice,
    )


def open_model(
    uri: str, prepared: Prepared, settings: Settings, progress: Progress | None = None, base: Path | None = None
) -> Scorer:
    """The model of a URI, over the prepared dataset."""

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(uri, done, total)

    return open_scorer(
        registered(uri, settings)[0],
        prepared.dataset,
        device=settings.device,
        cache=EmbeddingCache(settings.cache) if settings.cache is not None else None,
        allow_pickle=settings.allow_pickle,
        base=base or prepared.root,
        progress=report,
    )


def compare_with(
    text: str, asked: Sequence[Asked], candidate: Scorer, run: Run, *, anchor: bool = False
) -> Compared | None:
    """A baseline's (or anchor's) answers, known to be comparable with the candidate's; None where there is none.

    Raises BaselineError where it cannot be found or compared, and where it is the candidate by mistake.
    """
    spec = parse_baseline(text)
    wanted = "anchor" if anchor else "baseline"
    if spec.kind == "none" or not any(one.against == wanted for each in asked for one in each.planned):
        return None
    if spec.kind == "model":
        scorer = run.open(spec.target)
        same = scorer.fingerprint == candidate.fingerprint
        answers = tuple(one.scores if same else run.ask(scorer, one.suite) for one in asked)
        info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=scorer.fingerprint)
        found = Compared(info, answers, precision=scorer.precision)
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
    spec: BaselineSpec, name: str, asked: Sequence[Asked], candidate: Scorer, run: Run, scratch: Path
) -> Compared:
    """A kept record's answers where it was asked the same of the same data; else its checkpoint's, scored now."""
    from fairgate.reports import read_results

    prepared = run.prepared
    kept = kept_record(spec, prepared.loaded.name, prepared.root, run.settings.mlflow, scratch)
    record = read_results(kept.results)
    data, subjects = dataset_info(prepared.dataset), prepared.dataset.manifest.subjects
    require_nothing_vanished(record, data, subjects, kept.origin or str(kept.results))
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
        return Compared(info, answers, precision=scorer.precision)
    scores = read_scores(kept.scores, prepared.dataset.index)
    require_own_scores(record, scores_digest(scores), kept.origin or str(kept.scores))
    return Compared(
        info, tuple(_answering(one.suite, record, scores) for one in asked), record.environment, record.model.precision
    )


def _answering(suite: Suite, record: RunRecord, scores: Scores) -> Scores:
    """Those of a record's scores that answer this suite's probes."""
    same = {name for name, key in probe_digests(suite).items() if record.probes.get(name) == key}
    return {name: one for name, one in scores.items() if name.partition("[")[0] in same}


def _the_same_checkpoint(record: RunRecord, name: str, kept: Kept, differs: str, run: Run, scratch: Path) -> Scorer:
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
