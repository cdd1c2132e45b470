"""Does a check make sense by itself: its metric on its probe, its keys, its bound? Known without the dataset."""

from __future__ import annotations

from collections.abc import Callable

from fairgate.errors import SuiteError, did_you_mean
from fairgate.suites.catalog import METRICS, MetricSpec
from fairgate.suites.schema import AssociationProbe, Check, Suite, ZeroShotProbe, with_article
from fairgate.suites.source import Source

Refuse = Callable[..., SuiteError]


def check_makes_sense(suite: Suite, check: Check, source: Source, index: int) -> None:
    """Raise SuiteError for a check that its probe, its metric or its bound makes meaningless."""

    def refuse(problem: str, remedy: str, *key: str) -> SuiteError:
        return SuiteError(f"check '{check.id}' {problem}", where=source.where(("checks", index, *key)), remedy=remedy)

    spec = METRICS[check.metric]
    probe = suite.probes.get(check.probe)
    if probe is None:
        near = did_you_mean(check.probe, suite.probes)
        raise refuse(
            f"asks the probe '{check.probe}', which this suite does not define.",
            " ".join(filter(None, [near, f"probes here: {', '.join(suite.probes)}"])),
            "probe",
        )
    if probe.kind not in spec.probes:
        raise refuse(
            f"measures {check.metric} on {with_article(probe.kind)} probe.",
            f"{check.metric} needs {with_article(' or '.join(spec.probes))} probe",
            "probe",
        )
    if spec.truth and isinstance(probe, ZeroShotProbe) and probe.positive is not None:
        raise refuse(
            f"measures {check.metric} on the probe '{check.probe}', where no image is right or wrong.",
            f"'{probe.positive}' is a positive label: ask `fairness` or `group_gap` of it, and {check.metric} of a "
            "probe with a truth",
            "probe",
        )
    if check.by == "word" and not isinstance(probe, AssociationProbe):
        raise refuse(
            "is `by: word`, and its probe has no words.", "write `by: subject`, or ask an association probe", "by"
        )
    if spec.needs_k != (check.k is not None):
        raise refuse(f"{'lacks' if spec.needs_k else 'has'} a `k`.", f"`k` is for rankings: {_rankings()}", "k")
    if spec.per_group == "yes" and check.over is None:
        raise refuse(
            f"measures {check.metric} over no attribute.", "say `over: each`, `over: crossed` or name attributes"
        )
    if spec.per_group == "no" and check.over is not None:
        raise refuse(
            f"gives `over`, which {check.metric} does not use.",
            "remove `over`: the spread inside a set already is over its members",
            "over",
        )
    _pair_makes_sense(check, refuse)
    _bound_is_reachable(check, spec, refuse)


def _pair_makes_sense(check: Check, refuse: Refuse) -> None:
    named = [name for name in ("first", "second") if getattr(check, name) is not None]
    if not named:
        return
    if check.metric != "bias_at_k":
        raise refuse(f"names `{named[0]}`, which {check.metric} does not use.", f"remove `{named[0]}`", named[0])
    if len(named) == 1 or check.first == check.second:
        raise refuse("does not name two groups.", "give `first` and `second`, two groups of `over`", named[0])
    if check.over in ("each", "crossed"):
        raise refuse(f"names two groups over `{check.over}`.", "name the attribute that they belong to", "over")


def _rankings() -> str:
    return ", ".join(name for name, spec in METRICS.items() if spec.needs_k)


def _bound_is_reachable(check: Check, spec: MetricSpec, refuse: Refuse) -> None:
    if check.no_worse_than:
        if max(check.bound, check.anchor_margin or 0) >= spec.highest - spec.lowest:
            raise refuse(
                f"has a margin of {check.bound:g}, and {check.metric} cannot fall that far: it would never fail.",
                "choose the smallest loss that you would not accept",
                "margin",
            )
        return
    wanted = "at_least" if spec.better == "higher" else "at_most"
    bound, given = check.bound, check.rule
    if given != wanted:
        raise refuse(
            f"puts `{given}` on {check.metric}, of which {spec.better} is better.",
            f"write `{wanted}: {bound:g}`",
            given,
        )
    if not spec.lowest <= bound <= spec.highest:
        raise refuse(
            f"has a bound of {bound:g} that {check.metric} cannot reach: it lies between {spec.lowest:.3g} and "
            f"{spec.highest:.3g}.",
            "choose a bound inside that range",
            given,
        )
