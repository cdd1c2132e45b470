"""What a change of the label temperature alone does to a suite's numbers, as a notice for the reviewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairgate.errors import FairgateError
from fairgate.measures import Cells, GroupedRows, measure
from fairgate.number_format import three_decimals
from fairgate.probes import Entropies, ProbeScores
from fairgate.records import Against
from fairgate.suites.plan import PlannedCheck

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LabelTemperature:
    """A run's label temperature: its mean answer entropies by probe and subject, and its logit scale."""

    entropies: Mapping[str, Entropies]
    logit_scale: float | None = None


def temperature_notices(
    planned: Sequence[PlannedCheck],
    index: GroupedRows,
    candidate: Mapping[str, ProbeScores],
    tempered: Mapping[str, ProbeScores],
    runs: tuple[LabelTemperature, LabelTemperature],
    against: Against = "baseline",
) -> list[str]:
    """A notice for each probe of which the temperature alone moves a number by more than its check's margin, or over
    its bound.

    `tempered` holds the candidate's scores at the temperature of what it is compared with, by probe; `runs` are what it
    is compared with and the candidate.
    """
    cells = Cells(index)
    notices = []
    for probe, at_theirs in tempered.items():
        ours = [one for one in planned if (one.against or "baseline") == against and one.metric.spec.tempered]
        concerned = [one for one in ours if one.check.probe == probe]
        moved = [text for one in concerned if (text := _moved(one, cells, candidate[probe], at_theirs))]
        if moved:
            subjects = index.subject.tolist()
            entropies = [float(np.mean([run.entropies[probe][one] for one in subjects])) for run in runs]
            notices.append(_notice(probe, moved, entropies, runs, against))
    return notices


def _moved(one: PlannedCheck, cells: Cells, own: ProbeScores, at_theirs: ProbeScores) -> str | None:
    """The check's number at both temperatures, where that alone decides something."""
    try:
        cell = cells.of(one.subject, one.groupings)
        now, then = (measure(one.request(), cell, [scores]) for scores in (own, at_theirs))
    except FairgateError:
        return None  # the check's own result says so
    if one.against is None:
        sides = [value >= one.bound for value in (now.value, then.value)]
        bound = f" (wanted at least {three_decimals(one.bound)})"
        return (
            f"{one.item} from {three_decimals(then.value)} to {three_decimals(now.value)}{bound}"
            if sides[0] != sides[1]
            else None
        )
    changes = np.abs(now.group_values - then.group_values) if now.groups else np.abs([now.value - then.value])
    if not (changes > one.bound).any():
        return None
    at = int(np.nanargmax(changes))
    name, before, after = one.item, then.value, now.value
    if now.groups:
        name, before, after = f"{one.item} of {now.groups[at]}", then.group_values[at], now.group_values[at]
    return f"{name} from {three_decimals(float(before))} to {three_decimals(float(after))}"


def _notice(
    probe: str,
    moved: Sequence[str],
    entropies: Sequence[float],
    runs: tuple[LabelTemperature, LabelTemperature],
    against: Against,
) -> str:
    before, now = entropies
    scales = [run.logit_scale for run in runs]
    scale = ""
    if scales[0] is not None and scales[1] is not None and scales[0] != scales[1]:
        scale = f"; logit scale {scales[0]:.4g} to {scales[1]:.4g}"
    more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
    return (
        f"label temperature: the mean entropy of the answers to '{probe}' changed from {three_decimals(before)} "
        f"({against}) to {three_decimals(now)} nats{scale}. That alone moves {', '.join(moved[:_SHOWN])}{more}. "
        "Regressions of P(true) "
        "are decided at both temperatures, bounds at the model's own. If the change is on purpose, first merge a "
        "waiver for the checks that it moves, then this checkpoint"
    )
