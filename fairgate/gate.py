"""The gate: suite + checkpoint + baseline -> run record -> sinks. The only evaluator there is.

pytest and the command line both come here, so that they cannot disagree.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fairgate.baselines import (
    parse_baseline,
    record_files,
    require_another_checkpoint,
    require_comparable,
    require_own_scores,
)
from fairgate.data import Dataset, open_dataset
from fairgate.errors import FairgateError, SuiteError, did_you_mean
from fairgate.metrics import NullSkew
from fairgate.models import EmbeddingCache, Scorer, open_scorer
from fairgate.probes import ProbeScores, read_scores, scores_digest, write_scores
from fairgate.records import (
    BaselineInfo,
    CheckResult,
    Coverage,
    DatasetInfo,
    Decision,
    Misclassification,
    ModelInfo,
    RunRecord,
    overall,
)
from fairgate.suites import LoadedSuite, PlannedCheck, Settings, load_suite, plan_checks, suite_path
from fairgate.suites.ask import ask
from fairgate.suites.asked import probe_digests, prompt_count
from fairgate.suites.confusions import confusions
from fairgate.suites.decide import decide
from fairgate.suites.null import fair_rankers, require_attainable
from fairgate.suites.plan import plan_check
from fairgate.suites.present import require_groups_present
from fairgate.suites.result import undecided
from fairgate.suites.schema import Check
from fairgate.tracking.environment import environment

Progress = Callable[[str, int, int], None]
Scores = dict[str, ProbeScores]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite that is known to make sense on its dataset, before anything is scored."""

    loaded: LoadedSuite
    dataset: Dataset
    planned: list[PlannedCheck]
    null: dict[str, NullSkew]
    root: Path


@dataclass(frozen=True, slots=True)
class Scored:
    """What a candidate and its baseline answered. `before` is None where there is no baseline."""

    model: ModelInfo
    device: str
    scores: Scores
    baseline: BaselineInfo | None
    before: Scores | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A decided run: its record, the candidate's scores, and what to tell beside them."""

    record: RunRecord
    scores: Scores
    messages: tuple[str, ...] = ()


def prepare(name: str, root: Path) -> Prepared:
    """Load a suite by name and plan it on its dataset.

    Raises SuiteError or DatasetError (exit code 4) for whatever can be known to be wrong now.
    """
    loaded = load_suite(suite_path(name, root), root)
    dataset = open_dataset(loaded.suite.dataset, root / "datasets")
    planned = plan_checks(loaded, dataset.manifest)
    require_groups_present(planned, dataset.index)
    null = fair_rankers(planned, dataset.index)
    require_attainable(planned, null)
    return Prepared(loaded, dataset, planned, null, root)


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate and baseline, known to be comparable. Raises a FairgateError for whatever stands in the way."""
    prepared.dataset.check_shards()
    scorer = _open(settings.model, prepared, settings, progress)
    scores = ask(scorer, prepared.dataset.index, prepared.loaded.suite)
    baseline, before = _baseline(prepared, settings, scorer, scores, progress)
    model = ModelInfo(uri=settings.model, fingerprint=scorer.fingerprint, precision=scorer.precision)
    return Scored(model, scorer.device, scores, baseline, before)


def decide_one(prepared: Prepared, scored: Scored, check: Check, subject: str | None) -> CheckResult:
    """Decide a check that stands in no suite file (a test in Python wrote it), as a family of its own."""
    (planned,) = plan_check(prepared.loaded, check, prepared.dataset.manifest)
    if subject is not None and subject not in prepared.dataset.manifest.subjects:
        known = prepared.dataset.manifest.subjects
        raise SuiteError(
            f"dataset '{prepared.dataset.name}' has no subject '{subject}'.",
            where=prepared.loaded.path.name,
            remedy=did_you_mean(subject, known) or f"subjects: {', '.join(known)}",
        )
    planned = replace(planned, subject=subject)
    require_groups_present([planned], prepared.dataset.index)
    (result,) = decide(
        [planned],
        prepared.dataset.index,
        prepared.loaded.suite,
        scored.scores,
        scored.before,
        fair_rankers([planned], prepared.dataset.index),
    )
    return result


def evaluate(prepared: Prepared, settings: Settings, *, command: str, progress: Progress | None = None) -> Evaluation:
    """Score, compare, decide. Trouble with a checkpoint, shard or baseline makes a record with verdict `error`.

    Warnings of libraries, and of a cache that cannot be written, become messages: where a team's pytest turns warnings
    into errors, they must not turn a verdict.
    """
    started, now = time.monotonic(), datetime.now(UTC)
    suite = prepared.loaded.suite
    scored: Scored | None = None
    taken: list[Misclassification] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            scored = score(prepared, settings, progress)
            index = prepared.dataset.index
            checks = decide(prepared.planned, index, suite, scored.scores, scored.before, prepared.null)
            taken = confusions(index, scored.scores, prepared.planned)
        except FairgateError as error:
            checks = [undecided(one, error) for one in prepared.planned]
    scores = scored.scores if scored else {}
    coverage = _coverage(prepared, scores)
    if not coverage.complete:
        checks = [check.model_copy(update={"verdict": "error"}) for check in checks]
    record = RunRecord(
        suite=suite.suite,
        suite_digest=prepared.loaded.digest,
        verdict=overall([check.verdict for check in checks]),
        allow_inconclusive=settings.on_inconclusive == "warn",
        dataset=dataset_info(prepared.dataset),
        model=scored.model if scored else ModelInfo(uri=settings.model, fingerprint="unknown"),
        baseline=scored.baseline if scored else _unread_baseline(settings),
        coverage=coverage,
        probes=probe_digests(prepared.loaded.suite),
        scores_digest=scores_digest(scores) if scores else None,
        decision=Decision(**suite.decision.model_dump()),
        checks=checks,
        confusions=taken,
        environment=environment(prepared.root, scored.device if scored else settings.device),
        command=command,
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    return Evaluation(record, scores, tuple(dict.fromkeys(f"warning: {one.message}" for one in heard)))


def publish(evaluation: Evaluation, prepared: Prepared, settings: Settings) -> Evaluation:
    """Write the reports, then tell MLflow. Neither a full disk nor an outage changes a verdict."""
    messages = list(evaluation.messages)
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        files: list[Path] = []
        if settings.report is not None:
            try:
                files = _write_reports(settings.report, evaluation, prepared)
                messages.append(f"report: {settings.report / 'report.html'}")
            except OSError as error:
                messages.append(f"the report was not written, the verdict stands: {error}")
        if settings.mlflow is not None:
            from fairgate.tracking import log_or_queue

            files = files or _write_reports(Path(scratch), evaluation, prepared)
            queue = prepared.root / ".fairgate" / "queue"
            outcome = log_or_queue(evaluation.record, [*files, prepared.loaded.path], settings.mlflow, queue)
            messages.append(outcome.message)
    return replace(evaluation, messages=tuple(messages))


def _write_reports(folder: Path, evaluation: Evaluation, prepared: Prepared) -> list[Path]:
    """results.json first, then scores, page and comment."""
    from fairgate.reports import render_comment, render_html, write_results

    folder.mkdir(parents=True, exist_ok=True)
    files = [write_results(evaluation.record, folder)]
    if evaluation.scores:
        write_scores(folder / "scores.parquet", prepared.dataset.index, evaluation.scores)
        files.append(folder / "scores.parquet")
    pictures = prepared.dataset.images_of if prepared.dataset.manifest.image_encoding != "none" else None
    pages = {
        "report.html": render_html(evaluation.record, pictures),
        "comment.md": render_comment(evaluation.record),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
        files.append(folder / name)
    return files


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


def _open(uri: str, prepared: Prepared, settings: Settings, progress: Progress | None) -> Scorer:
    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(uri, done, total)

    return open_scorer(
        uri,
        prepared.dataset,
        device=settings.device,
        cache=EmbeddingCache(settings.cache) if settings.cache is not None else None,
        allow_pickle=settings.allow_pickle,
        base=prepared.root,
        progress=report,
    )


def _baseline(
    prepared: Prepared, settings: Settings, candidate: Scorer, scores: Scores, progress: Progress | None
) -> tuple[BaselineInfo | None, Scores | None]:
    """The baseline's name and scores, known to be comparable with the candidate's; or None and None."""
    spec = parse_baseline(settings.baseline)
    if spec.kind == "none" or not any(one.check.no_worse_than for one in prepared.planned):
        return None, None
    if spec.kind == "model":
        scorer = _open(spec.target, prepared, settings, progress)
        before = (
            ask(scorer, prepared.dataset.index, prepared.loaded.suite)
            if scorer.fingerprint != candidate.fingerprint
            else scores
        )
        info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=scorer.fingerprint)
    else:
        from fairgate.reports import read_results

        results, table = record_files(spec.target, prepared.root)
        record = read_results(results)
        compared = {one.check.probe for one in prepared.planned if one.check.no_worse_than}
        digests = {name: key for name, key in probe_digests(prepared.loaded.suite).items() if name in compared}
        require_comparable(record, dataset_info(prepared.dataset), digests, str(spec))
        same = {name for name, key in probe_digests(prepared.loaded.suite).items() if record.probes.get(name) == key}
        kept = read_scores(table, prepared.dataset.index)
        require_own_scores(record, scores_digest(kept), str(table))
        before = {name: scores for name, scores in kept.items() if name.partition("[")[0] in same}
        info = BaselineInfo(
            source=str(spec), uri=record.model.uri, fingerprint=record.model.fingerprint, created_at=record.created_at
        )
    require_another_checkpoint((candidate.fingerprint, scores), (info.fingerprint, before), str(spec))
    return info, before


def _coverage(prepared: Prepared, scores: Scores) -> Coverage:
    manifest = prepared.dataset.manifest
    expected = len(prepared.dataset)
    scored = min((int(np.isfinite(one.value).sum()) for one in scores.values()), default=0)
    missing = [] if scored == expected else [f"{expected - scored:,} of {expected:,} images have no score"]
    return Coverage(
        expected_sets=manifest.n_sets,
        scored_sets=manifest.n_sets if not missing else 0,
        expected_images=expected,
        scored_images=scored,
        prompts=prompt_count(prepared.loaded.suite, manifest.subjects),
        missing=missing,
    )


def _unread_baseline(settings: Settings) -> BaselineInfo | None:
    """The baseline that was asked for and could not be used."""
    if settings.baseline == "none":
        return None
    return BaselineInfo(source=settings.baseline, uri=settings.baseline, fingerprint="unknown")
