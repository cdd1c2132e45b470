"""Score a candidate, its baseline and its anchor with the same probes, and decide the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairgate.errors import SuiteError, did_you_mean
from fairgate.gate.compared_run import ComparedRun, RunContext, ScoredDefinition, compare_with
from fairgate.gate.counterparts import comparisons_without_pass, stricter_reading
from fairgate.gate.models import Progress, logit_scale_of, registered
from fairgate.gate.preparation import Definition, Prepared, require_intact
from fairgate.gate.temperature import Scores, Tempered, tempered, tempered_without_pass
from fairgate.measures import GroupedRows
from fairgate.models import Model
from fairgate.records import Against, BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Check, Settings, decide, fair_rankers, plan_check, require_groups_present


@dataclass(frozen=True, slots=True)
class Answers:
    """All scores on one definition's probes: the candidate's, and the others', its baseline and anchor as far as there
    are any. `tempered` holds the candidate's scores at the label temperature of each other.
    """

    candidate: Scores
    others: Mapping[Against, Scores]
    tempered: Mapping[Against, Tempered]
    read_alike: ReadAlike | None = None


@dataclass(frozen=True, slots=True)
class ReadAlike:
    """The answers of the candidate with its baseline's (or anchor's) tokenizer and preprocessing, by what is swapped of
    the two. Empty where the candidate cannot take these, and `withheld` says why."""

    against: Against
    answers: Mapping[str, Answers]
    withheld: str


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a candidate by definition, and the others that it is compared with: baseline and anchor."""

    model: ModelInfo
    device: str
    answers: tuple[Answers, ...]
    others: Mapping[Against, ComparedRun]

    @property
    def scores(self) -> Scores:
        """The candidate's scores on this change's probes."""
        return self.answers[0].candidate

    def info(self, against: Against) -> BaselineInfo | None:
        """The baseline, or the anchor, as a record names it."""
        return self.others[against].info if against in self.others else None

    @property
    def before(self) -> Scores | None:
        """The baseline's scores on this change's probes."""
        return self.answers[0].others.get("baseline")


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
    anchors = {
        spec: compare_with(spec, definitions, scorer, run, anchor=True, read_alike=baseline is None)
        for spec in dict.fromkeys(one.suite.anchor for one in definitions)
        if spec is not None
    }
    answers = []
    for place, one in enumerate(definitions):
        others = _those_there(baseline, anchors.get(one.suite.anchor or ""))
        answers.append(replace(_answers(one, others, place), read_alike=_read_alike(one, others, place)))
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
    return Scored(model, scorer.device, tuple(answers), _those_there(baseline, shown))


def _those_there(baseline: ComparedRun | None, anchor: ComparedRun | None) -> dict[Against, ComparedRun]:
    found: dict[Against, ComparedRun] = {} if baseline is None else {"baseline": baseline}
    return found if anchor is None else {**found, "anchor": anchor}


def _answers(one: ScoredDefinition, others: Mapping[Against, ComparedRun], place: int) -> Answers:
    return Answers(
        one.scores,
        {against: other.scores[place] for against, other in others.items()},
        {
            against: Tempered()  # the two are one checkpoint
            if other.info.unchanged
            else tempered(one.planned, one.scores, other.entropies[place], against, other.no_entropy)
            for against, other in others.items()
        },
    )


def _read_alike(one: ScoredDefinition, others: Mapping[Against, ComparedRun], place: int) -> ReadAlike | None:
    """With the baseline's tokenizer and preprocessing; with the anchor's, where there is no baseline."""
    against: Against = "baseline" if "baseline" in others else "anchor"
    if against not in others or not others[against].counterpart.changed:
        return None
    found = others[against].counterpart
    answers = {
        part: _answers(replace(one, scores=scores[place]), others, place) for part, scores in found.answers.items()
    }
    return ReadAlike(against, answers, found.withheld or found.changed)


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


def decide_definition(one: Definition, index: GroupedRows, answers: Answers) -> list[CheckResult]:
    """Decide a definition's checks; where the candidate reads otherwise than its baseline, as it reads and as that."""
    results = _decide(one, index, answers)
    alike = answers.read_alike
    if alike is None:
        return results
    if not alike.answers:
        return comparisons_without_pass(results, alike.withheld)
    swapped = {part: _decide(one, index, each) for part, each in alike.answers.items()}
    return stricter_reading(results, swapped, alike.against)


def _decide(one: Definition, index: GroupedRows, answers: Answers) -> list[CheckResult]:
    """Decide the checks; regressions of P(true) at the model's own label temperature and at the other's."""
    at_theirs = {against: found.scores for against, found in answers.tempered.items()}
    results = decide(one.planned, index, one.loaded.suite, answers.candidate, answers.others, one.null, at_theirs)
    missing = {against: found.missing for against, found in answers.tempered.items()}
    return tempered_without_pass(one.planned, results, missing)
