"""Score, compare, decide: one evaluation, one record."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from operator import attrgetter
from pathlib import Path

import numpy as np

from fairgate import records, suites
from fairgate.gate.approvals import comparisons, unpinned_anchors, weigh
from fairgate.gate.base_data import judged_on_both
from fairgate.gate.baselines import Repository, changed_pointers, environment_warnings
from fairgate.gate.preparation import Prepared, every_check
from fairgate.gate.reading import Scores, decided
from fairgate.gate.runs import ComparedRun, Progress, dataset_info, entropies_of, packages
from fairgate.gate.scoring import Scored, score
from fairgate.ground.errors import FairgateError, NoVerdict
from fairgate.ground.spans import span
from fairgate.models import local_paths
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
    assert prepared.distribution is None or prepared.distribution.portion is None  # other rows hold copies
    started, now = time.monotonic(), datetime.now(UTC)
    suite, base, judged = prepared.loaded.suite, prepared.compared, prepared
    scored: Scored | None = None
    taken: list[records.Misclassification] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        unpinned = list[str]()
        try:
            unpinned = unpinned_anchors(
                [definition.loaded for definition in prepared.definitions], Repository(prepared.root)
            )
            scored = score(prepared, settings, progress)
            checks = _decided(prepared, scored, now.date())
            taken = suites.confusions(prepared.dataset.index, scored.scores, prepared.planned)
        except FairgateError as error:
            checks = [suites.undecided(check, error) for check in every_check(prepared.definitions)]
            if (evaluation := _by_the_base(prepared, settings, progress, now.date(), error)) is not None:
                judged, scored, checks = evaluation
        on_base_data = [_on_base_data(each, settings, progress, now.date()) for each in prepared.on_base_data]
    scores = scored.scores if scored else {}
    coverage = _coverage(judged, scores)
    if not coverage.complete:
        checks = [check.model_copy(update={"verdict": "error"}) for check in checks]
    for other in on_base_data:
        checks = suites.stricter_on_other_data(checks, other.checks, other.prepared.decider, other.prepared.release)
    place = environment(prepared.root, scored.device if scored else settings.device, packages(prepared, settings))
    every = [scored_run for scored_run in (scored, *(other.scored for other in on_base_data)) if scored_run]
    apart = [
        item for scored_run in every for item in comparisons(scored_run.model, place.plugins or {}, scored_run.others)
    ]
    edited = [record for scored_run in every for record in scored_run.edited]
    recomputed = [item for record in edited for item in record.weighed]
    weighed = weigh(prepared, [*prepared.weighed, *recomputed, *apart], now.date())
    record = records.RunRecord(
        suite=suite.suite,
        suite_digest=prepared.loaded.digest,
        verdict=records.overall([check.verdict for check in checks if not check.excused]),
        allow_inconclusive=_lenient(prepared, settings) and not (scored and _evades_comparison(scored)),
        dataset=dataset_info(prepared.dataset),
        model=scored.model if scored else records.ModelInfo(uri=settings.model, fingerprint="unknown"),
        baseline=scored.info("baseline") if scored else _unread(settings.baseline),
        anchor=scored.info("anchor") if scored else _unread(suite.anchor or "none"),
        definition=base,
        coverage=coverage,
        probes=suites.probe_digests(judged.loaded.suite),
        scores_digest=scores_digest(scores) if scores else None,
        answer_entropy=entropies_of(scores),
        decision=records.Decision(**suite.decision.model_dump()),
        checks=checks,
        confusions=taken,
        environment=place,
        notices=[
            *prepared.notices,
            *(changed_pointers(Repository(prepared.root), base.commit, _own_paths(prepared, settings)) if base else []),
            *judged_on_both(prepared.dataset, [(other.prepared, other.seconds) for other in on_base_data]),
            *(_notices(judged, scored) if scored else []),
            *(_plugin_notices(place.plugins or {}, scored.others) if scored else []),
            *(notice for record in edited for notice in record.notices),
            *weighed.notices,
        ],
        needs_approval=weighed.open,
        warnings=[*(_mismatches(scored, place) if scored else []), *_unseen(judged, scored, checks)],
        command=command or suites.command_line(suite.suite, settings),
        created_at=now.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - started, 3),
    )
    messages = [f"warning: {warning.message}" for warning in heard]
    messages += [f"warning: {line}" for line in unpinned]
    messages += [message for record in edited for message in record.messages]
    if settings.baseline != "none" and all(planned.against != "baseline" for planned in prepared.everything):
        messages.append("notice: no check compares with the baseline (no_worse_than: baseline)")
    messages += [
        f"warning: {hint.where}: {hint.problem} To see that, {hint.remedy}"
        for hint in suites.advice(prepared.loaded, settings.model)
    ]
    others = {against: other.scores[0] for against, other in scored.others.items()} if scored else {}
    return Evaluation(record, scores, tuple(dict.fromkeys(messages)), others)


def _own_paths(prepared: Prepared, settings: suites.Settings) -> list[Path]:
    """What is the candidate's alone: a checkpoint that it is compared with, such as a mitigation's origin, is not."""
    compared = (settings.baseline, *(definition.loaded.suite.anchor or "none" for definition in prepared.definitions))
    others = {
        path for text in compared if text.startswith("model:") for path in local_paths(text.removeprefix("model:"))
    }
    return [path for path in local_paths(settings.model) if path not in others]


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


@dataclass(frozen=True, slots=True)
class _OnBaseData:
    """What a base's checks find on the base's own release, and the seconds that it took."""

    prepared: Prepared
    scored: Scored | None
    checks: list[records.CheckResult]
    seconds: float


def _on_base_data(prepared: Prepared, settings: suites.Settings, progress: Progress | None, today: date) -> _OnBaseData:
    """Judge by a base's checks on the base's own release; what cannot be scored there is an error, never a pass."""
    started, scored = time.monotonic(), None
    try:
        scored = score(prepared, settings, progress)
        checks = _decided(prepared, scored, today)
        if missing := _coverage(prepared, scored.scores).missing:
            raise NoVerdict(f"{missing[0]}.", where=prepared.release, remedy="score all of them, or make room there")
    except FairgateError as error:
        checks = [suites.undecided(planned, error) for planned in prepared.everything]
    return _OnBaseData(prepared, scored, checks, time.monotonic() - started)


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


def _notices(prepared: Prepared, scored: Scored) -> list[str]:
    """Changes to other things than the weights; by the base's checks too, which a change can remove from its own."""
    index = prepared.dataset.index
    notices = [scored.note] if scored.note else []
    notices += [sentence for other in scored.others.values() for sentence in other.notices]
    for against, other in scored.others.items():
        if other.counterpart.notice is not None:
            notices.append(other.counterpart.notice)
        for place, (definition, answers) in enumerate(zip(prepared.definitions, scored.answers, strict=True)):
            reading = answers.readings[0]
            if against not in reading.tempered:
                continue
            at_theirs, own = reading.tempered[against], reading.scores
            now = suites.LabelTemperature(entropies_of(own), scored.model.logit_scale)
            both = (suites.LabelTemperature(other.entropies[place], other.model.logit_scale), now)
            notices += suites.temperature_notices(definition.planned, index, own, at_theirs.scores, both, against)
            notices += [
                f"label temperature: regressions of P(true) on '{name}' cannot pass, since they are not decided at the "
                f"{against}'s: {missing.why}"
                for name, missing in at_theirs.missing.items()
            ]
    return list(dict.fromkeys(notices))


def _dependent(checks: list[records.CheckResult]) -> list[str]:
    """How many pictures of each probe are listed again, and how many of other seeds are equal."""
    lines = []
    for what, count_of in (
        ("rows of its table repeat another one and count once", attrgetter("repeats")),
        ("pictures equal another one: all count, and weigh as one in intervals", attrgetter("equal_pictures")),
    ):
        counts: dict[str, Counter[str]] = {}
        for check in checks:
            counts.setdefault(check.probe, Counter())[f"{check.id} {check.against}"] += count_of(check)
        most = {probe: max(of.values()) for probe, of in counts.items()}
        lines += [f"'{probe}': {count:,} {what}" for probe, count in most.items() if count]
    return lines


def _plugin_notices(now: Mapping[str, str], others: Mapping[records.Against, ComparedRun]) -> list[str]:
    """How the installed packages that took part differ from those of the baseline's (or anchor's) run: code decides."""
    runs = {name: other.environment.plugins for name, other in others.items() if other.environment is not None}
    return [
        f"the package {package} took part {_took_part(now.get(package))}, in the {name}'s run "
        f"{_took_part(before.get(package))}: metrics, probes and models of it may give other numbers"
        for name, before in runs.items()
        if before is not None
        for package in sorted({*now, *before})
        if now.get(package) != before.get(package)
    ]


def _took_part(plugin: str | None) -> str:
    if plugin is None:
        return "not at all"
    version, _, code = plugin.partition(" sha256:")
    return f"as {version} ({code[:12]})"


def _mismatches(scored: Scored, place: records.Environment) -> list[str]:
    """Where the candidate was scored otherwise than what it is compared with."""
    lines = []
    for name, other in scored.others.items():
        if other.scored_for_entropy:
            lines.append(
                f"the {name}'s record holds no mean answer entropies, and its checkpoint was scored again for them: "
                "`fairgate baseline update SUITE --reason TEXT` records them"
            )
        here, there = (place, scored.model.precision), (other.environment, other.model.precision)
        lines += environment_warnings(name, here, there)
    return lines


def _unseen(prepared: Prepared, scored: Scored | None, checks: list[records.CheckResult]) -> list[str]:
    """What a definition's checks cannot see on this dataset, and in its answers: a check that a change adds hides no
    warning of the base's."""
    manifest, index, lines = prepared.dataset.manifest, prepared.dataset.index, dict[str, str]()
    for place, definition in enumerate(prepared.definitions):
        own = scored.answers[place].readings[0].scores if scored else {}
        for hint in suites.unseen_in_answers(definition.loaded, manifest, index, own):
            lines.setdefault(hint.problem, f"{hint.where}: {hint.problem} Remedy: {hint.remedy}.")
    same = {name for name, other in (scored.others if scored else {}).items() if other.info.unchanged}
    return [*_dependent(checks), *lines.values(), *suites.silent_checks(checks, same, manifest)]


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
