"""Whether a saved record is what its checkpoint answers: recomputed scores count, and a record that differs is refused.

Whoever writes a record can write any number into it. A record is believed as far as somebody recomputed it: the run
that brings it (from the checkpoint that it names), and every run that scores that checkpoint for another reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairgate.gate.baselines import environment_warnings
from fairgate.gate.reading import Scores
from fairgate.ground.errors import BaselineError, clean
from fairgate.metrics import GroupedRows
from fairgate.probes import ProbeScores, further_numbers, mean_entropies
from fairgate.records import DatasetInfo, Environment, ModelInfo, RunRecord

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
            apart = _apart(before, after)
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


def _apart(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Absolute differences; infinite if only one of two numbers is missing."""
    both = np.isnan(before) & np.isnan(after)
    return np.where(both, 0.0, np.nan_to_num(np.abs(before - after), nan=np.inf, posinf=np.inf))


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
