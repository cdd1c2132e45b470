"""A suite must hold a model to being of use: one that answers the same for every image treats everybody alike."""

from __future__ import annotations

from fairgate.data import Manifest
from fairgate.ground.errors import SuiteError
from fairgate.ground.yaml_source import Source
from fairgate.metrics import METRICS
from fairgate.models import FAMILIES, schemes
from fairgate.probes import Rows
from fairgate.suites.schema import Check, Suite


def require_utility(suite: Suite, source: Source, *, dataset: Manifest | None = None, rows: Rows | None = None) -> None:
    """Raise SuiteError for a suite with checks of bias and none of utility, as far as the dataset is known.

    A model that answers the same for every image treats everybody alike. What shows it is accuracy among labels of
    which several are true for some image, or recall_at_k among several subjects, held to more than chance; and, of
    questions without right answers, agreement with the baseline.
    """
    useful = [check for check in suite.checks if METRICS[check.metric].spec.utility and check.tier == "gate"]
    watched = [check for check in suite.checks if check.tier == "watch"]
    by_group = [check for check in suite.checks if _by_group(check, suite)]
    if watched and not any(check.tier == "gate" and check.no_worse_than for check in by_group):
        raise SuiteError(
            "checks are watched here, and none that decides compares a group with the baseline.",
            where=source.where(("checks", suite.checks.index(watched[0]), "tier")),
            remedy="leave `tier: gate` at one check `over` groups with `no_worse_than: baseline`",
        )
    if len(useful) == len(suite.checks):
        return
    read = (
        {}
        if rows is None
        else {name: suite.probes[name].blind_share(rows) for name in {planned.probe for planned in useful}}
    )
    chances = [_chance(check, suite, dataset, read.get(check.probe)) for check in useful]
    with_chance = zip(useful, chances, strict=True)
    if any(chance < 1 and (check.at_least is None or check.at_least > chance) for check, chance in with_chance):
        return
    why = "none says whether the model is still of use"
    if useful:
        first, chance = useful[0], chances[0]
        blind = f"{first.rule.replace('_', ' ')} {first.bound:g} is no more than chance, {chance:.2g}"
        if chance == 1:
            blind = f"each image of '{first.probe}' has one right answer among its own labels, whatever it shows"
            if METRICS[first.metric].blind_value(first.settings, 2, None) is None:
                blind = f"its answers are all counted in {first.metric}"
            elif read.get(first.probe) == 1:
                blind = f"one answer is right about every image of '{first.probe}'"
        why = f"'{first.id}' would pass one too: {blind}"
    raise SuiteError(
        f"a model that answers the same for every image would pass the checks of bias here, and {why}.",
        where=source.where(("checks", suite.checks.index(useful[0])) if useful else ("checks",)),
        remedy=_remedy(suite, one_answer=1 in read.values()),
    )


def _by_group(check: Check, suite: Suite) -> bool:
    """Whether a check is about groups: over an attribute, inside sets, or of one of the groups that a probe paints."""
    painted = check.settings.counted in getattr(suite.probes.get(check.probe), "groups", ())
    return check.over is not None or METRICS[check.metric].spec.counterfactual or painted


def _chance(check: Check, suite: Suite, dataset: Manifest | None, share: float | None) -> float:
    """The value of a model that ignores its images: 1 where each image has labels of its own, and 0 where what is not
    known yet decides it; `share` is that of the commonest right answer, which is what metrics of answers count."""
    metric, labels = METRICS[check.metric], suite.probes[check.probe].blind_labels(dataset)
    subjects = None if dataset is None else len(dataset.subjects)
    value = metric.blind_value(check.settings, 2 if labels is None else labels, subjects)
    if value is None:
        return 1.0
    if metric.spec.of_two:
        return value
    if share is not None and metric.spec.turns:
        return share
    return 0.0 if labels is None else value


def _remedy(suite: Suite, *, one_answer: bool) -> str:
    """A line to paste: recall on a retrieval probe, or accuracy where all subjects share their labels."""
    if one_answer:
        return "add images to the dataset about which another answer is right, or a probe whose right answers differ"
    compared = suite.baseline not in (None, "none") or any(check.no_worse_than for check in suite.checks)
    rule = "no_worse_than: baseline, margin: 0.02" if compared else "at_least: 0.80"
    for name, probe in suite.probes.items():
        if (keys := probe.utility_check(name)) is not None:
            if METRICS[keys.rpartition("metric: ")[2].partition(",")[0]].spec.of_two:
                rule = "no_worse_than: baseline, margin: 0.10"
            of_this_id = any(keys.startswith(f"id: {check.id},") for check in suite.checks)
            return f"{'write' if of_this_id else 'add'} `- {{{keys}, {rule}}}`{' in its place' * of_this_id}"
    if suite.model is not None and not _can_rank(suite.model):
        return (
            "ask about all subjects with one list of labels, `labels: [...]`, and add "
            f"`- {{id: still-useful, probe: {next(iter(suite.probes))}, metric: accuracy, {rule}}}`"
        )
    return (
        'add a probe `search: {kind: retrieval, prompts: ["a photo of {a_subject}"]}` and the check '
        f"`- {{id: finds-its-subject, probe: search, metric: recall_at_k, k: 1, {rule}}}`"
    )


def _can_rank(uri: str) -> bool:
    """Whether a model's family answers retrieval probes; yes, of one that is not known."""
    families = [FAMILIES[scheme] for scheme in schemes(uri) if scheme in FAMILIES]
    return not families or any("similarity" in family.capabilities for family in families)
