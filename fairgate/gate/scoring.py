"""Score a candidate, its baseline and its anchor with the same probes, and decide the checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fairgate.gate.baselines import Repository, baseline_folder, parse_baseline
from fairgate.gate.compared_run import CandidateRun, ComparedRun, compare_with
from fairgate.gate.counterparts import comparisons_without_pass, stricter_reading
from fairgate.gate.edited_records import Recomputed, recompute
from fairgate.gate.models import Progress, model_info, open_model, registered
from fairgate.gate.preparation import Definition, Prepared, require_intact
from fairgate.gate.temperature import Scores, Tempered, tempered, tempered_without_pass
from fairgate.ground.errors import FairgateError, NoVerdict, SuiteError, did_you_mean
from fairgate.metrics import GroupedRows
from fairgate.records import Against, BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Check, Settings, decide, fair_rankers, plan_check, require_groups_present


@dataclass(frozen=True, slots=True)
class Answers:
    """All scores on one definition's probes: the candidate's, and the others', its baseline and anchor as far as there
    are any. `tempered` holds the candidate's scores at the label temperature of each other.

    `alike` holds the answers of the candidate with the tokenizer and preprocessing of its baseline, or without one its
    anchor (`against`), by what is swapped of the two; `withheld` says why it cannot take these.
    """

    candidate: Scores
    others: Mapping[Against, Scores]
    tempered: Mapping[Against, Tempered]
    against: Against = "baseline"
    alike: Mapping[str, Answers] = field(default_factory=dict)
    withheld: str | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a candidate by definition, and the others that it is compared with: baseline and anchor."""

    model: ModelInfo
    device: str
    answers: tuple[Answers, ...]
    others: Mapping[Against, ComparedRun]
    edited: tuple[Recomputed, ...] = ()
    """What came of the records that this change edits."""
    present: tuple[Answers, ...] = ()
    """The same answers against the base's present record, if it is not the merge base's."""
    note: str | None = None
    """What a model says of itself that readers of the verdict should know (`note`), such as how it was mitigated."""

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
    require_intact(prepared.dataset, settings, prepared.root, progress)
    uri, version = registered(settings.model, settings, prepared.root)
    scorer = open_model(uri, prepared, settings, progress)
    run = CandidateRun(prepared, settings, progress, scorer)
    edited = [] if prepared.release else [recompute(folder, run) for folder in prepared.edited_records]
    baseline = compare_with(settings.baseline, run)
    named = [one.loaded.suite.anchor or "none" for one in prepared.definitions]
    anchors = {spec: compare_with(spec, run, "anchor", read_alike=baseline is None) for spec in dict.fromkeys(named)}

    def against(record: ComparedRun | None) -> tuple[Answers, ...]:
        return tuple(
            _answers(prepared.definitions[place], place, scores, _those_there(record, anchors[named[place]]))
            for place, scores in enumerate(run.scores)
        )

    present = _present_record(run)
    shown = next(filter(None, anchors.values()), None)
    model = model_info(settings.model, scorer, version)
    note = getattr(scorer, "note", None)
    others = _those_there(baseline, shown)
    return Scored(
        model, scorer.device, against(baseline), others, tuple(edited), against(present) if present else (), note
    )


def _present_record(run: CandidateRun) -> ComparedRun | None:
    """The baseline's record as its branch has it now, if that is not the merge base's.

    Raises NoVerdict if nothing can be compared with it.
    """
    spec, repository = parse_baseline(run.settings.baseline), Repository(run.prepared.root)
    if spec.kind != "git" or spec.pinned is not None:
        return None
    tip, folder = repository.tip(spec.target), baseline_folder(run.prepared.loaded.name)
    if repository.tree(tip, folder) in ([], repository.tree(repository.merge_base(spec.target), folder)):
        return None
    try:
        return compare_with(f"git:{spec.target}@{tip}", run)
    except FairgateError as error:
        raise NoVerdict(
            f"{spec.target} ({tip:.7}) has a newer record than the merge base, which cannot be compared with: "
            f"{error.problem}",
            where=error.where,
            remedy=f"rebase onto {spec.target}, or merge it into this branch",
        ) from error


def _those_there(baseline: ComparedRun | None, anchor: ComparedRun | None) -> dict[Against, ComparedRun]:
    found: dict[Against, ComparedRun] = {} if baseline is None else {"baseline": baseline}
    return found if anchor is None else {**found, "anchor": anchor}


def _answers(one: Definition, place: int, scores: Scores, others: Mapping[Against, ComparedRun]) -> Answers:
    """Answers to the definition at a place, as the candidate reads and as its baseline (or anchor) does."""
    theirs = {against: other.scores[place] for against, other in others.items()}

    def answers(own: Scores) -> Answers:
        at_theirs = {
            against: Tempered()  # the two are one checkpoint
            if other.info.unchanged
            else tempered(one.planned, own, other.entropies[place], against, other.no_entropy)
            for against, other in others.items()
        }
        return Answers(own, theirs, at_theirs)

    for against, other in others.items():
        if (swap := other.counterpart).changed:
            alike = {part: answers(own[place]) for part, own in swap.answers.items()}
            return replace(answers(scores), against=against, alike=alike, withheld=swap.withheld)
    return answers(scores)


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
    return decide_definition(alone, prepared.dataset.index, scored.answers[0])[0]


def decide_definition(one: Definition, index: GroupedRows, answers: Answers) -> list[CheckResult]:
    """Decide a definition's checks; where the candidate reads otherwise than its baseline, as it reads and as that."""
    results = _decide(one, index, answers)
    if answers.withheld is not None:
        return comparisons_without_pass(results, answers.withheld)
    swapped = {part: _decide(one, index, each) for part, each in answers.alike.items()}
    return stricter_reading(results, swapped, answers.against) if swapped else results


def _decide(one: Definition, index: GroupedRows, answers: Answers) -> list[CheckResult]:
    """Decide the checks; regressions of P(true) at the model's own label temperature and at the other's."""
    at_theirs = {against: found.scores for against, found in answers.tempered.items()}
    results = decide(one.planned, index, one.loaded.suite, answers.candidate, answers.others, one.null, at_theirs)
    return tempered_without_pass(one.planned, results, answers.tempered)
