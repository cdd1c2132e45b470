"""Numbers that somebody measured of every image: means by group, effect sizes, and how often chance parts groups so."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import permutation_p_of_groups
from fairgate.ground.errors import MetricError, SuiteError
from fairgate.ground.randomness import stream
from fairgate.metrics.associations import association_of
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import (
    Answers,
    Drawn,
    Limits,
    Measure,
    Metric,
    MetricRequest,
    MetricSettings,
    Units,
    register,
)
from fairgate.metrics.galleries import measure_rankings, queries_of
from fairgate.metrics.known_means import KnownMean
from fairgate.metrics.limits import OfWorstGroup, measure_groups
from fairgate.probes import ProbeScores
from fairgate.records import MetricSpec

_spec = partial(MetricSpec, probes=("number",), worst_set="{number}")


class WantedNumbers(MetricSettings):
    """Which way a number is better."""

    wanted: Literal["higher", "lower"] = Field(
        default="higher", description="Which numbers are better for a person: the worst group is the other end's."
    )


@register
class MeanNumber(KnownMean):
    """Mean of the numbers, in their own unit."""

    spec = _spec(
        name="mean_number",
        meaning="mean of a table's numbers, in their own unit; with `over`, of the group with the lowest, or, with "
        "`wanted: lower`, with the highest",
        better="higher",
        lowest=-math.inf,
        highest=math.inf,
        per_group="maybe",
        averaged=True,
        display="mean",
        plain="mean",
    )
    Settings = WantedNumbers

    def spec_for(self, settings: MetricSettings) -> MetricSpec:
        assert isinstance(settings, WantedNumbers)
        return replace(self.spec, better=settings.wanted)


@register
class RightShare(KnownMean):
    """Share of right answers, or mean probability of the right one."""

    spec = _spec(
        name="right_share",
        meaning="mean of numbers that are 1 for a right answer and 0 for a wrong one, or the probability of the right "
        "one; with `over`, of the worst group",
        better="higher",
        per_group="maybe",
        utility=True,
        averaged=True,
        display="share right",
        plain="share right",
    )

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of two answers, each time: no more is known of those that were possible."""
        return 0.5


@register
class EffectSize(OfWorstGroup):
    """Cohen's d of every group over everybody else: a check is held to the largest size."""

    spec = _spec(
        name="effect_size",
        meaning="Cohen's d: mean of a group less that of everybody else, in standard deviations of all (as in WEAT and "
        "iEAT); of the group that departs farthest, either way. A few monstrous numbers widen the deviation and hide "
        "an effect: bound `mean_number` too. Against a baseline every group's size is compared with its own",
        better="lower",
        highest=math.inf,
        per_group="yes",
        group_bound="size",
        display="Cohen's d",
        plain="Cohen's d",
    )
    counts_sets = False

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The largest size over the groups of all groupings."""
        value = _told_apart(r, cell, answers)
        queries = queries_of(replace(r, words=("number",)), cell, answers)
        measured = measure_rankings(cell, queries, [association_of(query) for query in queries], "max", by_size=True)
        return replace(measured, resampled="sizes", badness=_farthest(cell, value))


@register
class EffectP(Metric):
    """Permutation p of the groups' departures: how often chance alone parts some group as far."""

    spec = _spec(
        name="effect_p",
        meaning="permutation p of Cohen's d: how often some group departs from everybody else as far as this one if "
        "numbers change places by chance (two-sided, corrected over all groups); of the group with the lowest. Few "
        "images have a high p, and a few monstrous numbers hide an effect: bound `effect_size` and `mean_number` too",
        better="higher",
        per_group="yes",
        of_one=True,
        display="permutation p",
        plain="permutation p",
    )

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse images that depend on each other: they do not change places by chance one by one."""
        if not dataset.counterfactual and dataset.n_sets < dataset.n_rows:
            raise SuiteError(
                f"check '{r.check}' measures {r.metric} on clusters of images, which depend on each other.",
                where=r.where,
                remedy="use `metric: effect_size`, whose interval resamples clusters whole",
            )

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Numbers change places inside their sets, or, of single images, with any."""
        value = _told_apart(r, cell, answers)
        groupings = zip(cell.group_codes, cell.groups, strict=True)
        members = np.concatenate([codes == np.arange(len(names))[:, None] for codes, names in groupings])
        numbers, rng = value, stream(0, "permutations", r.check, r.subject or "")
        if cell.unit == "sets":
            numbers, members = cell.sets_by_members(value), members[:, np.argsort(cell.set_code, kind="stable")]
        p = permutation_p_of_groups(numbers, members, rng=rng)

        def same(drawn: Counts, _: Units) -> Floats:
            return np.tile(p, (len(drawn), 1))

        blocks = tuple(len(names) for names in cell.groups)
        badness = _farthest(cell, value)
        return measure_groups(cell, same, p, badness, "min", group_sets=cell.group_sets(), blocks=blocks)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """None: a p is about these images."""
        return Limits(None, None, "no interval: a p-value is about these images alone")


@register
class NumberAgreement(KnownMean):
    """Whether numbers rank images as the baseline's do."""

    spec = _spec(
        name="number_agreement",
        meaning="1 less the mean distance of an image's rank from its rank in the baseline's run (Spearman's "
        "footrule), in units of that of one number for every image: 1 is the same order, 0 one number for everybody; "
        "without a baseline, it is 1",
        better="higher",
        lowest=-math.inf,
        per_group="maybe",
        utility=True,
        averaged=True,
        of_two=True,
        display="agreement",
        plain="agreement of ranks",
    )

    def read_together(self, now: Answers, before: Answers) -> tuple[Answers, Answers]:
        """The baseline agrees with itself."""
        return _agreeing(now, before), _agreeing(before, before)

    def number(self, r: MetricRequest, answer: ProbeScores) -> Floats:
        """How near the two ranks of an image are."""
        return answer.more.get(_AGREES, np.ones(len(answer.value)))

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """The middle rank for every image."""
        return 0.0


_AGREES = "agrees"


def _agreeing(answers: Answers, others: Answers) -> Answers:
    agreeing = []
    for now, before in zip(answers, others, strict=True):
        ranks = _ranks(before.value)
        if not (unit := np.abs(ranks - 0.5).mean()):
            raise MetricError(
                "the baseline has the same number for every image, which no order agrees with.",
                where="number_agreement",
                remedy="compare with a table of numbers that differ",
            )
        agrees = 1 - np.abs(_ranks(now.value) - ranks) / unit
        agreeing.append(replace(now, more={**now.more, _AGREES: agrees}))
    return agreeing


def _ranks(values: Floats) -> Floats:
    """Ranks between 0 and 1, (images,); equal numbers share the mean of theirs."""
    from scipy.stats import rankdata  # 0.5 s to import

    ranks: Floats = (rankdata(values) - 0.5) / len(values)
    return ranks


def _told_apart(r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
    """The numbers of the cell's images. Raises MetricError if all are the same, or so near that squares of differences
    underflow."""
    value = answers[0].value[cell.rows]
    if np.ptp(value) <= max(1e-12 * np.abs(value).max(), 1e-100):
        raise MetricError(
            f"every image has the same number, {value[0]:.4g}: no group departs, and nothing is measured.",
            where=f"probe '{r.probe}'",
            remedy="look at the table's column",
        )
    return value


def _farthest(cell: Cell, value: Floats) -> Floats:
    """The largest distance from the mean inside each set, (sets,)."""
    far = np.zeros(cell.n_sets)
    np.maximum.at(far, cell.set_code, np.abs(value - value.mean()))
    return far
