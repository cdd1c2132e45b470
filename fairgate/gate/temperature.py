"""P(true) depends on the label temperature, which a checkpoint chooses: regressions of it are decided at two.

The second temperature is the one that gives the candidate's answers the mean entropy of what it is compared with. Where
that cannot be had, or a probe does not return the probabilities of all labels, such a regression is never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairgate.probes import Entropies, ProbeScores, match_entropies
from fairgate.records import Against, CheckResult, GroupResult
from fairgate.suites import PlannedCheck

Scores = dict[str, ProbeScores]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a probe's answers cannot be brought to another run's temperature, for some subjects or (None) for all."""

    why: str
    subjects: tuple[str, ...] | None = None

    def concerns(self, subject: str | None) -> bool:
        """Whether a check on a subject, or (None) on all, reads such answers."""
        return subject is None or self.subjects is None or subject in self.subjects


@dataclass(frozen=True, slots=True)
class Tempered:
    """The candidate's answers at the temperature of what it is compared with, and what is missing, by probe."""

    scores: Scores = field(default_factory=dict)
    missing: Mapping[str, Missing] = field(default_factory=dict)


def needs_entropy(planned: Sequence[PlannedCheck], against: Against) -> set[str]:
    """Probes whose P(true) a check compares with the baseline (or anchor)."""
    return {one.check.probe for one in planned if one.against == against and one.metric.spec.tempered}


def tempered(
    planned: Sequence[PlannedCheck],
    candidate: Scores,
    entropies: Mapping[str, Entropies],
    against: Against,
    why_not: str | None = None,
) -> Tempered:
    """The candidate's answers at the temperature of the baseline (or anchor), whose mean entropies are given by probe.

    `why_not` says why entropies that a check needs are not there.
    """
    scores: Scores = {}
    missing: dict[str, Missing] = {}
    compared = [one for one in planned if one.against == against and one.metric.spec.tempered]
    needed = {name for one in compared for name in one.answers}
    for name, one in candidate.items():
        wanted = entropies.get(name, {})
        if why := _incomplete(one):
            if name in needed:
                missing[name] = Missing(f"the probe of '{name}' {why}")
            continue
        if not {contest.subject for contest in one.contests} <= wanted.keys():
            if name in needed:
                missing[name] = Missing(why_not or f"the {against}'s mean answer entropy of '{name}' is not known")
            continue
        matched = match_entropies(one, wanted)
        scores[name] = matched.scores
        if matched.missed:
            named = ", ".join(f"{subject} ({wanted[subject]:.3f} nats)" for subject in matched.missed[:3])
            why = f"no temperature gives the answers the {against}'s mean entropy for {named}"
            missing[name] = Missing(f"{why}: labels of some images have exactly equal probabilities", matched.missed)
    return Tempered(scores, missing)


def _incomplete(scores: ProbeScores) -> str | None:
    """Why answers cannot be brought to another temperature: their contests leave images out. None where they do not."""
    covered = np.zeros(len(scores.value), dtype=bool)
    for contest in scores.contests:
        covered[contest.rows] = True
    if covered.all():
        return None
    lacking = f"{int((~covered).sum()):,} of {len(covered):,} images"
    return f"does not return the probabilities of all labels (`contests` of its ProbeScores) for {lacking}"


def tempered_without_pass(
    planned: Sequence[PlannedCheck], results: Sequence[CheckResult], at_theirs: Mapping[Against, Tempered]
) -> list[CheckResult]:
    """Regressions of P(true) that pass at the model's own temperature, and could not be compared at the other one, are
    inconclusive."""
    checked = []
    for one, result in zip(planned, results, strict=True):
        there = at_theirs[one.against].missing if one.against and one.against in at_theirs else {}
        found = [there[name].why for name in one.answers if name in there and there[name].concerns(one.subject)]
        why = f"not decided at the {one.against}'s label temperature: {', '.join(found[:1])}"
        checked.append(without_pass(result, why) if found and one.metric.spec.tempered else result)
    return checked


def without_pass(result: CheckResult, why: str) -> CheckResult:
    """A result that is inconclusive instead of a pass, in its groups too, since something was not compared."""
    if result.verdict != "pass":
        return result
    groups: list[GroupResult] = [
        group.model_copy(update={"verdict": "inconclusive"}) if group.verdict == "pass" else group
        for group in result.groups
    ]
    return result.model_copy(update={"verdict": "inconclusive", "reason": f"{result.reason}; {why}", "groups": groups})
