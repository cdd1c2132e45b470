"""What every comparison of a suite could see, from the noise between two of its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fairgate import gate
from fairgate.formulas.statistics import Power, Resamples, image_changes, power, power_of_draws, power_of_images
from fairgate.ground.errors import BaselineError, SettingsError, StatisticsError, SuiteError
from fairgate.ground.randomness import stream
from fairgate.metrics import Cell, Cells, Measure, measure, resample
from fairgate.probes import ProbeScores
from fairgate.records import CheckPower, GroupPower, PowerRecord
from fairgate.suites import PlannedCheck, Settings
from fairgate.tracking import environment

WANTED_OF_NOTHING = 0.02
"""The wished regression where a check's margin is 0, so that twice the margin says nothing."""
_CURVE = 41
"""Points of a curve, from an eighth of the present sets to 32 times as many."""


def suite_power(
    prepared: gate.Prepared,
    settings: Settings,
    *,
    command: str,
    wanted: float | None = None,
    odds: float = 0.8,
    progress: gate.Progress | None = None,
) -> PowerRecord:
    """Power of every `no_worse_than` check, per group, at the alpha that the correction leaves it in the worst case.

    `wanted` is the regression one wishes to see, in the unit of every check's metric (None: twice each margin). Raises
    SuiteError where the suite compares nothing, BaselineError where nothing is named to compare with, SettingsError for
    a wish or odds out of range.
    """
    _require_sensible(wanted, odds)
    compared = [check for check in prepared.planned if check.against is not None]
    planned = [check for check in compared if check.against == "baseline"]
    if not planned:
        raise SuiteError(
            f"suite '{prepared.loaded.name}' compares nothing with a baseline, so that no regression is looked for.",
            where=prepared.loaded.path.name,
            remedy="add a check with `no_worse_than: baseline` and a margin",
        )
    if settings.baseline == f"model:{settings.model}":
        raise _compares_with_itself()
    scored = gate.score(prepared, settings, progress)
    baseline = scored.info("baseline")
    if scored.before is None or baseline is None:
        raise BaselineError(
            "power comes from the noise between two runs, and only one was named.",
            where="--baseline",
            remedy="name a second seed of the same training, say: --baseline model:URI or file:DIR",
        )
    if baseline.fingerprint == scored.model.fingerprint:
        raise _compares_with_itself()
    rule = prepared.loaded.suite.decision
    alpha = rule.alpha / len(compared)
    draws = max(rule.draws, math.ceil(4 / alpha))  # enough to show the level that the correction leaves, twice over
    cells = Cells(prepared.dataset.index)
    how: dict[str, Any] = {"alpha": alpha, "odds": odds, "draws": draws}
    checks = []
    for check in planned:
        rng = stream(rule.seed, "power", prepared.loaded.suite.suite, check.subject or "")
        wish = wanted or 2 * check.check.bound or WANTED_OF_NOTHING
        cell = cells.of(check.subject, check.groupings)
        checks.append(_check_power(check, cell, (scored.scores, scored.before), wanted=wish, rng=rng, **how))
    return PowerRecord(
        suite=prepared.loaded.name,
        suite_digest=prepared.loaded.digest,
        dataset=gate.dataset_info(prepared.dataset),
        model=scored.model,
        baseline=baseline,
        alpha=rule.alpha,
        correction=rule.correction,
        comparisons=len(compared),
        odds=odds,
        seed=rule.seed,
        draws=draws,
        checks=checks,
        environment=environment(prepared.root, scored.device),
        command=command,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _compares_with_itself() -> BaselineError:
    return BaselineError(
        "the baseline is the same checkpoint: it does not differ from itself, and power comes from the noise between "
        "two trainings.",
        where="--baseline",
        remedy="name a second seed of the same training, say: --baseline model:URI or file:DIR",
    )


def _require_sensible(wanted: float | None, odds: float) -> None:
    if wanted is not None and not 0 < wanted < math.inf:
        raise SettingsError(
            f"the wished regression is {wanted:g}.",
            where="--wanted",
            remedy="give the size of a loss, above 0, in the unit of the metric, such as 0.02",
        )
    if not 0.5 <= odds < 1:
        raise SettingsError(f"the odds are {odds:g}.", where="--odds", remedy="give odds from 0.5 to under 1")


def _check_power(
    planned: PlannedCheck, cell: Cell, runs: Sequence[Mapping[str, ProbeScores]], *, wanted: float, **how: Any
) -> CheckPower:
    """The power of one check, or why it has none; `runs` are the scores now and before."""
    check = planned.check
    power_of_check = CheckPower(
        id=check.id,
        subject=planned.about,
        metric=check.metric,
        k=check.k,
        over=planned.over,
        unit=cell.unit,
        margin=check.bound,
        wanted=wanted,
        n_sets=cell.n_sets,
    )
    harm = "lower" if planned.spec.better == "higher" else "higher"
    try:
        now, before = (measure(planned.request(), cell, [scores[name] for name in planned.answers]) for scores in runs)
        powers = _power(cell, now, before, margin=check.bound, wanted=wanted, harm=harm, **how)
    except StatisticsError as error:
        why = "; ".join(filter(None, [error.problem.rstrip("."), error.remedy]))
        return power_of_check.model_copy(update={"unavailable": why})
    evenly = np.round(cell.n_sets * np.geomspace(1 / 8, 32, _CURVE)).astype(int)
    sizes = sorted({int(size) for size in evenly if size >= 2} | {cell.n_sets})
    names = now.groups if len(now.groups) == len(powers.n_sets) else [None] * len(powers.n_sets)
    groups = []
    for at, name in enumerate(names):
        # A dataset of another size holds every group in the present proportion.
        group_sizes = np.maximum(2, np.round(np.array(sizes) * (powers.n_sets[at] / cell.n_sets))).astype(np.int64)
        groups.append(
            GroupPower(
                group=name,
                n_sets=int(powers.n_sets[at]),
                standard_error=float(powers.standard_error[at]),
                detectable=float(powers.detectable[at]),
                sets_needed=int(needed) if np.isfinite(needed := powers.sets_needed[at]) else None,
                curve=powers.at(group_sizes)[:, at].tolist(),
            )
        )
    return power_of_check.model_copy(update={"sizes": sizes, "groups": groups})


def _power(cell: Cell, now: Measure, before: Measure, *, rng: np.random.Generator, draws: int, **options: Any) -> Power:
    """As the gate decides: a test of means where the metric is one, else of resampled statistics."""
    if now.paired is not None and before.paired is not None:
        return power(now.paired - before.paired, rng=rng, draws=draws, **options)
    if now.images is not None and before.images is not None:
        (codes,), (names,) = cell.group_codes, cell.groups
        changes = image_changes(now.images, before.images, codes, groups=len(names), units=cell.set_code)
        return power_of_images(changes, rng=rng, draws=draws, **options)
    drawn = resample([now, before], cell.n_sets, draws, Resamples(cell.n_sets, draws, rng))
    return power_of_draws(now.value - before.value, drawn[0].value - drawn[1].value, n_sets=cell.n_sets, **options)
