"""A candidate and what it is compared with, asked the same questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from fairgate.errors import SuiteError, did_you_mean
from fairgate.gate.compared_run import (
    Asked,
    Compared,
    Progress,
    Run,
    Scores,
    compare_with,
    logit_scale_of,
    open_local,
    registered,
)
from fairgate.gate.counterparts import comparisons_without_pass, stricter_reading
from fairgate.gate.intact import require_intact
from fairgate.gate.prepare import Definition, Prepared
from fairgate.gate.temperature import Tempered, tempered, tempered_without_pass
from fairgate.measures import Index
from fairgate.models import Model
from fairgate.records import Against, BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Settings
from fairgate.suites.attainable import fair_rankers, require_groups_present
from fairgate.suites.decide import decide
from fairgate.suites.plan import plan_check
from fairgate.suites.run_probes import run_probes
from fairgate.suites.schema import Check

__all__ = ["Answers", "Progress", "Scored", "Scores", "decide_definition", "decide_one", "score"]


@dataclass(frozen=True, slots=True)
class Answers:
    """What was answered to one definition's probes. None where there is nothing to compare with.

    `tempered` holds the candidate's answers at the label temperature of what it is compared with.
    """

    candidate: Scores
    baseline: Scores | None
    anchor: Scores | None
    tempered: Mapping[Against, Tempered] = field(default_factory=dict)
    read_alike: ReadAlike | None = None


@dataclass(frozen=True, slots=True)
class ReadAlike:
    """The answers again, where the candidate reads as what it is compared with; None: it cannot, and `withheld` says
    why. `changed` is what differs."""

    against: Against
    changed: str
    answers: Answers | None
    withheld: str | None


@dataclass(frozen=True, slots=True)
class Scored:
    """What a candidate, its baseline and its anchor answered, to each definition asked."""

    model: ModelInfo
    device: str
    answers: tuple[Answers, ...]
    compared: Compared | None = None
    anchored: Compared | None = None

    @property
    def scores(self) -> Scores:
        """The candidate's answers to this change's probes."""
        return self.answers[0].candidate

    @property
    def baseline(self) -> BaselineInfo | None:
        """What the candidate was compared with."""
        return None if self.compared is None else self.compared.info

    @property
    def notices(self) -> list[str]:
        """What the change alters besides the weights, as reviewers are shown it next to the verdict."""
        compared = [one for one in (self.compared, self.anchored) if one is not None]
        return [sentence for one in compared for sentence in one.notices]

    @property
    def before(self) -> Scores | None:
        """The baseline's answers to this change's probes."""
        return self.answers[0].baseline


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate, baseline and anchor, known to be comparable. Raises a FairgateError for what is in the way."""
    if prepared.trouble is not None:
        raise prepared.trouble
    settings = prepared.effective(settings)
    require_intact(prepared.dataset, settings, progress)
    run = Run(prepared, settings, progress)
    uri, version = registered(settings.model, settings)
    scorer = open_local(uri, prepared, settings, progress)
    asked = _asked(prepared, run_probes(scorer, prepared.dataset.index, prepared.loaded.suite), scorer)
    baseline = compare_with(settings.baseline, asked, scorer, run)
    anchors: dict[str, Compared | None] = {}
    for one in asked:
        if one.suite.anchor is not None and one.suite.anchor not in anchors:
            spec = one.suite.anchor
            anchors[spec] = compare_with(spec, asked, scorer, run, anchor=True, read_alike=baseline is None)
    answers = []
    for place, one in enumerate(asked):
        anchor = anchors.get(one.suite.anchor or "")
        compared: dict[Against, Compared | None] = {"baseline": baseline, "anchor": anchor}
        before, long_before = (None if other is None else other.scores[place] for other in compared.values())
        at_theirs = {against: _tempered(one, against, other, place) for against, other in compared.items() if other}
        own = Answers(one.scores, before, long_before, at_theirs)
        answers.append(replace(own, read_alike=_read_alike(one, own, compared, place)))
    model = ModelInfo(
        uri=settings.model,
        fingerprint=scorer.fingerprint,
        precision=scorer.precision,
        registered=version,
        preparation=scorer.preparation,
        logit_scale=logit_scale_of(scorer),
        tokenizer=scorer.tokenizer,
        preprocessing=scorer.preprocessing,
    )
    shown = anchors.get(asked[0].suite.anchor or "") or next(iter(anchors.values()), None)
    return Scored(model, scorer.device, tuple(answers), baseline, shown)


def _read_alike(one: Asked, own: Answers, compared: Mapping[Against, Compared | None], place: int) -> ReadAlike | None:
    """The answers of the candidate that reads as its baseline does; as its anchor, where there is no baseline."""
    against: Against = "baseline" if compared["baseline"] is not None else "anchor"
    other = compared[against]
    if other is None or not other.counterpart.changed:
        return None
    found, answers = other.counterpart, None
    if found.answers:
        again = replace(one, scores=found.answers[place])
        at_theirs = {name: _tempered(again, name, this, place) for name, this in compared.items() if this}
        answers = Answers(again.scores, own.baseline, own.anchor, at_theirs)
    return ReadAlike(against, found.changed, answers, found.withheld)


def _tempered(one: Asked, against: Against, other: Compared, place: int) -> Tempered:
    """The candidate's answers at another's temperature; nothing to do where the two are one checkpoint."""
    if other.info.unchanged:
        return Tempered()
    return tempered(one.planned, one.scores, other.entropies[place], against, other.no_entropy)


def _asked(prepared: Prepared, scores: Scores, scorer: Model) -> list[Asked]:
    """The candidate's answers to each definition; equal probes are not asked twice."""
    here, *others = prepared.definitions
    asked = [Asked(here.loaded.suite, scores, here.planned)]
    for other in others:
        same = next((one.scores for one in asked if one.suite.probes == other.loaded.suite.probes), None)
        answers = run_probes(scorer, prepared.dataset.index, other.loaded.suite) if same is None else same
        asked.append(Asked(other.loaded.suite, answers, other.planned))
    return asked


def decide_one(prepared: Prepared, scored: Scored, check: Check, subject: str | None) -> CheckResult:
    """Decide a check that stands in no suite file (a test in Python wrote it), as a family of its own."""
    planned = plan_check(prepared.loaded, check, prepared.dataset.manifest)[0]
    if subject is not None and subject not in prepared.dataset.manifest.subjects:
        known = prepared.dataset.manifest.subjects
        raise SuiteError(
            f"dataset '{prepared.dataset.name}' has no subject '{subject}'.",
            where=prepared.loaded.path.name,
            remedy=did_you_mean(subject, known) or f"subjects: {', '.join(known)}",
        )
    planned = replace(planned, subject=subject)
    require_groups_present([planned], prepared.dataset.index)
    null = fair_rankers([planned], prepared.dataset.index, prepared.loaded.suite.groups.min_sets)
    alone = Definition(prepared.loaded, [planned], null)
    (result,) = decide_definition(alone, prepared.dataset.index, scored.answers[0])
    return result


def decide_definition(one: Definition, index: Index, answers: Answers) -> list[CheckResult]:
    """Decide a definition's checks; where the candidate reads otherwise than its baseline, as it reads and as that."""
    results = _decide(one, index, answers)
    alike = answers.read_alike
    if alike is None:
        return results
    if alike.answers is not None:
        return stricter_reading(results, _decide(one, index, alike.answers), alike.changed, alike.against)
    return comparisons_without_pass(results, alike.withheld or alike.changed)


def _decide(one: Definition, index: Index, answers: Answers) -> list[CheckResult]:
    """Decide the checks; regressions of P(true) at the model's own label temperature and at the other's."""
    at_theirs = {against: answers.tempered.get(against, Tempered()) for against in get_args(Against)}
    results = decide(
        one.planned,
        index,
        one.loaded.suite,
        answers.candidate,
        answers.baseline,
        one.null,
        answers.anchor,
        tempered=at_theirs["baseline"].scores,
        anchor_tempered=at_theirs["anchor"].scores,
    )
    return tempered_without_pass(one.planned, results, {against: found.missing for against, found in at_theirs.items()})
