"""Advice on a valid suite: bounds that a change of the label temperature alone can meet."""

from __future__ import annotations

from dataclasses import dataclass

from fairgate.measures import METRICS
from fairgate.suites.load import LoadedSuite
from fairgate.suites.schema import Check


@dataclass(frozen=True, slots=True)
class Advice:
    """A weakness of a suite, with its place and a remedy."""

    problem: str
    where: str
    remedy: str


def advice(loaded: LoadedSuite) -> list[Advice]:
    """Bounds on P(true) that a change of the label temperature alone can meet, by probe.

    A temperature under which no answer is certain shrinks every spread and every gap of P(true). It shows in P(true)
    itself, and in a regression of such a metric, which is decided at two temperatures.
    """
    suite, found = loaded.suite, list[Advice]()
    for name, probe in suite.probes.items():
        metric, over = probe.sees_temperature
        bounds = [one for one in suite.checks if one.probe == name and _is_open(one)]
        compared = any(one.no_worse_than and (one.probe, one.metric) == (name, metric) for one in suite.checks)
        if not bounds or compared:
            continue
        named = ", ".join(f"'{one.id}'" for one in bounds)
        found.append(
            Advice(
                f"a checkpoint can meet {named} by its label temperature alone: when no answer is certain, every "
                "difference of P(true) is small.",
                loaded.where("checks", suite.checks.index(bounds[0])),
                f"add `- {{id: {metric.replace('_', '-')}-no-worse, probe: {name}, metric: {metric}, {over}"
                "no_worse_than: baseline, margin: 0.05}`",
            )
        )
    return found


def _is_open(check: Check) -> bool:
    spec = METRICS[check.metric].spec
    return spec.tempered and not spec.utility and check.no_worse_than is None
