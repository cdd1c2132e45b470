"""A model cannot pass by becoming useless: beside checks of bias stands one that a model answering blindly fails."""

from __future__ import annotations

from fairgate.errors import SuiteError
from fairgate.suites.catalog import METRICS
from fairgate.suites.schema import Check, RetrievalProbe, Suite, ZeroShotProbe
from fairgate.suites.source import Source


def require_utility(suite: Suite, source: Source, *, subjects: int | None = None) -> None:
    """Raise SuiteError for a suite with checks of bias and none of utility. `subjects`: how many the dataset shows.

    A model that answers the same for every image treats everybody alike. What shows it is accuracy among labels of
    which several are true for some image, or recall_at_k among several subjects, held to more than chance.
    """
    if all(METRICS[check.metric].utility for check in suite.checks):
        return
    useful = [check for check in suite.checks if METRICS[check.metric].utility]
    if any(_sees_blindness(check, suite, subjects) for check in useful):
        return
    if not useful:
        why = "none asks whether the model is still of use"
    else:
        why = f"'{useful[0].id}' would pass one too: {_why_blind(useful[0], suite, subjects)}"
    raise SuiteError(
        f"a model that answers the same for every image would pass the checks of bias here, and {why}.",
        where=source.where(("checks", suite.checks.index(useful[0])) if useful else ("checks",)),
        remedy=_remedy(suite),
    )


def _sees_blindness(check: Check, suite: Suite, subjects: int | None) -> bool:
    chance = _chance(check, suite, subjects)
    return chance < 1 and (check.at_least is None or check.at_least > chance)


def _chance(check: Check, suite: Suite, subjects: int | None) -> float:
    """What a model that never looks can have: 1 where each image has its labels to itself."""
    if check.metric == "recall_at_k":
        return 0.0 if subjects is None else min(1.0, (check.k or 1) / subjects)
    probe = suite.probes[check.probe]
    assert isinstance(probe, ZeroShotProbe)
    if probe.truth == "subject" and (isinstance(probe.labels, dict) or subjects == 1):
        return 1.0
    return 1 / min(
        len(labels) for labels in (probe.labels.values() if isinstance(probe.labels, dict) else [probe.labels])
    )


def _why_blind(check: Check, suite: Suite, subjects: int | None) -> str:
    chance = _chance(check, suite, subjects)
    if chance == 1:
        return f"each image of '{check.probe}' has one right answer among its own labels, whatever it shows"
    return f"{check.rule.replace('_', ' ')} {check.bound:g} is no more than chance, {chance:.2g}"


def _remedy(suite: Suite) -> str:
    """A line to paste: recall on a retrieval probe, or accuracy where all subjects share their labels."""
    compared = suite.baseline is not None or any(check.no_worse_than for check in suite.checks)
    rule = "no_worse_than: baseline, margin: 0.02" if compared else "at_least: 0.80"
    for name, probe in suite.probes.items():
        if isinstance(probe, RetrievalProbe):
            return f"add `- {{id: finds-its-subject, probe: {name}, metric: recall_at_k, k: 1, {rule}}}`"
        shared = isinstance(probe, ZeroShotProbe) and probe.positive is None
        if shared and isinstance(probe, ZeroShotProbe) and (isinstance(probe.labels, list) or probe.truth != "subject"):
            return f"add `- {{id: still-useful, probe: {name}, metric: accuracy, {rule}}}`"
    return (
        'add a probe `search: {kind: retrieval, prompts: ["a photo of {a_subject}"]}` and the check '
        f"`- {{id: finds-its-subject, probe: search, metric: recall_at_k, k: 1, {rule}}}`"
    )
