"""Right-or-wrong answers of few images: false verdicts of the exact tests, what they see, and rules that are no use.

All groups lie on the margin. Groups have images of their own, or share sets: *alike* (answers turn together), or
*apart* (right answers are won in the same sets and lost in different ones; for false passes the other way round).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, ndtri

from benchmarks._calibration_rows import Cell, Row
from fairgate.formulas.statistics import Resamples
from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.answers import p_lost_less, p_lost_more
from fairgate.formulas.statistics.family import RESERVE, adjusted
from fairgate.formulas.statistics.moments import SPARSE_ANSWERS
from fairgate.ground.randomness import stream

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TEST, ALPHA, DRAWS, SHARED, CHECKED = "answers", 0.05, 500, 50, 5
SIZES = ((2, 126), (7, 36), (14, 50), (8, 300))
MARGINS = (0.0, 0.02, 0.05)
TURNING = {"2%": 0.02, "5%": 0.05, "10%": 0.1, "20%": 0.2, "2% to 20%": None}
LAYOUTS = ("images", "sets, alike", "sets, apart")
LOSSES = {36: (0.15, 0.25), 50: (0.1, 0.15), 126: (0.08, 0.12), 300: (0.04, 0.06)}
BEFORE = "Holm with reserve (before)"
IDENTICAL = "passes, for no answer turned"
TARONE, SHARING, CONDITIONAL, FLIPS = "Tarone", "given turned, p unconditional", "given turned", "joint sign flips"


def cells() -> list[Cell]:
    """Cells of false verdicts; those whose groups are resampled (24 answers turn) at one margin alone."""
    return [
        Cell(TEST, f"{layout}, {turning} turn", f"at a margin of {margin:g}", sets, groups)
        for groups, sets in SIZES
        for turning in TURNING
        for layout in LAYOUTS
        for margin in MARGINS
        if not resampled(sets, turning) or (margin == 0.02 and layout != "sets, apart")
    ]


def runs_of(cell: Cell) -> int:
    """More runs where a family has the chance of its turned answers: its rate is nearest to alpha."""
    return 10_000 if cell.shape.startswith("images") and cell.truth.endswith(" 0") else 2000


def losses() -> list[Cell]:
    """Cells of planted losses."""
    return [
        Cell(TEST, f"images, {turning} turn", f"at a margin of {margin:g}", sets, groups)
        for groups, sets in SIZES
        for turning in ("2%", "5%")
        for margin in MARGINS
    ]


def resampled(sets: int, turning: str) -> bool:
    """Whether 24 answers of a group often turn."""
    return sets * (TURNING[turning] or 0.2) > SPARSE_ANSWERS / 2 and sets > 50


def rows(cell: Cell, runs: int) -> Iterator[Row]:
    """False fails and false passes, of fairgate and of the rules that are not adopted."""
    layout, turning, margin = _parts(cell)
    for more, what in ((True, "false fail"), (False, "false pass")):
        rng = stream(0, "answers", *(str(part) for part in astuple(cell)), what)
        counts: dict[str, list[int]] = {}
        for start in range(0, runs, SHARED):
            changes = _changes(rng, layout, cell, *_shares(turning, margin, cell.groups), SHARED, mirrored=not more)
            verdicts = _verdicts(changes, layout, margin, more, rng, check=start == 0)
            for rule, rejects in verdicts.items():
                counts.setdefault(rule, []).append(int(rejects.sum()))
        for rule, rejected in counts.items():
            yield Row(*astuple(cell), rule, what, SHARED * len(rejected), sum(rejected))


def loss_rows(cell: Cell, runs: int) -> Iterator[Row]:
    """How often a group that loses answers fails, now and before, on the same runs."""
    layout, turning, margin = _parts(cell)
    for loss in LOSSES[cell.sets]:
        rng = stream(0, "answers lost", *(str(part) for part in astuple(cell)), str(loss))
        seen = before = 0
        share = _turning(turning, cell.groups) / 2
        lost = share + loss * (np.arange(cell.groups) == 0)
        for change in _changes(rng, layout, cell, lost, share, runs):
            evidence = mean_evidence(_table(change, layout), alpha=ALPHA, draws=DRAWS, rng=rng)
            seen += int(adjusted([(evidence, evidence.under, -margin)])[0][0] <= ALPHA)
            p = ndtr(-evidence.under.z(-margin))
            order = np.argsort(p)
            holm = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))[np.flatnonzero(order == 0)[0]]
            before += int(holm / (1 - RESERVE) <= ALPHA)
        yield Row(*astuple(cell), "fairgate", f"seen at a loss of {loss:g}", runs, seen)
        yield Row(*astuple(cell), BEFORE, f"seen at a loss of {loss:g}", runs, before)


def _parts(cell: Cell) -> tuple[str, str, float]:
    layout, turning = cell.shape.removesuffix(" turn").rsplit(", ", 1)
    return layout, turning, float(cell.truth.rsplit(" ", 1)[1])


def _turning(turning: str, groups: int) -> Floats:
    share = TURNING[turning]
    return np.geomspace(0.02, 0.2, groups) if share is None else np.full(groups, share)


def _shares(turning: str, margin: float, groups: int) -> tuple[Floats, Floats]:
    """Shares of answers lost and won (groups,) on the margin."""
    turned = np.maximum(_turning(turning, groups), margin)
    return (turned + margin) / 2, (turned - margin) / 2


def _changes(
    rng: np.random.Generator, layout: str, cell: Cell, lost: Floats, won: Floats, runs: int, *, mirrored: bool = False
) -> NDArray[np.int8]:
    """Changes -1, 0, 1 of answers (runs, sets, groups); `mirrored`: sets apart lose together and win apart."""
    shape = (runs, cell.sets, cell.groups)
    if layout == "sets, apart":
        together, apart = (lost, won) if mirrored else (won, lost)
        at, room = rng.random(shape[:2])[..., None], 1 - together.max()
        first = (at > room) & (at > 1 - together)
        second = (at < room) & ((at - np.cumsum(apart) + apart) % room < apart)
        return (second.astype(np.int8) - first) if mirrored else (first.astype(np.int8) - second)
    alike = 0.8 if layout == "sets, alike" else 0.0
    at = np.sqrt(alike) * rng.normal(size=(*shape[:2], 1)) + np.sqrt(1 - alike) * rng.normal(size=shape)
    return (at > -ndtri(won)).astype(np.int8) - (at < ndtri(lost))


def _table(change: NDArray[np.int8], layout: str) -> Floats:
    """Differences as the test takes them: images of one group each are rows of their own."""
    if layout != "images":
        return change.astype(np.float64)
    sets, groups = change.shape
    table = np.full((groups, sets, groups), np.nan)
    table[np.arange(groups), :, np.arange(groups)] = change.T
    return table.reshape(-1, groups)


def _verdicts(
    changes: NDArray[np.int8], layout: str, margin: float, more: bool, rng: np.random.Generator, *, check: bool
) -> dict[str, NDArray[np.bool_]]:
    """Whether any group is rejected (runs,), by rule. Only the clearest group matters.

    The first runs, and those with resampled groups, are decided by the public code.
    """
    sets, groups = changes.shape[1:]
    lost, won = (changes < 0).sum(axis=1), (changes > 0).sum(axis=1)
    turned = lost + won
    dense = (turned >= SPARSE_ANSWERS).any(axis=1)
    small = np.minimum(turned, SPARSE_ANSWERS)
    reached = _attained(sets, margin, more)
    other = np.minimum(won if more else lost, small)
    alone = reached[small, other]
    p = alone.min(axis=1)
    within = (reached[small] <= p[:, None, None]).sum(axis=2)  # outcomes of each group with such a p
    given = np.where(within > 0, bdtr(within - 1.0, small, 0.5), 0.0)
    mixed = given.sum(axis=1) - np.where(alone == p[:, None], given, 1.0).min(axis=1) + p
    fairgate = (mixed if layout == "images" and margin == 0 else groups * p) <= ALPHA
    still = ~turned.any(axis=1)  # identical runs pass by definition: counted by themselves
    decided = np.flatnonzero(dense)
    resamples = Resamples(sets * (groups if layout == "images" else 1), DRAWS, rng) if decided.size else rng
    for run in {*decided.tolist(), *(range(CHECKED) if check else ())}:
        evidence = mean_evidence(_table(changes[run], layout), alpha=ALPHA, draws=DRAWS, rng=resamples)
        rejected = (adjusted([(evidence, evidence.under if more else evidence.over, -margin)])[0] <= ALPHA).any()
        assert dense[run] or still[run] or rejected == fairgate[run]
        fairgate[run] = rejected if dense[run] else fairgate[run]
    rules = {"fairgate": fairgate} if more else {"fairgate": fairgate, IDENTICAL: still}
    if not dense.any():
        rules[TARONE] = (within > 0).sum(axis=1) * p <= ALPHA
        if margin == 0 and layout != "images":
            rules |= {SHARING: mixed <= ALPHA, CONDITIONAL: given.sum(axis=1) <= ALPHA}
            rules[FLIPS] = _flips(changes if more else -changes, rng)
    return rules


def _flips(changes: NDArray[np.int8], rng: np.random.Generator, flips: int = 199) -> NDArray[np.bool_]:
    """Whether the largest of (lost - won) / sqrt(turned) is among the 5% largest if every set's signs are flipped."""
    rejected = np.zeros(len(changes), dtype=bool)
    for run, change in enumerate(changes):
        scaled = change / np.sqrt(np.maximum(np.abs(change).sum(axis=0), 1))
        largest = (rng.choice([-1.0, 1.0], (flips, len(change))) @ scaled).max(axis=1)
        rejected[run] = 1 + (largest >= -scaled.sum(axis=0).min() - 1e-9).sum() <= ALPHA * (flips + 1)
    return rejected


@lru_cache(maxsize=64)
def _attained(images: int, margin: float, more: bool) -> Floats:
    """p (turned, against) of every outcome with so many answers against the direction; 2 where there is none."""
    table = np.full((SPARSE_ANSWERS + 1, SPARSE_ANSWERS + 1), 2.0)
    for turned in range(SPARSE_ANSWERS + 1):
        for against in range(turned + 1):
            lost, won = (turned - against, against) if more else (against, turned - against)
            table[turned, against] = (p_lost_more if more else p_lost_less)(lost, won, images, margin)
    return table
