"""Score a candidate, its baseline and its anchor with the same probes, and decide the checks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from fairgate import reports
from fairgate.gate import baselines
from fairgate.gate.approvals import moved_anchor
from fairgate.gate.base_data import edited
from fairgate.gate.model_runs import CandidateRun, ComparedRun, Progress, model_info, open_model, registered
from fairgate.gate.preparation import Definition, Prepared, require_intact
from fairgate.gate.reading import Answers, CandidateReading, Counterpart, Scores, decided, tempered
from fairgate.gate.reproduction import Recomputed, recompute
from fairgate.gate.saved_run import SavedRun, bring_back, record_of
from fairgate.ground.errors import BaselineError, FairgateError, NoVerdict, SuiteError, did_you_mean
from fairgate.models import PRECOMPUTED, Model, RereadingModel, local_paths
from fairgate.models.checkpoints import judging
from fairgate.records import Against, BaselineInfo, CheckResult, ModelInfo
from fairgate.suites import Check, Settings, fair_rankers, plan_check, require_groups_present

_AND = " and "
_FORWARD = (
    "If checks fail by it and the change is meant, merge waivers for them first, reviewed; then this checkpoint "
    "together with its updated baseline"
)


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
        return self.answers[0].readings[0].scores

    def info(self, against: Against) -> BaselineInfo | None:
        """The baseline, or the anchor, as a record names it."""
        return self.others[against].info if against in self.others else None


def score(prepared: Prepared, settings: Settings, progress: Progress | None = None) -> Scored:
    """Score candidate, baseline and anchor, known to be comparable. Raises a FairgateError for what is in the way."""
    if prepared.trouble is not None:
        raise prepared.trouble
    require_intact(prepared.dataset, settings, prepared.root, progress)
    uri, version = registered(settings.model, settings, prepared.root)
    scorer = open_model(uri, prepared, settings, progress)
    run = CandidateRun(prepared, settings, progress, scorer)
    records = [] if prepared.release else [recompute(folder, run) for folder in prepared.edited_records]
    baseline = compare_with(settings.baseline, run)
    named = [definition.loaded.suite.anchor or "none" for definition in prepared.definitions]
    anchors = {spec: compare_with(spec, run, "anchor", read_alike=baseline is None) for spec in dict.fromkeys(named)}

    def against(record: ComparedRun | None) -> tuple[Answers, ...]:
        return tuple(_answers(run, place, _those_there(record, anchors[spec])) for place, spec in enumerate(named))

    present = _present_record(run)
    return Scored(
        model_info(settings.model, scorer, version),
        scorer.device,
        against(baseline),
        _those_there(baseline, next(filter(None, anchors.values()), None)),
        tuple(records),
        () if present is None else against(present),
        getattr(scorer, "note", None),
    )


def _present_record(run: CandidateRun) -> ComparedRun | None:
    """The baseline's record as its branch has it now, if that is not the merge base's.

    Raises NoVerdict if nothing can be compared with it.
    """
    spec, repository = baselines.parse_baseline(run.settings.baseline), run.prepared.repository
    if spec.kind != "git" or spec.pinned is not None:
        return None
    tip, folder = repository.tip(spec.target), baselines.baseline_folder(run.prepared.loaded.name)
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
    runs: dict[Against, ComparedRun] = {} if baseline is None else {"baseline": baseline}
    return runs if anchor is None else {**runs, "anchor": anchor}


def _answers(run: CandidateRun, place: int, others: Mapping[Against, ComparedRun]) -> Answers:
    """Answers to the definition at a place, in every reading."""
    swaps = ((against, other.counterpart) for against, other in others.items() if other.counterpart.changed)
    whose, swap = next(swaps, ("baseline", Counterpart()))
    ways = {"": run.scores[place], **{part: own[place] for part, own in swap.answers.items()}}

    planned, readings = run.prepared.definitions[place].planned, list[CandidateReading]()
    for part, own in ways.items():
        at_theirs = {
            against: tempered(planned, own, other.entropies[place], against, other.no_entropy)
            for against, other in others.items()
            # Of one checkpoint there is one temperature, and of two tables of shares of sampled answers: both must be
            # such, since one alone could hide a temperature by declaring so.
            if not other.info.unchanged
            and not (other.model.frequencies and getattr(run.candidate, "frequencies", False))
        }
        readings.append(CandidateReading(own, at_theirs, part))
    theirs = {against: other.scores[place] for against, other in others.items()}
    return Answers(tuple(readings), theirs, whose, swap.withheld)


def compare_with(
    text: str, run: CandidateRun, against: Against = "baseline", *, read_alike: bool = True
) -> ComparedRun | None:
    """A baseline's (or anchor's) scores, checked to be comparable with the candidate's; None where there is none.

    With `read_alike`, the candidate is also scored with the other checkpoint's tokenizer and preprocessing, where they
    differ. Raises BaselineError where the baseline cannot be found or compared, or is the candidate by mistake.
    """
    spec = baselines.parse_baseline(text)
    compared = {planned.against for definition in run.prepared.definitions for planned in definition.planned}
    if spec.kind == "none" or against not in compared:
        return None
    candidate = run.candidate
    reading: Model | ModelInfo
    with tempfile.TemporaryDirectory(prefix="fairgate-") as scratch:
        if spec.kind == "model":
            model = _model_to_compare(spec.target, run, Path(scratch))
            info = BaselineInfo(source=str(spec), uri=spec.target, fingerprint=model.fingerprint)
            compared_run, reading, reopen = run.compared(info, model), model, lambda: model
        else:
            files = record_of(spec, run, Path(scratch))
            saved = SavedRun(str(spec), against, files, reports.read_results(files.results), run, Path(scratch))
            compared_run, reading = saved.compared(), saved.record.model
            reopen = partial(saved.checkpoint, "tokenizer or preprocessing changed")
        if read_alike and compared_run.info.fingerprint != candidate.fingerprint:
            compared_run = replace(compared_run, counterpart=counterpart(run, reading, reopen, against))
    # A pinned release may well be the checkpoint in use, and so may the record at the merge base of a change that
    # leaves the checkpoint alone. A file or a model that was named as "before" and is "after" is a mistake.
    moved = moved_anchor(spec, run.prepared.repository) if against == "anchor" else []
    compared_run = replace(compared_run, weighed=(*compared_run.weighed, *moved))
    innocent = against == "anchor" or spec.kind in ("git", "mlflow")
    if innocent and compared_run.info.fingerprint == candidate.fingerprint:
        return replace(compared_run, info=compared_run.info.model_copy(update={"unchanged": True}))
    served = getattr(candidate, "served", None) is not None  # one server may well give one model's answers twice
    if served and spec.kind == "model" and spec.target == run.settings.model:
        raise BaselineError(
            "the baseline is the candidate: one server's one model.",
            where=str(spec),
            remedy="name what there was before the change as the baseline, or `none`",
        )
    for now, before in () if served else zip(run.scores, compared_run.scores, strict=True):
        baselines.require_another_checkpoint(
            (candidate.fingerprint, now), (compared_run.info.fingerprint, before), str(spec)
        )
    both = zip(run.scores, compared_run.scores, strict=True)
    if all(baselines.scores_in_common(now, before) == "same words" for now, before in both):
        notice = f"every answer is that of the {against}, image by image; if that is a surprise, check both URIs"
        return replace(compared_run, notices=(*compared_run.notices, notice))
    return compared_run


def _model_to_compare(uri: str, run: CandidateRun, scratch: Path) -> Model:
    """The checkpoint of a `model:` baseline; of one that this change edits, what the merge base has."""
    prepared, paths = run.prepared, local_paths(uri)
    repository, base = prepared.repository, prepared.compared
    changed = [path for path in paths if base is not None and edited(repository, base.commit, path)]
    if base is None or not changed:
        return run.open(uri)
    if any(path.is_absolute() for path in changed):
        raise BaselineError(
            f"this change edits {changed[0]}, which it is compared with, and the merge base's cannot take its place.",
            where=f"model:{uri}",
            remedy="name it by its path in the repository",
        )
    bring_back(paths, repository, base.commit, scratch)
    with judging(prepared.root):
        return run.open(uri, scratch)


def counterpart(
    run: CandidateRun, theirs: Model | ModelInfo, reopen: Callable[[], Model], against: Against
) -> Counterpart:
    """What the candidate answers when it reads as the baseline does; `reopen` gives the baseline's checkpoint.

    `theirs` is the baseline, or what its record says of it.
    """
    candidate = run.candidate
    changed = _changed(candidate, theirs)
    if candidate.precision == PRECOMPUTED or not changed:
        return Counterpart()
    known = theirs.tokenizer is not None or theirs.preprocessing is not None
    if isinstance(candidate, RereadingModel) or not known:
        try:
            other = reopen()
        except FairgateError as error:
            return _withheld(changed, error.problem, against) if known else _unknown(error, against)
        changed = _changed(candidate, other)
        if other.precision == PRECOMPUTED or not changed:
            return Counterpart()
        if isinstance(candidate, RereadingModel):
            return _judged_alike(run, candidate, other, changed, against)
    no_method = f"models of '{candidate.uri.partition(':')[0]}:' have no method `reading_as`"
    return _withheld(changed, no_method, against)


def _judged_alike(
    run: CandidateRun, candidate: RereadingModel, other: Model, changed: str, against: Against
) -> Counterpart:
    """What the candidate answers with what is `changed` as it is in the other checkpoint; of two changes, with each
    alone as well: weights can be made for one of them, and fail with the other's alone."""
    parts = changed.split(_AND)

    def answered(mixed: RereadingModel, parts: Sequence[str]) -> tuple[Scores, ...]:
        def views(number: int) -> Model:
            seen = cast(RereadingModel, run.viewed(candidate, number))
            return _reading_with(seen, run.viewed(other, number), parts)

        return run.score(mixed, views)

    try:
        mixed = _reading_with(candidate, other, parts)
        answers = {changed: answered(mixed, parts)}
        if candidate.embeds_alike(mixed):  # saved by another version of a library: the same tokens and tensors
            return Counterpart()
        if len(parts) > 1:
            answers |= {part: answered(_reading_with(candidate, other, [part]), [part]) for part in parts}
    except FairgateError as error:
        return _withheld(changed, error.problem, against)
    alone = ", with both and with each alone" if len(parts) > 1 else ""
    notice = (
        f"the {changed} {_verb(changed)} from the {against}'s: every check was also judged with the "
        f"{against}'s{alone}, and the stricter verdict counts. {_FORWARD}"
    )
    return Counterpart(answers, changed, notice=notice)


def _reading_with(candidate: RereadingModel, other: Model, parts: Sequence[str]) -> RereadingModel:
    pictures = "preprocessing" in parts
    return candidate.reading_as(other, tokenizer=len(parts) > pictures, preprocessing=pictures)


def _changed(candidate: Model, theirs: Model | ModelInfo) -> str:
    texts = getattr(candidate, "texts_read_by", "tokenizer")
    names = {"tokenizer": texts(theirs) if callable(texts) else texts, "preprocessing": "preprocessing"}
    return _AND.join(part for name, part in names.items() if getattr(candidate, name) != getattr(theirs, name))


def _verb(changed: str) -> str:
    return "differ" if _AND in changed or changed.endswith("s") else "differs"


def _withheld(changed: str, problem: str, against: Against) -> Counterpart:
    why = f"the {changed} {_verb(changed)} from the {against}'s, which this checkpoint could not be judged with"
    reason = problem.rstrip(".")
    return Counterpart(
        changed=changed,
        withheld=f"{why}: {reason}",
        notice=f"{why} ({reason}): comparisons with the {against} cannot pass. {_FORWARD}",
    )


def _unknown(error: FairgateError, against: Against) -> Counterpart:
    """A record from before there were such digests, of a checkpoint that is gone."""
    return Counterpart(
        notice=f"the {against}'s record does not say which tokenizer and preprocessing it was made with, and its "
        f"checkpoint is not to be had ({error.problem.rstrip('.')}): this checkpoint was judged with its own only. "
        "`fairgate baseline update SUITE --reason TEXT` records them"
    )


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
    return decided(alone, prepared.dataset.index, scored.answers[0])[0]
