"""A saved record that a change edits: recomputed from its checkpoint, or left for somebody to approve."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairgate import reports
from fairgate.gate.approvals import record_approval
from fairgate.gate.baselines import record_in_folder, require_own_scores
from fairgate.gate.model_runs import CandidateRun, Progress, dataset_info, model_info, open_model, packages
from fairgate.gate.preparation import Prepared, require_intact
from fairgate.gate.reading import Scores
from fairgate.gate.reproduction import (
    differences,
    other_environment,
    require_reproduced,
    unlike,
    wrong_entropies,
)
from fairgate.ground.errors import BaselineError, FairgateError, NoVerdict
from fairgate.models import Model, local_paths
from fairgate.models.checkpoints import judging
from fairgate.probes import ProbeScores, read_scores, scores_digest
from fairgate.records import NeededApproval, RunRecord
from fairgate.suites import Settings, leaves, probe_digests
from fairgate.tracking import environment


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What came of an edited record: what has to be approved, what a reviewer sees, what the terminal prints."""

    weighed: tuple[NeededApproval, ...] = ()
    notices: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def recompute(folder: str, run: CandidateRun) -> Recomputed:
    """Recompute the record in a folder of the repository, which this change edits.

    A record of the candidate itself costs nothing more. Raises BaselineError for a record that its checkpoint does not
    give in the same environment.
    """
    started = time.monotonic()
    try:
        record, scores = _read(folder, run.prepared)
        model, now = _answers(record, run)
    except FairgateError as error:
        return Recomputed(
            weighed=(record_approval(folder, run.prepared, f"could not be recomputed: {error.problem.rstrip('.')}"),)
        )
    seconds = time.monotonic() - started
    own = model is run.candidate
    how = "this run's own scores" if own else f"its checkpoint, scored again in {seconds:.1f} s"
    difference = held_against(record, scores, model, now, run, folder)
    notices = (
        [f"{folder} was made in another environment ({difference.elsewhere}), and differs: {difference.text}"]
        if difference
        else []
    )
    if difference and difference.moved:
        what = f"differs from what its checkpoint answers here by more than rounding: {difference.text}"
        return Recomputed((record_approval(folder, run.prepared, what),), tuple(notices))
    claimed, here = record.environment.plugins or {}, packages(run.prepared, run.settings)
    if claimed != here:
        named = sorted(name for name in {*claimed, *here} if claimed.get(name) != here.get(name))
        what = f"says that other code took part than here: {', '.join(named)}"
        return Recomputed((record_approval(folder, run.prepared, what),), tuple(notices))
    return Recomputed((), tuple(notices), (f"the edited record in {folder} was compared with {how}: it reproduces",))


def verify_record(folder: str, prepared: Prepared, settings: Settings, progress: Progress | None = None) -> str:
    """Recompute a committed record from the checkpoint that it names; how it compares, in a sentence.

    Raises BaselineError for a record that its checkpoint does not give, NoVerdict for one that cannot be recomputed.
    """
    started, root = time.monotonic(), prepared.root
    require_intact(prepared.dataset, settings, root, progress)
    try:
        record, scores = _read(folder, prepared)
        with judging(root):
            model = open_model(settings.model, prepared, settings, progress)
        run = CandidateRun(replace(prepared, others=()), settings, progress, model)
        if record.model.fingerprint != model.fingerprint:
            raise BaselineError(f"'{settings.model}' is not the checkpoint that the record names any more.")
    except FairgateError as error:
        raise NoVerdict(
            f"the record could not be recomputed: {error.problem}",
            where=folder,
            remedy=error.remedy or f"make it again: `fairgate baseline update {prepared.loaded.name} --reason TEXT`",
        ) from error
    apart = held_against(record, scores, model, run.scores[0], run, folder)
    if apart is not None and apart.moved:
        raise BaselineError(
            f"the record is not what its checkpoint answers here: {apart.text} ({apart.elsewhere}).",
            where=folder,
            remedy="make it again on the machine that judges: `fairgate baseline update SUITE --reason TEXT`",
        )
    largest = differences(scores, run.scores[0], prepared.dataset.index).largest
    other = f", in another environment ({apart.elsewhere})" if apart is not None else ""
    return f"it reproduces{other}: largest difference {largest:.1e}, {time.monotonic() - started:.1f} s"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A record of another environment that differs: why it is another one, how it differs, and whether by more than
    another environment explains."""

    elsewhere: str
    text: str
    moved: bool


def held_against(
    record: RunRecord, then: Mapping[str, ProbeScores], model: Model, now: Scores, run: CandidateRun, where: str
) -> Elsewhere | None:
    """How a record differs from what its checkpoint answers here, None if only by rounding.

    Raises BaselineError if it does in the same environment, or claims what is not so.
    """
    info, prepared = model_info(record.model.uri, model), run.prepared
    subjects = {check.subject for check in prepared.planned if check.subject is not None}
    claims = unlike(record, info, dataset_info(prepared.dataset), probe_digests(prepared.loaded.suite), subjects)
    claims += ["scores"] if then.keys() != now.keys() else []
    if claims:
        raise BaselineError(
            f"the record claims what is not so, or lacks it since an older fairgate made it: {', '.join(claims)}.",
            where=where,
            remedy="make it again on a clean checkout: `fairgate baseline update SUITE --reason TEXT`",
        )
    apart, entropies = differences(then, now, prepared.dataset.index), wrong_entropies(record, now)
    if not apart.beyond and not entropies:
        return None
    reasons = other_environment(record, environment(prepared.root, model.device), info)
    wrong = (f"the mean answer entropies of {', '.join(entropies)} are others",) if entropies else ()
    require_reproduced((*apart.beyond, *wrong), reasons, where)
    return Elsewhere(reasons[0], "; ".join([*apart.moved, *wrong, *apart.beyond][:3]), bool(apart.moved or wrong))


def _read(folder: str, prepared: Prepared) -> tuple[RunRecord, dict[str, ProbeScores]]:
    """The record and its scores. Raises a FairgateError for what is missing, broken, or of another dataset or suite."""
    files = record_in_folder(folder, prepared.root)
    record = reports.read_results(files.results)
    if record.model.served is not None:
        raise BaselineError(
            "a server gave its answers, and nothing binds them to weights.",
            remedy="have somebody review the record",
        )
    data, probes = dataset_info(prepared.dataset), probe_digests(prepared.loaded.suite)
    if record.dataset.fingerprint != data.fingerprint:
        raise BaselineError(f"it was made on {record.dataset.name}/{record.dataset.version}, which is not judged here.")
    if record.probes != probes:
        raise BaselineError("it was made with other probes than those of this suite.")
    scores = read_scores(files.scores, prepared.dataset.index)
    require_own_scores(record, scores_digest(scores), folder)
    return record, scores


def _answers(record: RunRecord, run: CandidateRun) -> tuple[Model, Scores]:
    """The checkpoint that a record names, and its scores. Raises a FairgateError if it is not at hand."""
    if record.model.fingerprint == run.candidate.fingerprint:
        return run.candidate, run.scores[0]
    root, uri = run.prepared.root, record.model.uri
    if any(leaves(path, root) for path in local_paths(uri)):
        raise BaselineError("its checkpoint is a file outside of the repository.")
    with judging(root):
        model = run.open(uri, root)
    if model.fingerprint != record.model.fingerprint:
        raise BaselineError(
            f"'{uri}' is checkpoint {model.fingerprint[:12]}, and the record names {record.model.fingerprint[:12]}."
        )
    return model, run.score_checkpoint(model)[0]
