"""What a reader of a verdict has to know besides it: what else changed, what no check sees, what would show more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from fairgate import records, suites
from fairgate.gate.baselines import changed_pointers, environment_warnings
from fairgate.gate.model_runs import ComparedRun, entropies_of
from fairgate.gate.preparation import Prepared
from fairgate.gate.scoring import Scored
from fairgate.models import local_paths


def notices_of(
    prepared: Prepared,
    settings: suites.Settings,
    judged: Prepared,
    scored: Scored | None,
    on_both: Sequence[str],
    place: records.Environment,
) -> Iterator[str]:
    """What changed besides the weights: the definition, the data, the model, the code. `judged` is what was
    scored: `prepared`, or its base's definitions; `on_both` tells of other data that was judged besides."""
    yield from prepared.notices
    if base := prepared.compared:
        yield from changed_pointers(prepared.repository, base.commit, _own_paths(prepared, settings))
    yield from on_both
    if scored:
        yield from _changes_besides_weights(judged, scored)
        yield from _plugin_notices(place.plugins or {}, scored.others)


def _own_paths(prepared: Prepared, settings: suites.Settings) -> list[Path]:
    """What is the candidate's alone: a checkpoint that it is compared with, such as a mitigation's origin, is not."""
    compared = (settings.baseline, *(definition.loaded.suite.anchor or "none" for definition in prepared.definitions))
    others = {
        path for text in compared if text.startswith("model:") for path in local_paths(text.removeprefix("model:"))
    }
    return [path for path in local_paths(settings.model) if path not in others]


def _changes_besides_weights(prepared: Prepared, scored: Scored) -> list[str]:
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


def mismatches(scored: Scored, place: records.Environment) -> list[str]:
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


def unseen(prepared: Prepared, scored: Scored | None, checks: list[records.CheckResult]) -> list[str]:
    """What a definition's checks cannot see on this dataset, and in its answers: a check that a change adds hides no
    warning of the base's."""
    manifest, index, lines = prepared.dataset.manifest, prepared.dataset.index, dict[str, str]()
    for place, definition in enumerate(prepared.definitions):
        own = scored.answers[place].readings[0].scores if scored else {}
        for hint in suites.unseen_in_answers(definition.loaded, manifest, index, own):
            lines.setdefault(hint.problem, f"{hint.where}: {hint.problem} Remedy: {hint.remedy}.")
    same = {name for name, other in (scored.others if scored else {}).items() if other.info.unchanged}
    return [*_dependent(checks), *lines.values(), *suites.silent_checks(checks, same, manifest)]


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


def advice_of(prepared: Prepared, settings: suites.Settings) -> Iterator[str]:
    """Messages on what the suite does not compare, and on what would let it see more."""
    if settings.baseline != "none" and all(planned.against != "baseline" for planned in prepared.everything):
        yield "notice: no check compares with the baseline (no_worse_than: baseline)"
    for hint in suites.advice(prepared.loaded, settings.model):
        yield f"warning: {hint.where}: {hint.problem} To see that, {hint.remedy}"
