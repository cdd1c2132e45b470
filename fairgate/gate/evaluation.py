"""Score, compare, decide: one evaluation, one record."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from fairgate import models, records, suites
from fairgate.gate.approvals import comparisons, unpinned_anchors, weigh
from fairgate.gate.base_data import judged_on_both
from fairgate.gate.model_runs import Progress, dataset_info, entropies_of, packages
from fairgate.gate.notices import advice_of, mismatches, notices_of, unseen
from fairgate.gate.preparation import Distribution, Prepared, every_check
from fairgate.gate.reading import Scores, decided
from fairgate.gate.reproduction import Recomputed
from fairgate.gate.scoring import Scored, score
from fairgate.ground.errors import FairgateError, NoVerdict
from fairgate.ground.spans import span
from fairgate.probes import ABSENT, scores_digest
from fairgate.tracking import environment


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A decided run: its record, the candidate's scores, and messages for the terminal. `others` are the scores of
    baseline and anchor, as far as there are any."""

    record: records.RunRecord
    scores: Scores
    messages: tuple[str, ...] = ()
    others: Mapping[records.Against, Scores] = field(default_factory=dict)


def evaluate(
    prepared: Prepared, settings: suites.Settings, *, command: str | None = None, progress: Progress | None = None
) -> Evaluation:
    """Score, compare, decide. Trouble with a checkpoint, shard or baseline makes a record with verdict `error`.

    The record says how to repeat it: by `command`, or else by pytest with the same settings.
    Warnings of libraries, and of a cache that cannot be written, become messages: where a team's pytest turns warnings
    into errors, they must not turn a verdict.
    """
    if prepared.distribution is None and settings.cache is None:
        with tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True) as scratch:
            own = Distribution(models.PicturesOfRun(Path(scratch)), settings.device)
            return evaluate(prepared.spread(own), settings, command=command, progress=progress)
    assert prepared.distribution is None or prepared.distribution.shard is None  # other rows hold copies
    started, now = time.monotonic(), datetime.now(UTC)
    suite = prepared.loaded.suite
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        judged = _judged(prepared, settings, progress, now.date())
        on_base_data = [_on_base_data(each, settings, progress, now.date()) for each in prepared.on_base_data]
    scored = judged.scored
    scores = scored.scores if scored else {}
    coverage = _coverage(judged.prepared, scores)
    checks = _strictest(judged.checks, coverage, on_base_data)
    on_both = judged_on_both(prepared.dataset, [(other.prepared, other.seconds) for other in on_base_data])
    place = environment(prepared.root, scored.device if scored else settings.device, packages(prepared, settings))
    every = [scored_run for scored_run in (scored, *(other.scored for other in on_base_data)) if scored_run]
    edited = [record for scored_run in every for record in scored_run.edited]
    weighed = weigh(prepared, [*prepared.weighed, *_to_weigh(every, edited, place)], now.date())
    record = records.RunRecord(
        suite=suite.suite,
        suite_digest=prepared.loaded.digest,
        verdict=records.overall([check.verdict for check in checks if not check.excused]),
        allow_inconclusive=_lenient(prepared, settings) and not (scored and _evades_comparison(scored)),
        dataset=dataset_info(prepared.dataset),
        model=scored.model if scored else records.ModelInfo(uri=settings.model, fingerprint="unknown"),
        baseline=scored.info("baseline") if scored else _unread(settings.baseline),
        anchor=scored.info("anchor") if scored else _unread(suite.anchor or "none"),
        definition=prepared.compared,
        coverage=coverage,
        probes=suites.probe_digests(judged.prepared.loaded.suite),
        scores_digest=scores_digest(scores) if scores else None,
        answer_entropy=entropies_of(scores),
        decision=records.Decision(**suite.decision.model_dump()),
        checks=checks,
        confusions=list(judged.confusions),
        environment=place,
        notices=[
            *notices_of(prepared, settings, judged.prepared, scored, on_both, place),
            *(notice for edit in edited for notice in edit.notices),
            *weighed.notices,
        ],
        needs_approval=weighed.open,
        warnings=[*(mismatches(scored, place) if scored else []), *unseen(judged.prepared, scored, checks)],
        command=command or suites.command_line(suite.suite, settings),
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    messages = [f"warning: {line}" for line in (*(warning.message for warning in heard), *judged.unpinned)]
    messages += [message for edit in edited for message in edit.messages]
    others = {against: other.scores[0] for against, other in scored.others.items()} if scored else {}
    return Evaluation(record, scores, tuple(dict.fromkeys([*messages, *advice_of(prepared, settings)])), others)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The definitions that were scored (the base's if this change's cannot be answered), and what their checks find.

    Of a base's on the base's own release, the `seconds` that it took as well.
    """

    prepared: Prepared
    scored: Scored | None
    checks: list[records.CheckResult]
    confusions: Sequence[records.Misclassification] = ()
    unpinned: Sequence[str] = ()
    seconds: float = 0.0


def _judged(prepared: Prepared, settings: suites.Settings, progress: Progress | None, today: date) -> _Judged:
    """Score and decide; what cannot be computed leaves every check an error, unless the base's can be decided."""
    scored: Scored | None = None
    unpinned: list[str] = []
    try:
        loaded = [definition.loaded for definition in prepared.definitions]
        unpinned = unpinned_anchors(loaded, prepared.repository)
        scored = score(prepared, settings, progress)
        checks = _decided(prepared, scored, today)
        confusions = suites.confusions(prepared.dataset.index, scored.scores, prepared.planned)
        return _Judged(prepared, scored, checks, confusions, unpinned)
    except FairgateError as error:
        if (by_base := _by_the_base(prepared, settings, progress, today, error)) is not None:
            return _Judged(*by_base, unpinned=unpinned)
        checks = [suites.undecided(check, error) for check in every_check(prepared.definitions)]
        return _Judged(prepared, scored, checks, unpinned=unpinned)


def _strictest(
    checks: list[records.CheckResult], coverage: records.Coverage, on_base_data: Sequence[_Judged]
) -> list[records.CheckResult]:
    """The checks, errors if images have no score, and with what the bases' checks find on their own releases."""
    if not coverage.complete:
        checks = [check.model_copy(update={"verdict": "error"}) for check in checks]
    for other in on_base_data:
        checks = suites.stricter_on_other_data(checks, other.checks, other.prepared.decider, other.prepared.release)
    return checks


def _to_weigh(
    scored: Sequence[Scored], edited: Sequence[Recomputed], place: records.Environment
) -> Iterator[records.NeededApproval]:
    """What scoring found that a person has to weigh: edited records, and models compared with other code."""
    for edit in edited:
        yield from edit.weighed
    for run in scored:
        yield from comparisons(run.model, place.plugins or {}, run.others)


def _by_definition(
    prepared: Prepared, scored: Scored, today: date
) -> list[tuple[records.Decider, list[records.CheckResult]]]:
    """Every check, decided by each definition."""
    results: list[tuple[records.Decider, list[records.CheckResult]]] = []
    for definition, answers in zip(prepared.definitions, scored.answers, strict=True):
        with span("decide"):
            checks = decided(definition, prepared.dataset.index, answers)
        results.append((definition.decider, suites.waive(checks, definition.loaded.suite.waivers, today)))
    return results


def _on_base_data(prepared: Prepared, settings: suites.Settings, progress: Progress | None, today: date) -> _Judged:
    """Judge by a base's checks on the base's own release; what cannot be scored there is an error, never a pass."""
    started, scored = time.monotonic(), None
    try:
        scored = score(prepared, settings, progress)
        checks = _decided(prepared, scored, today)
        if missing := _coverage(prepared, scored.scores).missing:
            raise NoVerdict(f"{missing[0]}.", where=prepared.release, remedy="score all of them, or make room there")
    except FairgateError as error:
        checks = [suites.undecided(planned, error) for planned in prepared.everything]
    return _Judged(prepared, scored, checks, seconds=time.monotonic() - started)


def _decided(prepared: Prepared, scored: Scored, today: date) -> list[records.CheckResult]:
    """Each check by the strictest definition. One that would fail against the record that the baseline's branch has by
    now is no pass, and no failure: the merge base's record decides, and this branch is behind."""
    checks = suites.stricter(_by_definition(prepared, scored, today))
    if not scored.present:
        return checks
    present = suites.stricter(_by_definition(prepared, replace(scored, answers=scored.present), today))
    failing = {check.item: check.reason for check in present if check.verdict == "fail" and not check.excused}
    ref = prepared.places[0].ref if prepared.places else "the baseline's branch"
    for place, check in enumerate(checks):
        if check.item in failing and check.verdict not in ("fail", "error"):
            why = f"compared with the record that {ref} has by now, it fails: {failing[check.item]}; rebase onto {ref}"
            checks[place] = check.model_copy(update={"verdict": "error", "reason": why})
    return checks


def _by_the_base(
    prepared: Prepared, settings: suites.Settings, progress: Progress | None, today: date, error: FairgateError
) -> tuple[Prepared, Scored, list[records.CheckResult]] | None:
    """What the base's definitions find where this change's cannot be answered, so that a probe that a change adds hides
    no failure: the definitions that were scored, and the checks. None where nothing can be scored at all."""
    if not prepared.others:
        return None
    first, *rest = prepared.others
    base = replace(prepared, loaded=first.loaded, planned=first.planned, null=first.null, decider=first.decider)
    base = replace(base, others=tuple(rest))
    try:
        scored = score(base, settings, progress)
        results = _by_definition(base, scored, today)
    except FairgateError:
        return None
    own = [suites.undecided(planned, error) for planned in prepared.planned]
    return base, scored, suites.stricter([("this change", own), *results])


def _lenient(prepared: Prepared, settings: suites.Settings) -> bool:
    """Whether thin evidence may pass. A change cannot allow that to itself by editing the suite; a command line can."""
    bases = [base for base in prepared.every_definition if base is not prepared]
    lenient = all(base.loaded.suite.on_inconclusive == "warn" for base in bases)
    loosened = settings.leniency_is_the_suites and not lenient
    return settings.on_inconclusive == "warn" and not loosened


def _evades_comparison(scored: Scored) -> bool:
    """Whether some answers cannot be brought to a label temperature since the model makes labels exactly equal: thin
    evidence is allowed, and not evidence that the model itself withholds."""
    tempered = [there for answers in scored.answers for there in answers.readings[0].tempered.values()]
    return any(missing.subjects is not None for scores in tempered for missing in scores.missing.values())


def _coverage(prepared: Prepared, scores: Scores) -> records.Coverage:
    manifest = prepared.dataset.manifest
    expected = len(prepared.dataset)
    scored = min((int(np.isfinite(values.value).sum()) for values in scores.values()), default=0)
    missing = [] if scored == expected else [f"{expected - scored:,} of {expected:,} images have no score"]
    probes = prepared.loaded.suite.probes
    none = np.zeros(expected)
    unasked = {name: int((~probe.asked(prepared.dataset.index)).sum()) for name, probe in probes.items()}
    return records.Coverage(
        expected_sets=manifest.n_sets,
        scored_sets=manifest.n_sets if not missing else 0,
        expected_images=expected,
        scored_images=scored,
        prompts=suites.prompt_count(prepared.loaded.suite, manifest.subjects),
        missing=missing,
        unasked={name: count for name, count in unasked.items() if count},
        lacking={name: count for name, values in scores.items() if (count := int(values.more.get(ABSENT, none).sum()))},
    )


def _unread(source: str) -> records.BaselineInfo | None:
    """A baseline or anchor that is named and could not be used."""
    return None if source == "none" else records.BaselineInfo(source=source, uri=source, fingerprint="unknown")
