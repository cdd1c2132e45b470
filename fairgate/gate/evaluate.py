"""Score, compare, decide: one evaluation, one record."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np

from fairgate.baselines import environment_warnings
from fairgate.errors import FairgateError
from fairgate.gate.prepare import Prepared
from fairgate.gate.references import Progress, Scores, dataset_info
from fairgate.gate.score import Scored, score
from fairgate.probes import scores_digest
from fairgate.records import (
    BaselineInfo,
    CheckResult,
    Coverage,
    Decision,
    Environment,
    Misclassification,
    ModelInfo,
    RunRecord,
    overall,
)
from fairgate.suites import Settings
from fairgate.suites.asked import probe_digests, prompt_count
from fairgate.suites.confusions import confusions
from fairgate.suites.decide import decide
from fairgate.suites.definition import stricter
from fairgate.suites.result import undecided
from fairgate.suites.waivers import waive
from fairgate.tracking.environment import environment


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A decided run: its record, the candidate's scores, and what to tell beside them."""

    record: RunRecord
    scores: Scores
    messages: tuple[str, ...] = ()


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
            checks = _decided(prepared, scored, now.date())
            taken = confusions(prepared.dataset.index, scored.scores, prepared.planned)
        except FairgateError as error:
            checks = [undecided(one, error) for one in prepared.everything]
    scores = scored.scores if scored else {}
    coverage = _coverage(prepared, scores)
    if not coverage.complete:
        checks = [check.model_copy(update={"verdict": "error"}) for check in checks]
    place = environment(prepared.root, scored.device if scored else settings.device)
    record = RunRecord(
        suite=suite.suite,
        suite_digest=prepared.loaded.digest,
        verdict=overall([check.verdict for check in checks if not check.waived]),
        allow_inconclusive=_lenient(prepared, settings),
        dataset=dataset_info(prepared.dataset),
        model=scored.model if scored else ModelInfo(uri=settings.model, fingerprint="unknown"),
        baseline=scored.baseline if scored else _unread(settings.baseline),
        anchor=(scored.anchored.info if scored.anchored else None) if scored else _unread(suite.anchor or "none"),
        definition=prepared.compared,
        coverage=coverage,
        probes=probe_digests(suite),
        scores_digest=scores_digest(scores) if scores else None,
        decision=Decision(**suite.decision.model_dump()),
        checks=checks,
        confusions=taken,
        environment=place,
        warnings=_mismatches(scored, place) if scored else [],
        command=command,
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    return Evaluation(record, scores, tuple(dict.fromkeys(f"warning: {one.message}" for one in heard)))


def _decided(prepared: Prepared, scored: Scored, today: date) -> list[CheckResult]:
    """Every check; where the merge base defines the gate otherwise, by both, and the stricter one counts."""
    results = []
    for one, answers in zip(prepared.definitions, scored.answers, strict=True):
        suite, index = one.loaded.suite, prepared.dataset.index
        checks = decide(one.planned, index, suite, answers.candidate, answers.baseline, one.null, answers.anchor)
        results.append(waive(checks, suite.waivers, today))
    return results[0] if len(results) == 1 else stricter(here=results[0], before=results[1])


def _lenient(prepared: Prepared, settings: Settings) -> bool:
    """Whether thin evidence may pass. A change cannot allow that to itself by editing the suite; a command line can."""
    here = prepared.loaded.suite.on_inconclusive
    before = here if prepared.before is None else prepared.before.loaded.suite.on_inconclusive
    loosened = settings.leniency_is_the_suites and before != "warn"
    return settings.on_inconclusive == "warn" and not loosened


def _mismatches(scored: Scored, place: Environment) -> list[str]:
    """Where the candidate was scored otherwise than what it is compared with."""
    found = []
    for name, one in (("baseline", scored.compared), ("anchor", scored.anchored)):
        if one is not None:
            here, there = (place, scored.model.precision), (one.environment, one.precision)
            found += environment_warnings(name, here, there)
    return found


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


def _unread(source: str) -> BaselineInfo | None:
    """A baseline or anchor that was asked for and could not be used."""
    return None if source == "none" else BaselineInfo(source=source, uri=source, fingerprint="unknown")
