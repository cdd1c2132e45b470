"""What a change of the label temperature alone does, as a notice for the reviewer, or can do, as advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

import numpy as np

from fairgate.ground.errors import FairgateError, SuiteError, listed
from fairgate.ground.number_format import three_decimals
from fairgate.metrics import METRICS, Cells, GroupedRows, cells_of, measure
from fairgate.probes import Entropies, ProbeScores
from fairgate.records import Against
from fairgate.suites.load import LoadedSuite
from fairgate.suites.plan import PlannedCheck
from fairgate.suites.schema import Check

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
    cells = cells_of(index)
    notices = []
    for probe, at_theirs in tempered.items():
        ours = [check for check in planned if (check.against or "baseline") == against and check.metric.spec.tempered]
        concerned = [check for check in ours if check.check.probe == probe]
        moved = [text for check in concerned if (text := _moved(check, cells, candidate[probe], at_theirs))]
        if moved:
            subjects = index.subject.tolist()
            before, now = (float(np.mean([run.entropies[probe][subject] for subject in subjects])) for run in runs)
            scales = [run.logit_scale for run in runs]
            scale = ""
            if scales[0] is not None and scales[1] is not None and scales[0] != scales[1]:
                scale = f"; logit scale {scales[0]:.4g} to {scales[1]:.4g}"
            notices.append(
                f"label temperature: the mean entropy of the answers to '{probe}' changed from "
                f"{three_decimals(before)} ({against}) to {three_decimals(now)} nats{scale}. That alone moves "
                f"{listed(moved, _SHOWN)}. P(true) is compared at both temperatures. If it is meant, first merge a "
                "waiver for the checks that it moves, then this checkpoint"
            )
    return notices


def _moved(planned: PlannedCheck, cells: Cells, own: ProbeScores, at_theirs: ProbeScores) -> str | None:
    """The check's number at both temperatures, where that alone decides something."""
    try:
        cell = cells.of(planned.subject, planned.groupings)
        now, then = (measure(planned.request(), cell, [scores]) for scores in (own, at_theirs))
    except FairgateError:
        return None  # the check's own result says so
    if planned.against is None:
        if (now.value >= planned.bound) == (then.value >= planned.bound):
            return None
        moved = f"{planned.item} from {three_decimals(then.value)} to {three_decimals(now.value)}"
        return f"{moved} (wanted at least {three_decimals(planned.bound)})"
    changes = np.abs(now.group_values - then.group_values) if now.groups else np.abs([now.value - then.value])
    if not (changes > planned.bound).any():
        return None
    at = int(np.nanargmax(changes))
    name, before, after = planned.item, then.value, now.value
    if now.groups:
        name, before, after = f"{planned.item} of {now.groups[at]}", then.group_values[at], now.group_values[at]
    return f"{name} from {three_decimals(float(before))} to {three_decimals(float(after))}"


def advice(loaded: LoadedSuite, model: str = "") -> list[SuiteError]:
    """Bounds on P(true) that a change of the label temperature alone can meet, by probe: advice on a valid suite.

    A temperature under which no answer is certain shrinks every spread and every gap of P(true). It shows in P(true)
    itself, and in a regression of such a metric, which is decided at two temperatures. Without a baseline, nothing is
    proposed that needs one. If the judged `model` is a table of frequencies, which has no temperature, nothing is.
    """
    if ("values", "frequency") in parse_qsl(model.partition("?")[2]):
        return []
    suite, hints = loaded.suite, list[SuiteError]()
    for name, probe in suite.probes.items():
        metric, over = probe.sees_temperature
        bounds = [check for check in suite.checks if check.probe == name and _is_open(check)]
        alone = suite.baseline == "none"  # then a bound on P(true) sees it, and nothing where no label is true
        rule = "at_least" if alone else "no_worse_than"
        deciding = [check for check in suite.checks if check.tier == "gate"]
        seen = any((check.probe, check.metric, check.rule) == (name, metric, rule) for check in deciding)
        if not bounds or seen or (alone and metric != "p_true"):
            continue
        words = [metric.replace("_", "-"), *([name] if len(suite.probes) > 1 else []), "floor" if alone else "no-worse"]
        limit = "at_least: 0.50" if alone else "no_worse_than: baseline, margin: 0.05"
        named = ", ".join(f"'{check.id}'" for check in bounds)
        hints.append(
            SuiteError(
                f"a checkpoint can meet {named} by its label temperature alone: when no answer is certain, every "
                "difference of P(true) is small.",
                where=loaded.where("checks", suite.checks.index(bounds[0])),
                remedy=f"add `- {{id: {'-'.join(words)}, probe: {name}, metric: {metric}, {over}{limit}}}`",
            )
        )
    return hints


def _is_open(check: Check) -> bool:
    spec = METRICS[check.metric].spec
    return bool(spec.tempered) and not spec.utility and check.no_worse_than is None
