"""Whether a saved record is what its checkpoint answers: recomputed scores count, and a record that differs is refused.

Whoever writes a record can write any number into it. A record is believed as far as somebody recomputed it: the run
that brings it (from the checkpoint that it names), and every run that scores that checkpoint for another reason.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairgate import reports
from fairgate.gate.approvals import record_approval
from fairgate.gate.baselines import environment_warnings, record_in_folder, require_own_scores
from fairgate.gate.model_runs import CandidateRun, Progress, dataset_info, model_info, open_model, packages
from fairgate.gate.preparation import Prepared, require_intact
from fairgate.gate.reading import Scores
from fairgate.ground.errors import BaselineError, FairgateError, NoVerdict, clean
from fairgate.metrics import GroupedRows
from fairgate.models import Model, local_paths
from fairgate.models.checkpoints import judging
from fairgate.probes import ProbeScores, further_numbers, mean_entropies, read_scores, scores_digest
from fairgate.records import DatasetInfo, Environment, ModelInfo, NeededApproval, RunRecord
from fairgate.suites import Settings, leaves, probe_digests
from fairgate.tracking import environment

BOUND = 1e-3
"""The largest difference of one number, relative to the largest of its kind and at least 1, that float32 explains.

A forward pass adds about 1e5 products along its longest path, each rounded by 6e-8: about 2e-5 of a cosine by a random
walk. A logit scale of 100 makes that 2e-3 of a logit, and a softmax at most a quarter of it: 5e-4 of a probability.
"""
SHIFT = 5e-3
"""How far the numbers of a group may move on average, up or down, in another environment (GPU, precision, library),
whose rounding is not known: half of the smallest margin that the suites of this package have. Numbers that change
places in a group leave its mean, and are another spread within sets. On the tests' tiny CLIPs, torch's autocast to
bfloat16 on a CPU moves them by at most 0.0017; a GPU was not measured."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Differences:
    """How recomputed scores differ from a record's, in sentences, largest first.

    `beyond` is what the arithmetic of one environment does not explain, `moved` is what that of no environment does
    (other columns, groups whose numbers move), and `largest` is the largest difference of a number.
    """

    beyond: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    largest: float = 0.0


def differences(then: Mapping[str, ProbeScores], now: Mapping[str, ProbeScores], rows: GroupedRows) -> Differences:
    """Compare a record's scores with recomputed ones, probe by probe; only probes that both have are compared."""
    beyond, moved = list[tuple[float, str]](), list[tuple[float, str]]()
    largest = 0.0
    for name in (name for name in now if name in then):
        if then[name].more.keys() != further_numbers(now[name].more).keys():
            beyond.append((np.inf, f"{name}: the columns are {', '.join(then[name].more) or 'none'}"))
            moved.append(beyond[-1])
            continue
        more = ((key, then[name].more[key], now[name].more[key]) for key in then[name].more)
        for what, before, after in (("value", then[name].value, now[name].value), *more):
            scale = max(1.0, float(np.nanmax(np.abs(after), initial=0.0)))
            both = np.isnan(before) & np.isnan(after)
            apart = np.where(both, 0.0, np.nan_to_num(np.abs(before - after), nan=np.inf, posinf=np.inf))
            worst = int(np.argmax(apart))
            largest = max(largest, float(apart[worst]))
            if apart[worst] > BOUND * scale:
                image = f"{rows.set_id[worst]}/{rows.member[worst]}"
                text = f"{name}: {what} of {image} is {before[worst]:.4f} in the record, {after[worst]:.4f} recomputed"
                beyond.append((float(apart[worst] / scale), text))
            moved += _moved(f"{name}: {what}", before, after, scale, rows)
        if flipped := _flipped(then[name], now[name]):
            share = f"{flipped:,} of {len(rows.set_id):,} answers are others, and not by rounding"
            beyond.append((1.0, f"{name}: {share}"))
            if flipped > SHIFT * len(rows.set_id):
                moved.append((1.0, f"{name}: {share}"))
    return Differences(_sentences(beyond), _sentences(moved), largest)


def unlike(
    record: RunRecord, model: ModelInfo, data: DatasetInfo, probes: Mapping[str, str], subjects: set[str]
) -> list[str]:
    """What a record claims besides its scores, reaches later verdicts, and is not so: names of its fields.

    Of its checks that is which subjects they judge. A suite may have more checks by now than when it was made.
    """
    claimed = {
        **{f"model.{name}": (getattr(record.model, name), getattr(model, name)) for name in _READ},
        **{f"dataset.{name}": (getattr(record.dataset, name), getattr(data, name)) for name in _SHOWS},
        "probes": (record.probes, dict(probes)),
    }
    lacking = subjects - {check.subject for check in record.checks}
    return [name for name, (then, now) in claimed.items() if then != now] + (["checks"] if lacking else [])


_READ = ("fingerprint", "tokenizer", "preprocessing", "preparation")
_SHOWS = ("name", "version", "fingerprint", "counterfactual", "attributes")


def wrong_entropies(record: RunRecord, now: Scores) -> list[str]:
    """Probes whose mean answer entropies are not the recomputed ones, which decide the temperature of comparisons."""
    wrong = []
    for name, scores in now.items():
        mine = mean_entropies(scores) if scores.contests else {}
        theirs = record.answer_entropy.get(name, {})
        apart = [abs(value - theirs.get(subject, np.inf)) for subject, value in mine.items()]
        if mine.keys() != theirs.keys() or any(distance > 10 * BOUND for distance in apart):
            wrong.append(name)
    return wrong


def other_environment(record: RunRecord, here: Environment, model: ModelInfo) -> list[str]:
    """Why rounding may differ more than in one environment: other devices, precisions, versions, processors."""
    reasons = environment_warnings("record", (here, model.precision), (record.environment, record.model.precision))
    if (record.environment.processor or "unknown") != (here.processor or "unknown"):
        reasons.append(
            f"it was made on another processor ({clean(record.environment.processor or 'not recorded', 80)})"
        )
    return reasons


def require_reproduced(beyond: Sequence[str], elsewhere: Sequence[str], where: str) -> None:
    """Raise BaselineError for a record that its own checkpoint does not give in the same environment."""
    if beyond and not elsewhere:
        raise BaselineError(
            f"the record is not what its checkpoint answers: {'; '.join(beyond)}.",
            where=where,
            remedy="make it again on a clean checkout: `fairgate baseline update SUITE --reason TEXT`",
        )


def _flipped(then: ProbeScores, now: ProbeScores) -> int:
    """Images whose answer, truth or rank is another one although rounding does not explain it."""
    flipped, clear = np.zeros(len(now.value), dtype=bool), _clear(now)
    for before, after in ((then.predicted, now.predicted), (then.correct, now.correct), (then.truth, now.truth)):
        if (before is None) != (after is None):
            return len(now.value)
        if before is not None and after is not None:
            flipped |= clear & (np.asarray(before).astype(str) != np.asarray(after).astype(str))
    ranks = 0
    if then.rank is not None and now.rank is not None:  # two queries may be equally near but for rounding, rarely
        ranks = int((then.rank != now.rank).sum())
    return max(int(flipped.sum()), ranks if ranks > max(1, len(now.value) // 1000) else 0)


def _clear(now: ProbeScores) -> NDArray[np.bool_]:
    """Images whose most probable label leads by more than rounding; all of them if no probabilities are known."""
    clear = np.ones(len(now.value), dtype=bool)
    for contest in now.contests:
        if contest.log_p.shape[1] > 1:
            top = np.sort(np.exp(contest.log_p), axis=1)
            clear[contest.rows] = top[:, -1] - top[:, -2] > 2 * BOUND
    return clear


def _moved(
    what: str, before: NDArray[np.float64], after: NDArray[np.float64], scale: float, rows: GroupedRows
) -> list[tuple[float, str]]:
    """Groups (of one attribute, and of all crossed) whose numbers are further from the record's than `SHIFT`."""
    names, by_size = list(rows.attributes), list[tuple[float, str]]()
    change = np.abs(np.nan_to_num(after) - np.nan_to_num(before))
    change[np.isnan(before) != np.isnan(after)] = np.inf
    for attributes in [*names, names] if len(names) > 1 else names:
        codes, groups = rows.codes(attributes)
        for code, group in enumerate(groups):
            apart = float(change[codes == code].mean()) if (codes == code).any() else 0.0
            if apart > SHIFT * scale:
                by_size.append((apart / scale, f"{what} of {group} moves by {apart:.4f} on average"))
    return by_size


def _sentences(by_size: list[tuple[float, str]]) -> tuple[str, ...]:
    ordered = [clean(text, 300) for _, text in sorted(by_size, key=lambda entry: -entry[0])]
    more = len(ordered) - _SHOWN
    return (*ordered[:_SHOWN], f"and {more} more") if more > 0 else tuple(ordered)


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
