"""Which checks of a suite can be decided on its images: a harmless change has to pass them, and a loss has to fail.

Harmless changes are simulated: the images are drawn again with replacement, group by group, and two of the measured
changes are candidate and baseline. So no group moves on average, and the spread between the changes counts, also that
of their effects on a group. Every simulated run is decided by the gate's own rules. `many_images` draws no images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fairgate import gate
from fairgate.data import Dataset, Index
from fairgate.formulas.statistics import Resamples
from fairgate.ground.randomness import stream
from fairgate.metrics import METRICS
from fairgate.probes import taken_rows
from fairgate.records import WANTED_PASSES, Against, CheckResult, GroupResult
from fairgate.studies.power.harmless import Change, Scores, harm_of, moved, taken
from fairgate.studies.power.losses import lose
from fairgate.suites import Check, PlannedCheck, Suite, decide

RUNS, LOSS_RUNS, MISSED = 200, 60, 0.07
LOSSES = (0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.10, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
MOST_GROUPS = 12  # losses are simulated in the smallest of more groups
_DRAWS, _HOPELESS, _NO_LIMIT = 1000, 1e7, 1e9
_STOPS = {24: 0, 40: 1}  # after so many runs so few misses do: all LOSS_RUNS say otherwise in 2.9% of cases at most


@dataclass(frozen=True, slots=True)
class CheckOutlook:
    """What a check can decide here: how often it passes a harmless change, the smallest loss of a group that it fails
    nine times in ten (None: none was tried; infinite: none that was tried), how many units of each group, or in all if
    it has no groups, it needs to pass (None: it passes, or no number helps), and the margin at which those that are
    there pass (None: it has none)."""

    id: str
    decides: bool
    passes: float
    loss: float | None
    needed: int | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Every check's, in the order of the suite, and how often all that decide pass a harmless change together, of so
    many simulated runs; `units` of the largest group of a check are there, `fewest` of the smallest, and `groups`
    (attribute, group), the smallest first."""

    checks: tuple[CheckOutlook, ...]
    together: float
    unit: str
    units: int
    fewest: int
    runs: int
    groups: tuple[tuple[str, str], ...]

    def of(self, id_: str) -> CheckOutlook:
        """A check's."""
        return next(check for check in self.checks if check.id == id_)


class Simulation:
    """Runs of a suite on images that are drawn again, with harmless changes and losses; or, if it is `approximate`, on
    all images with harmless changes whose numbers are moved."""

    def __init__(
        self,
        prepared: gate.Prepared,
        changes: Sequence[Change],
        progress: gate.Progress | None = None,
        *,
        approximate: bool = False,
    ) -> None:
        self._prepared, self._changes, self._progress = prepared, changes, progress
        self._approximate = approximate
        index = prepared.dataset.index
        _, self._set = np.unique(index.set_id, return_inverse=True)
        keys = zip(index.subject.tolist(), *(column.tolist() for column in index.attributes.values()), strict=True)
        of_set: dict[int, set[tuple[Any, ...]]] = {}
        for code, key in zip(self._set.tolist(), keys, strict=True):
            of_set.setdefault(code, set()).add(key)
        strata: dict[frozenset[tuple[Any, ...]], list[int]] = {}
        for code, members in of_set.items():
            strata.setdefault(frozenset(members), []).append(code)
        self._strata = [np.array(codes) for codes in strata.values()]
        order = np.argsort(self._set, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(self._set))[:-1])
        self._tempered: dict[tuple[int, int], Scores] = {}
        self._resamples: dict[str | None, Resamples] = {}

    def _at(self, at: int, other: int) -> Scores:
        """A change's answers at the label temperature of another."""
        if (at, other) not in self._tempered:
            new, old = (self._changes[place].scores for place in (at, other))
            self._tempered[at, other] = gate.at_temperature_of(old, self._prepared.planned, new)
        return self._tempered[at, other]

    @property
    def data(self) -> Dataset:
        """Whose images are drawn again."""
        return self._prepared.dataset

    @property
    def in_sets(self) -> bool:
        """Whether images form sets."""
        return len(self._rows) < len(self._set)

    @property
    def loses(self) -> bool:
        """Whether a loss can be simulated: not in answers to questions alone, and not if no image is drawn."""
        answered = self._changes[0].scores.values()
        return not self._approximate and any("abstained" not in scores.more for scores in answered)

    def runs(self, suite: Suite, runs: int, loss: tuple[str, str, float] | None = None) -> Iterator[list[CheckResult]]:
        """The results of every run; with a `loss`, (attribute, group, size), that group of the candidate loses it."""
        rng = stream(0, "harmless", *map(str, loss or ()))
        what = "step 2 of 3: simulated runs with a harmless change"
        if loss is not None:
            size = f"{loss[2]:.2f} ({1 + LOSSES.index(loss[2])} of at most {len(LOSSES)} losses)"
            what = f"step 3 of 3: simulated runs in which '{loss[1]}' loses {size}"
        if self._approximate:
            of_all = list(self._on_all_images(suite))
            yield from ([moved(check, suite, rng) for check in of_all[run % len(of_all)]] for run in range(runs))
            return
        for run in range(runs):
            drawn = np.concatenate([rng.choice(codes, len(codes)) for codes in self._strata])
            rows = np.concatenate([self._rows[code] for code in drawn])
            names = np.repeat(np.arange(len(drawn)), [len(self._rows[code]) for code in drawn]).astype(str)
            seen = taken_rows(self.data.index, rows, names)
            compared = rng.choice(len(self._changes), 1 + len(self._against(suite)), replace=False).tolist()
            yield self._run(suite, rows, seen, compared, rng, loss)
            if self._progress is not None:
                self._progress(what, run + 1, runs)

    def _against(self, suite: Suite) -> list[Against]:
        planned = replanned(self._prepared.planned, suite)
        return ["baseline", "anchor"] if any(check.against == "anchor" for check in planned) else ["baseline"]

    def _on_all_images(self, suite: Suite) -> Iterator[list[CheckResult]]:
        """Every change, compared with the one or two that follow it in a circle."""
        rows, count, rng = np.arange(len(self.data.index)), len(self._changes), stream(0, "harmless")
        for at in range(count):
            compared = [(at + step) % count for step in range(1 + len(self._against(suite)))]
            yield self._run(suite, rows, self.data.index, compared, rng, None)
            if self._progress is not None:
                self._progress("step 2 of 3: decisions about a harmless change", at + 1, count)

    def _run(
        self,
        suite: Suite,
        rows: NDArray[np.int64],
        seen: Index,
        compared: Sequence[int],
        rng: np.random.Generator,
        loss: tuple[str, str, float] | None,
    ) -> list[CheckResult]:
        """A decision about some rows, whose index is `seen`: of the first of the changes against the others."""
        planned, against = replanned(self._prepared.planned, suite), self._against(suite)
        at, *places = compared
        others = {side: _of(self._changes[place].scores, rows) for side, place in zip(against, places, strict=True)}
        candidate = _of(self._changes[at].scores, rows)
        tempered = {side: _of(self._at(at, place), rows) for side, place in zip(against, places, strict=True)}
        if loss is not None:
            attribute, group, size = loss
            inside = seen.attributes[attribute] == group
            candidate, *lost = (
                {name: lose(scores, inside, size, rng) for name, scores in answers.items()}
                for answers in (candidate, *tempered.values())
            )
            tempered = dict(zip(against, lost, strict=True))
        more: dict[str, Any] = {"intervals": False, "resamples": self._resamples}
        return decide(planned, seen, suite, candidate, others, self._prepared.null, tempered, **more)


def _of(scores: Scores, rows: NDArray[np.int64]) -> Scores:
    return {name: taken(answers, rows) for name, answers in scores.items()}


def replanned(planned: Sequence[PlannedCheck], suite: Suite) -> list[PlannedCheck]:
    """The planned checks that the suite has, with its own margins and tiers."""
    own = {check.id: check for check in suite.checks}
    return [replace(each, check=own[each.check.id]) for each in planned if each.check.id in own]


def outlook(simulation: Simulation, suite: Suite, *, choose: bool = True) -> Outlook:
    """Which checks decide here, chosen so that all pass a harmless change together `WANTED_PASSES` of the time; without
    `choose`, those of the gate's tier, however often they pass."""
    runs = list(simulation.runs(_short(suite), RUNS))
    ids = [check.id for check in suite.checks]
    passed = {id_: np.array([all(c.verdict == "pass" for c in run if c.id == id_) for run in runs]) for id_ in ids}
    chosen, together = set[str](), np.ones(RUNS, dtype=bool)
    for check in sorted(suite.checks, key=_first):
        if (together & passed[check.id]).mean() >= WANTED_PASSES if choose else check.tier == "gate":
            chosen.add(check.id)
            together &= passed[check.id]
    checks = []
    for id_ in ids:
        passes, needed = float(passed[id_].mean()), _needed(runs, id_)
        units = needed.units if passes < WANTED_PASSES or id_ not in chosen else None
        checks.append(CheckOutlook(id_, id_ in chosen, passes, None, units, needed.margin))
    unit, groups = "set" if simulation.in_sets else "image", _smallest(simulation.data)
    sizes = [group.n_sets for check in runs[0] for group in check.groups] or [0]
    return Outlook(tuple(checks), float(together.mean()), unit, max(sizes), min(sizes), RUNS, groups)


def _short(suite: Suite) -> Suite:
    return suite.model_copy(update={"decision": suite.decision.model_copy(update={"draws": _DRAWS})})


def _first(check: Check) -> int:
    """Bounds come first, which every run meets alike; then groups against themselves, gaps, and the rest."""
    spec = METRICS[check.metric].spec
    if check.no_worse_than is None:
        return 0
    return 1 if spec.utility and check.over else 2 if spec.relative else 3


def _smallest(data: Dataset) -> tuple[tuple[str, str], ...]:
    """The groups (attribute, group) that images show, the smallest first: at most `MOST_GROUPS`."""
    named = [(name, group) for name, groups in data.manifest.attributes.items() for group in groups]
    sizes = {key: int((data.index.attributes[key[0]] == key[1]).sum()) for key in named}
    return tuple(sorted((key for key in named if sizes[key]), key=lambda key: sizes[key])[:MOST_GROUPS])


def with_losses(measured: Outlook, simulation: Simulation, suite: Suite) -> Outlook:
    """The outlook with the smallest loss at which each check that decides fails in nine runs of ten, whichever group
    loses it; a check over groups has to name that one."""
    deciding = {check.id for check in measured.checks if check.decides}
    compared = (check for check in suite.checks if check.no_worse_than and check.id in deciding)
    checks = [check.model_copy(update={"tier": "gate"}) for check in compared]
    suite = _short(suite).model_copy(update={"checks": checks})  # one family: bounds are none
    asked = {check.id for check in checks if simulation.loses and measured.groups}
    groups, losses = list(measured.groups), dict[str, float]()
    for loss in LOSSES:  # upwards: a loss that is not seen takes few runs
        if not asked:
            break
        seen = _seen(simulation, suite, asked, groups, loss)
        losses |= dict.fromkeys(seen, loss)
        asked -= seen
    losses |= dict.fromkeys(asked, math.inf)
    return replace(measured, checks=tuple(replace(check, loss=losses.get(check.id)) for check in measured.checks))


def _seen(
    simulation: Simulation, suite: Suite, asked: set[str], groups: list[tuple[str, str]], loss: float
) -> set[str]:
    """Those of the checks that fail often enough, whichever group loses so much. A group whose loss no check sees is
    the first of `groups` from then on: the next loss that is not seen either is found with it alone."""
    seen, most = set(asked), MISSED * LOSS_RUNS
    for attribute, group in list(groups):
        missed, undecided = dict.fromkeys(seen, 0), seen
        for count, run in enumerate(simulation.runs(suite, LOSS_RUNS, (attribute, group, loss)), 1):
            for id_ in undecided:
                missed[id_] += not any(check.id == id_ and _fails(check, group) for check in run)
            undecided = {id_ for id_ in undecided if _STOPS.get(count, -1) < missed[id_] <= most}
            if not undecided:
                break
        seen = {id_ for id_ in seen if missed[id_] <= most}
        if not seen:
            groups.remove((attribute, group))
            groups.insert(0, (attribute, group))
            break
    return seen


def _fails(check: CheckResult, group: str) -> bool:
    if check.over is None:
        return check.verdict == "fail"
    return any(group in failing.group.split(" × ") for failing in check.failing_groups)


@dataclass(frozen=True, slots=True)
class _Needed:
    """Units of each group with which a harmless change would pass, if it needs more than are there, and the margin at
    which it would with these; None: no number does, or the check has no margin."""

    units: int | None
    margin: float | None


def _needed(runs: Sequence[Sequence[CheckResult]], id_: str) -> _Needed:
    """What would let a harmless change pass, by the group that needs most: errors shrink with the root of its units.

    If a typical run passes, the spread of the limits decides: their quantile, or, if tails are heavy, what the share
    of runs inside the margin says of a normal spread.
    """
    changes: dict[tuple[str, str | None], list[tuple[float, float, int, float]]] = {}
    worst = np.full(len(runs), -np.inf)
    for at, check in ((at, check) for at, run in enumerate(runs) for check in run if check.id == id_):
        parts: list[tuple[str | None, CheckResult | GroupResult]] = [(group.group, group) for group in check.groups]
        if not any(group.delta is not None for group in check.groups):
            parts = [(None, check)]
        for name, part in parts:
            if (harm := harm_of(check, part)) is not None and check.bound and check.rule == "no_worse_than":
                worst[at] = max(worst[at], harm.limit)
                numbers = (harm.loss, harm.limit, part.n_sets, check.bound)
                changes.setdefault((check.item, name), []).append(numbers)
    most, there = 0.0, 0.0
    each = 1 - (1 - WANTED_PASSES) / max(len(changes), 1)  # so that all groups pass together
    for column in changes.values():
        loss, limits, units, margin = np.minimum(np.array(column, dtype=float).T, _NO_LIMIT)
        typical = float(np.median(limits - loss)) + float(ndtri(each)) * float(loss.std())
        inside = float(np.clip((limits <= margin).mean(), 0.6, each))
        spread = min(float(np.quantile(limits, each)), float(margin[0] * ndtri(each) / ndtri(inside)))
        far = typical if typical > margin[0] else spread
        there = max(there, float(np.median(units)))
        most = max(most, float(np.median(units)) * (far / float(margin[0])) ** 2)
    units = math.ceil(most) if there < most < _HOPELESS else None
    decided = float(np.quantile(worst, WANTED_PASSES, method="higher"))
    return _Needed(units, decided if math.isfinite(decided) else None)
