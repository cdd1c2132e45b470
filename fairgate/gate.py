"""The gate: suite + checkpoint + baseline -> run record -> sinks. The only evaluator there is.

pytest and the command line both come here, so that they cannot disagree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fairgate.baselines import parse_baseline, record_files, require_another_checkpoint, require_comparable
from fairgate.data import Dataset, open_dataset
from fairgate.errors import FairgateError, SuiteError, did_you_mean
from fairgate.hashing import digest
from fairgate.metrics import NullSkew, expected_max_skew
from fairgate.models import EmbeddingCache, Scorer, open_scorer
from fairgate.probes import METRIC_VERSION, ProbeScores, classify, read_scores, retrieve, write_scores
from fairgate.randomness import stream
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
from fairgate.suites.catalog import METRICS
from fairgate.suites.decide import decide
from fairgate.suites.plan import plan_check
from fairgate.suites.schema import Check, Probe, ZeroShotProbe
from fairgate.tracking.environment import environment

NULL_DRAWS = 2000

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
    null = {one.item: skew for one in planned if (skew := _null_skew(one, dataset)) is not None}
    return Prepared(loaded, dataset, planned, null, root)


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate and baseline, known to be comparable. Raises a FairgateError for whatever stands in the way."""
    prepared.dataset.check_shards()
    scorer = _open(settings.model, prepared, settings, progress)
    scores = _ask(scorer, prepared)
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
    (result,) = decide(
        [replace(planned, subject=subject)],
        prepared.dataset.index,
        prepared.loaded.suite,
        scored.scores,
        scored.before,
        {},
    )
    return result


def evaluate(prepared: Prepared, settings: Settings, *, command: str, progress: Progress | None = None) -> Evaluation:
    """Score, compare, decide. Trouble with a checkpoint, shard or baseline makes a record with verdict `error`."""
    started, now = time.monotonic(), datetime.now(UTC)
    suite = prepared.loaded.suite
    scored: Scored | None = None
    confusions: list[Misclassification] = []
    try:
        scored = score(prepared, settings, progress)
        checks = decide(prepared.planned, prepared.dataset.index, suite, scored.scores, scored.before, prepared.null)
        confusions = _confusions(prepared, scored.scores)
    except FairgateError as error:
        checks = [_undecided(one, error) for one in prepared.planned]
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
        baseline=scored.baseline if scored else None,
        coverage=coverage,
        probes=_probe_digests(prepared),
        decision=Decision(**suite.decision.model_dump()),
        checks=checks,
        confusions=confusions,
        environment=environment(prepared.root, scored.device if scored else settings.device),
        command=command,
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    return Evaluation(record, scores)


def publish(evaluation: Evaluation, prepared: Prepared, settings: Settings) -> Evaluation:
    """Write the reports, then tell MLflow. An outage of MLflow never changes a verdict and never loses a run."""
    import tempfile

    from fairgate.reports import render_comment, render_html, write_results

    if settings.report is None and settings.mlflow is None:
        return evaluation
    pictures = prepared.dataset.images_of if prepared.dataset.manifest.image_encoding != "none" else None
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        folder = settings.report if settings.report is not None else Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        files = [write_results(evaluation.record, folder)]
        if evaluation.scores:
            write_scores(folder / "scores.parquet", prepared.dataset.index, evaluation.scores)
            files.append(folder / "scores.parquet")
        pages = {
            "report.html": render_html(evaluation.record, pictures),
            "comment.md": render_comment(evaluation.record),
        }
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
            files.append(folder / name)
        messages = [f"report: {folder / 'report.html'}"] if settings.report is not None else []
        if settings.mlflow is not None:
            from fairgate.tracking import log_or_queue

            queue = prepared.root / ".fairgate" / "queue"
            outcome = log_or_queue(evaluation.record, [*files, prepared.loaded.path], settings.mlflow, queue)
            messages.append(outcome.message)
    return Evaluation(evaluation.record, evaluation.scores, tuple(messages))


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


def _ask(scorer: Scorer, prepared: Prepared) -> Scores:
    index = prepared.dataset.index
    scores: Scores = {}
    for name, probe in prepared.loaded.suite.probes.items():
        if isinstance(probe, ZeroShotProbe):
            truth = index.subject if probe.truth == "subject" else index.attributes[probe.truth]
            word = {value: probe.word(value) for value in dict.fromkeys(truth.tolist())}
            words = np.array([word[value] for value in truth.tolist()], dtype=object)
            scores[name] = classify(scorer, index.subject, words, probe.labels_of, probe.prompt)
        else:
            scores[name] = retrieve(scorer, index.subject, probe.prompts_of)
    return scores


def _baseline(
    prepared: Prepared, settings: Settings, candidate: Scorer, scores: Scores, progress: Progress | None
) -> tuple[BaselineInfo | None, Scores | None]:
    """The baseline's name and scores, known to be comparable with the candidate's; or None and None."""
    spec = parse_baseline(settings.baseline)
    if spec.kind == "none" or not any(one.check.no_worse_than for one in prepared.planned):
        return None, None
    if spec.kind == "model":
        scorer = _open(spec.target, prepared, settings, progress)
        before = _ask(scorer, prepared) if scorer.fingerprint != candidate.fingerprint else scores
        info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=scorer.fingerprint)
    else:
        from fairgate.reports import read_results

        results, table = record_files(spec.target, prepared.root)
        record = read_results(results)
        compared = {one.check.probe for one in prepared.planned if one.check.no_worse_than}
        digests = {name: key for name, key in _probe_digests(prepared).items() if name in compared}
        require_comparable(record, dataset_info(prepared.dataset), digests, str(spec))
        same = {name for name, key in _probe_digests(prepared).items() if record.probes.get(name) == key}
        kept = read_scores(table, prepared.dataset.index)
        before = {name: kept[name] for name in kept if name in same}
        info = BaselineInfo(
            source=str(spec), uri=record.model.uri, fingerprint=record.model.fingerprint, created_at=record.created_at
        )
    require_another_checkpoint((candidate.fingerprint, scores), (info.fingerprint, before), str(spec))
    return info, before


def _null_skew(one: PlannedCheck, dataset: Dataset) -> NullSkew | None:
    """MaxSkew@K of a perfectly fair ranker on this check's gallery, and a refusal of bounds that even it would miss."""
    check = one.check
    if check.metric != "max_skew_at_k" or check.k is None:
        return None
    index, subject = dataset.index, one.subject or dataset.manifest.subjects[0]
    of_subject = index.subject == subject
    if check.k > of_subject.sum():
        raise SuiteError(
            f"check '{check.id}' ranks the top {check.k} of '{subject}', which has {of_subject.sum()} images.",
            where=one.where,
            remedy=f"choose k below {of_subject.sum()}",
        )
    worst: NullSkew | None = None
    for grouping in one.groupings:
        codes, names = index.codes(grouping)
        per_group = np.bincount(np.asarray(codes)[of_subject], minlength=len(names))
        null = expected_max_skew(check.k, check.desired, per_group, NULL_DRAWS, stream(0, "null", *grouping, check.k))
        worst = null if worst is None or null.median > worst.median else worst
    if worst is not None and check.at_most is not None and check.at_most < worst.median:
        raise SuiteError(
            f"check '{check.id}' wants MaxSkew@{check.k} of at most {check.at_most:g}, and a perfectly fair "
            f"ranker would have {worst.median:.2f} half of the time on '{subject}' (95%: {worst.p95:.2f}).",
            where=one.where,
            remedy="raise the bound above the fair ranker's 95% point, or rank more images (larger k)",
        )
    return worst


def _probe_digests(prepared: Prepared) -> dict[str, str]:
    """What each probe asked, as its kind and a digest: runs that asked otherwise are not compared."""

    def asked(probe: Probe) -> str:
        asked = digest({"probe": probe.model_dump(mode="json"), "metric_version": METRIC_VERSION})
        return f"{probe.kind}:{asked}"

    return {name: asked(probe) for name, probe in prepared.loaded.suite.probes.items()}


def _prompts(prepared: Prepared) -> int:
    asked: set[str] = set()
    for probe in prepared.loaded.suite.probes.values():
        for subject in prepared.dataset.manifest.subjects:
            if isinstance(probe, ZeroShotProbe):
                asked.update(probe.prompt(label) for label in probe.labels_of(subject))
            else:
                asked.update(probe.prompts_of(subject))
    return len(asked)


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
        prompts=_prompts(prepared),
        missing=missing,
    )


def _confusions(prepared: Prepared, scores: Scores) -> list[Misclassification]:
    """Who is taken for whom, per probe, subject and crossed group; only wrong answers are listed."""
    index = prepared.dataset.index
    codes, names = index.codes(tuple(prepared.dataset.manifest.attributes))
    found: list[Misclassification] = []
    for probe, one in scores.items():
        if one.predicted is None or one.correct is None:
            continue
        for subject in prepared.dataset.manifest.subjects:
            rows = np.flatnonzero(index.subject == subject)
            totals = np.bincount(codes[rows], minlength=len(names))
            wrong = rows[~one.correct[rows]]
            taken: dict[tuple[int, str], int] = {}
            for row in wrong.tolist():
                key = (int(codes[row]), str(one.predicted[row]))
                taken[key] = taken.get(key, 0) + 1
            found += [
                Misclassification(
                    probe=probe,
                    subject=subject,
                    group=names[code],
                    predicted=label,
                    count=count,
                    total=int(totals[code]),
                )
                for (code, label), count in sorted(taken.items())
            ]
    return found


def _undecided(one: PlannedCheck, error: FairgateError) -> CheckResult:
    """A check that could not be computed: an error that says why, never a pass."""
    check = one.check
    return CheckResult(
        id=check.id,
        subject=one.subject,
        metric=check.metric,
        probe=check.probe,
        over=one.over,
        rule=check.rule,
        better=METRICS[check.metric].better,
        value=None,
        status="absent",
        bound=check.bound,
        verdict="error",
        n_sets=0,
        reason=str(error),
    )
