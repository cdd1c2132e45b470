"""A bias of known strength, planted in a model's scores: one group's images are recognised and found less."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import expit, logit, logsumexp

from fairgate.data import Index
from fairgate.gate.selftest.columns import Columns, SuitePrompts
from fairgate.gate.selftest.target import Bools, Group
from fairgate.ground.randomness import stream
from fairgate.models import Floats
from fairgate.probes import Probe
from fairgate.suites import Suite, run_probes

NOISE: Final = 1e-4
"""Standard deviation of the innocent change, relative to a column's."""
_LEFT: Final = 1e-3
"""Share of P(true) that an image keeps whose P(true) is below the strength."""


def can_plant(probe: Probe, index: Index) -> bool:
    """Whether a bias can be planted in a probe's answers: it names the labels whose probability falls, or it ranks."""
    subjects = list(dict.fromkeys(index.subject.tolist()))
    return bool(probe.queries(subjects)) or (bool(probe.choices(subjects)) and probe.truths(index) is not None)


def planted(
    columns: Columns, suite: Suite, prompts: SuitePrompts, index: Index, group: Group, strength: float
) -> Columns:
    """The columns with `strength` taken from the group.

    In a classification, P(true label) (or P(positive label)) of each image falls by it; of two probes that share the
    prompt, one loses that much and none more. In a query, the probability that an image of the group ranks before one
    of another group falls by it, by a shift of the prompts that no classification uses, where there are any.
    """
    taken = _taken_from_labels(columns, suite, index, group, strength)
    shifted = columns.with_columns({prompt: columns.of[prompt] - delta for prompt, delta in taken.items()})
    if columns.probability:
        return shifted
    for query, subject in prompts.queries:
        free = [prompt for prompt in dict.fromkeys(query) if prompt not in prompts.labels]
        rows = np.ones(len(index), dtype=bool) if subject is None else index.subject == subject
        inside, outside = rows & group.rows, rows & ~group.rows
        if not free or not inside.any() or not outside.any():
            continue
        before, now = columns.query(query), shifted.query(query)
        target = max(_ranks_before(before[inside], before[outside]) - strength, 0.0)
        sunk = _shift_to(target, now[inside], now[outside]) * columns.scale * len(query) / len(free)
        shifted = shifted.with_columns({prompt: shifted.of[prompt] - sunk * inside for prompt in free})
    return shifted


def jittered(columns: Columns, suite: str) -> Columns:
    """The columns as an innocent change leaves them: moved by a ten-thousandth of their spread."""
    rng = stream(0, "doctor", suite)
    moved = {
        prompt: column + NOISE * column.std() * rng.standard_normal(len(column))
        for prompt, column in columns.of.items()
    }
    if columns.probability:
        moved = {prompt: np.minimum(column, 0.0) for prompt, column in moved.items()}
    return columns.with_columns(moved)


def losses(suite: Suite, index: Index, before: Columns, after: Columns, group: Group) -> dict[str, float]:
    """By probe, the group's mean loss in P(true), or in the probability of ranking before others (mean of queries).

    Probes in which nothing can be planted are left out.
    """
    then, now = run_probes(before, index, suite), run_probes(after, index, suite)
    lost_by_probe: dict[str, list[float]] = {}
    for name, scores in then.items():
        probe = name.partition("[")[0]
        kind = suite.probes[probe]
        if not can_plant(kind, index):
            continue
        if kind.compared_as != "ranking":
            lost = [float((scores.value - now[name].value)[group.rows].mean())]
        else:
            galleries = [np.ones(len(index), dtype=bool)]
            if not kind.ranked_words:
                galleries = [index.subject == subject for subject in dict.fromkeys(index.subject.tolist())]
            lost = [_sunk(scores.value, now[name].value, rows, group.rows) for rows in galleries]
        lost_by_probe.setdefault(probe, []).extend(lost)
    return {probe: float(np.mean(lost)) for probe, lost in lost_by_probe.items()}


def _taken_from_labels(
    columns: Columns, suite: Suite, index: Index, group: Group, strength: float
) -> dict[str, Floats]:
    """By prompt, what the true label's logit must lose for P(true) to fall by the strength."""
    taken: dict[str, Floats] = {}
    subjects = list(dict.fromkeys(index.subject.tolist()))
    for truths, choices in ((probe.truths(index), probe.choices(subjects)) for probe in suite.probes.values()):
        for choice in [] if truths is None else choices:
            logits = np.stack([columns.of[prompt] for prompt in choice.prompts.values()], axis=1)
            rows = group.rows & (index.subject == choice.subject)
            for place, (label, prompt) in enumerate(choice.prompts.items()):
                here = rows & (truths == label)
                if not here.any():
                    continue
                odds = logits[here, place] - logsumexp(np.delete(logits[here], place, axis=1), axis=1)
                p = expit(odds)
                after = np.maximum(p - strength, np.maximum(_LEFT * p, np.finfo(np.float64).tiny))
                least = taken.setdefault(prompt, np.full(len(index), np.inf))
                least[here] = np.minimum(least[here], odds - logit(after))
    return {prompt: np.where(np.isfinite(delta), delta, 0.0) for prompt, delta in taken.items()}


def _ranks_before(inside: Floats, outside: Floats) -> float:
    """Probability that one of `inside` ranks before one of `outside`, equals counted half."""
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, "left") + np.searchsorted(ordered, inside, "right")
    return float(below.mean()) / (2 * len(outside))


def _shift_to(target: float, inside: Floats, outside: Floats) -> float:
    """The smallest shift down (up, where negative) of `inside` after which it ranks first as rarely as the target."""
    low, high = float(inside.min() - outside.max()) - 1e-9, float(inside.max() - outside.min()) + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _ranks_before(inside - middle, outside) <= target else (middle, high)
    return high


def _sunk(before: Floats, after: Floats, rows: Bools, group: Bools) -> float:
    inside, outside = rows & group, rows & ~group
    if not inside.any() or not outside.any():
        return 0.0
    return _ranks_before(before[inside], before[outside]) - _ranks_before(after[inside], after[outside])
