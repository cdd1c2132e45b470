"""Score a candidate, its baseline and its anchor with the same probes, and decide the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from fairgate.errors import SuiteError, did_you_mean
from fairgate.gate.compared_run import ComparedRun, RunContext, ScoredDefinition, compare_with
from fairgate.gate.counterparts import comparisons_without_pass, stricter_reading
from fairgate.gate.models import Progress, logit_scale_of, registered
from fairgate.gate.prepare import Definition, Prepared, require_intact
from fairgate.gate.temperature import Scores, Tempered, tempered, tempered_without_pass
from fairgate.measures import Index
from fairgate.models import Model
from fairgate.records import Against, BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Settings
from fairgate.suites.attainable import fair_rankers, require_groups_present
from fairgate.suites.decide import decide
from fairgate.suites.plan import plan_check
from fairgate.suites.schema import Check


@dataclass(frozen=True, slots=True)
class Answers:
    """All scores on one definition's probes; None where there is no baseline or anchor.

    `tempered` holds the candidate's scores at the label temperature of its baseline, and of its anchor.
    """

    candidate: Scores
    baseline: Scores | None
    anchor: Scores | None
    tempered: Mapping[Against, Tempered] = field(default_factory=dict)
    read_alike: ReadAlike | None = None


@dataclass(frozen=True, slots=True)
class ReadAlike:
    """The answers of the candidate with its baseline's (or anchor's) tokenizer and preprocessing, of which `changed`
    differs. None where the candidate cannot take these, and `withheld` says why."""

    against: Against
    changed: str
    answers: Answers | None
    withheld: str | None


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a candidate, its baseline and its anchor, by definition."""

    model: ModelInfo
    device: str
    answers: tuple[Answers, ...]
    compared: ComparedRun | None = None
    anchored: ComparedRun | None = None

    @property
    def scores(self) -> Scores:
        """The candidate's scores on this change's probes."""
        return self.answers[0].candidate

    @property
    def baseline(self) -> BaselineInfo | None:
        """The baseline, as a record names it."""
        return None if self.compared is None else self.compared.info

    @property
    def notices(self) -> list[str]:
        """Changes to other things than the weights, which reviewers see next to the verdict."""
        compared = [one for one in (self.compared, self.anchored) if one is not None]
        return [sentence for one in compared for sentence in one.notices]

    @property
    def before(self) -> Scores | None:
        """The baseline's scores on this change's probes."""
        return self.answers[0].baseline


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate, baseline and anchor, known to be comparable. Raises a FairgateError for what is in the way."""
    if prepared.trouble is not None:
        raise prepared.trouble
    settings = prepared.effective(settings)
    require_intact(prepared.dataset, settings, progress)
    run = RunContext(prepared, settings, progress)
    uri, version = registered(settings.model, settings)
    scorer = run.open(uri)
    definitions = _scored_definitions(run, scorer)
    baseline = compare_with(settings.baseline, definitions, scorer, run)
    anchors: dict[str, ComparedRun | None] = {}
    for one in definitions:
        if one.suite.anchor is not None and one.suite.anchor not in anchors:
            spec = one.suite.anchor
            anchors[spec] = compare_with(spec, definitions, scorer, run, anchor=True, read_alike=baseline is None)
    answers = []
    for place, one in enumerate(definitions):
        anchor = anchors.get(one.suite.anchor or "")
        compared: dict[Against, ComparedRun | None] = {"baseline": baseline, "anchor": anchor}
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
    shown = anchors.get(definitions[0].suite.anchor or "") or next(iter(anchors.values()), None)
    return Scored(model, scorer.device, tuple(answers), baseline, shown)


def _read_alike(
    one: ScoredDefinition, own: Answers, compared: Mapping[Against, ComparedRun | None], place: int
) -> ReadAlike | None:
    """With the baseline's tokenizer and preprocessing; with the anchor's, where there is no baseline."""
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


def _tempered(one: ScoredDefinition, against: Against, other: ComparedRun, place: int) -> Tempered:
    """The candidate's scores at another checkpoint's temperature; none where the two are one checkpoint."""
    if other.info.unchanged:
        return Tempered()
    return tempered(one.planned, one.scores, other.entropies[place], against, other.no_entropy)


def _scored_definitions(run: RunContext, scorer: Model) -> list[ScoredDefinition]:
    """The candidate's scores by definition; definitions with equal probes share them."""
    found: list[ScoredDefinition] = []
    for other in run.prepared.definitions:
        suite = other.loaded.suite
        same = next((one.scores for one in found if one.suite.probes == suite.probes), None)
        scores = run.score(scorer, [suite])[0] if same is None else same
        found.append(ScoredDefinition(suite, scores, other.planned))
    return found


def decide_one(prepared: Prepared, scored: Scored, check: Check, subject: str | None) -> CheckResult:
    """Decide a check of a test in Python, which is in no suite file, as a family of its own."""
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
