"""The ways in which a candidate is read: as it is, and with its baseline's tokenizer, chat template or preprocessing
if they differ; each at its own label temperature and at the baseline's. Of every check, the strictest verdict counts.

P(true) depends on the label temperature, which a checkpoint chooses. The second temperature is the one that gives the
candidate's answers the mean entropy of what it is compared with. If that cannot be had, or a probe does not return the
probabilities of all labels, a regression of P(true) is never a pass.

Whoever edits the tokenizer of a biased checkpoint, so that wrong labels become nonsense, gets a perfect one: no wrong
label is ever as probable as the right one. Such a change is named next to the verdict; if the checkpoint cannot take
what the baseline's tokenizer and preprocessing make, a comparison with the baseline is never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairgate.gate.preparation import Definition
from fairgate.metrics import GroupedRows
from fairgate.probes import Entropies, ProbeScores, match_entropies
from fairgate.records import STRICTNESS, Against, CheckResult, GroupResult
from fairgate.suites import PlannedCheck, decide

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


@dataclass(frozen=True, slots=True)
class CandidateReading:
    """The candidate's scores on a definition's probes, read in one way: `swapped` names what is the baseline's of
    tokenizer and preprocessing (empty: the candidate reads as it is). `tempered` is by what it is compared with."""

    scores: Scores
    tempered: Mapping[Against, Tempered]
    swapped: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """All scores on a definition's probes: the candidate's in every reading, first as it is, and those of its baseline
    and anchor (`others`) as far as there are any. It is read as the baseline reads, or without one as the anchor
    (`against`); `withheld` says why it cannot be."""

    readings: tuple[CandidateReading, ...]
    others: Mapping[Against, Scores]
    against: Against = "baseline"
    withheld: str | None = None


def decided(definition: Definition, index: GroupedRows, answers: Answers) -> list[CheckResult]:
    """A definition's checks, decided in each reading: of every check the strictest result."""
    results = []
    for reading in answers.readings:
        at_theirs = {against: there.scores for against, there in reading.tempered.items()}
        checks = decide(
            definition.planned,
            index,
            definition.loaded.suite,
            reading.scores,
            answers.others,
            definition.null,
            at_theirs,
        )
        results.append(
            [compared(*pair, reading, answers.withheld) for pair in zip(definition.planned, checks, strict=True)]
        )
    swapped = [reading.swapped for reading in answers.readings]
    return [strictest(variants, swapped, answers.against) for variants in zip(*results, strict=True)]


def strictest(variants: Sequence[CheckResult], swapped: Sequence[str], against: Against) -> CheckResult:
    """The result that is hardest on the candidate, of two failures the one in which more groups fail; of equally hard
    ones the first, which is that of the candidate as it is. `swapped` names each reading."""
    hardness = [(STRICTNESS[check.verdict], len(check.failing_groups)) for check in variants]
    place = hardness.index(max(hardness))
    check = variants[place]
    if place == 0:
        return check
    reason = f"with the {against}'s {swapped[place]} (with its own: {variants[0].verdict}): {check.reason}"
    return check.model_copy(update={"reason": reason})


def compared(
    planned: PlannedCheck, result: CheckResult, reading: CandidateReading, withheld: str | None
) -> CheckResult:
    """A result that is inconclusive instead of a pass, if not all was compared: a regression of P(true) at the other's
    label temperature, or any regression in another reading."""
    if planned.against is not None and planned.against in reading.tempered and planned.metric.spec.tempered:
        missing = reading.tempered[planned.against].missing
        concerned = (missing[name] for name in planned.answers if name in missing)
        first = next((gap.why for gap in concerned if gap.concerns(planned.subject)), None)
        result = _without_pass(result, first and f"not decided at the {planned.against}'s label temperature: {first}")
    return _without_pass(result, withheld if result.rule == "no_worse_than" else None)


def _without_pass(result: CheckResult, why: str | None) -> CheckResult:
    """A result that is inconclusive instead of a pass, in its groups too, if there is a reason why."""
    if why is None or result.verdict != "pass":
        return result
    groups: list[GroupResult] = [
        group.model_copy(update={"verdict": "inconclusive"}) if group.verdict == "pass" else group
        for group in result.groups
    ]
    return result.model_copy(update={"verdict": "inconclusive", "reason": f"{result.reason}; {why}", "groups": groups})


def needs_entropy(planned: Sequence[PlannedCheck], against: Against) -> set[str]:
    """Probes whose P(true) a check compares with the baseline (or anchor)."""
    return {check.check.probe for check in planned if _tempers(check, against)}


def _tempers(planned: PlannedCheck, against: Against) -> bool:
    return planned.against == against and bool(planned.metric.spec.tempered)


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
    needed = {name for check in planned if _tempers(check, against) for name in check.answers}
    for name, probe_scores in candidate.items():
        wanted, why = entropies.get(name, {}), _incomplete(name, probe_scores)
        if why is None and not {contest.subject for contest in probe_scores.contests} <= wanted.keys():
            why = why_not or f"the {against}'s mean answer entropy of '{name}' is not known"
        if why is not None:
            if name in needed:
                missing[name] = Missing(why)
            continue
        matched = match_entropies(probe_scores, wanted)
        scores[name] = matched.scores
        if matched.missed:
            named = ", ".join(f"{subject} ({wanted[subject]:.3f} nats)" for subject in matched.missed[:3])
            why = f"no temperature gives the answers the {against}'s mean entropy for {named}"
            missing[name] = Missing(f"{why}: labels of some images have exactly equal probabilities", matched.missed)
    return Tempered(scores, missing)


def _incomplete(name: str, scores: ProbeScores) -> str | None:
    """Why answers cannot be brought to another temperature: their contests leave images out. None where they do not."""
    covered = np.zeros(len(scores.value), dtype=bool)
    for contest in scores.contests:
        covered[contest.rows] = True
    if covered.all():
        return None
    lacking = f"{int((~covered).sum()):,} of {len(covered):,} images"
    what = "does not return the probabilities of all labels (`contests` of its ProbeScores)"
    return f"the probe of '{name}' {what} for {lacking}"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The candidate's answers to each definition, reading as the baseline (or anchor) does in all that `changed`
    (tokenizer or, of a classifier, labels; preprocessing; both), and in each part alone.

    Empty where it reads so anyway. `withheld` says why it cannot, and a comparison cannot pass; `notice` what a
    reviewer sees.
    """

    answers: Mapping[str, tuple[Scores, ...]] = field(default_factory=dict)
    changed: str = ""
    withheld: str | None = None
    notice: str | None = None
