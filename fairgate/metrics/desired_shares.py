"""Skew, NDKL and normalised entropy: whom does the top k show too often, and how far is it from the desired shares? And
Bias@K: how unequally does it show two groups?

Geyik et al. 2019, Wang et al. 2021; the entropy is So-B-IT's, and compares with equal shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.data import Manifest
from fairgate.formulas import metrics as formulas
from fairgate.formulas.statistics import Interval, Unavailable, divergence_interval, extreme_interval, skew_interval
from fairgate.ground.errors import SuiteError, listed, suggestion
from fairgate.metrics.cell import Cell, Counts, Floats
from fairgate.metrics.contract import Counted, Cut, Drawn, Limits, Measure, MetricRequest, register
from fairgate.metrics.galleries import Answer, Gallery, Grouping, Query
from fairgate.metrics.limits import Stacked, bootstrapped, from_parts, same_attribute
from fairgate.metrics.top_k import NULL_DRAWS, TopK, spec_at_k
from fairgate.records import CROSS

_SIZE = "for galleries of this size"


class _Skew(TopK):
    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """Log ratio of every group's share to its desired share."""
        skew = formulas.skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the group with the most extreme skew."""
        assert now.counted is not None
        images, desired = now.counted.images[:, now.judged_or_all], _desired(r, now, now.counted)

        def find(parts: Stacked) -> Interval | Unavailable:
            return skew_interval(
                parts.values,
                parts.draws,
                k=r.cut.k,
                images=images,
                n_sets=parts.sets,
                desired=desired,
                which=self.spec.extreme,
                alpha=alpha,
                attribute=parts.attribute,
                names=parts.names,
            )

        return from_parts(find, r, cell, now, drawn, alpha)

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> formulas.TieRange | None:
        k, desired, extreme = r.cut.k, r.cut.desired, self.spec.extreme
        return formulas.skew_tie_range(similarity, labels, k, groups=grouping.size, extreme=extreme, desired=desired)


def _desired(r: MetricRequest, now: Measure, counted: Counted) -> Any:
    """The groups' desired shares; where only some groups are judged, as shares of all images all the same."""
    if now.judged_or_all.all():
        return r.cut.desired
    weight = counted.images if r.cut.desired == "dataset" else np.ones(counted.images.shape)
    shares = weight / (weight @ same_attribute(now))
    return shares[:, now.judged_or_all]


@register
class MaxSkew(_Skew):
    """The largest skew of a group."""

    spec = spec_at_k(
        name="max_skew_at_k",
        meaning="log ratio of the most over-represented group's share of the top k to its desired share",
        better="lower",
        lowest=0,
        highest=math.inf,
        display="MaxSkew",
        alias="max_skew",
    )


@register
class MinSkew(_Skew):
    """The smallest skew of a group."""

    spec = spec_at_k(
        name="min_skew_at_k",
        meaning="log ratio of the most under-represented group's share of the top k to its desired share",
        better="higher",
        lowest=-math.inf,
        highest=0,
        display="MinSkew",
        alias="min_skew",
    )


@register
class NDKL(TopK):
    """Divergence of every prefix of the top k from the desired shares (Geyik et al. 2019); groups show their skew."""

    spec = spec_at_k(
        name="ndkl_at_k",
        meaning="discounted KL divergence of every prefix of the top k from the desired shares",
        better="lower",
        lowest=0,
        highest=math.inf,
        jointly=True,
        group_bound="none",
        display="NDKL",
        alias="ndkl",
    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """The groups' skews; the value depends on the order."""
        skew = formulas.skew_of_counts(shown, present, desired=r.cut.desired)
        return skew, skew

    def resampled(
        self, r: MetricRequest, query: Query, counts: Counts, grouping: Grouping, shown: Floats, present: Floats
    ) -> Answer:
        _, skew = self.of_counts(r, shown, present, grouping)
        ndkl = formulas.ndkl_at_k_weighted(
            grouping.of[query.joint],
            counts,
            r.cut.k,
            groups=grouping.size,
            desired=r.cut.desired,
            present=present,
            sets=query.sets,
        )
        return ndkl[:, None], skew

    def drawn_fairly(self, r: MetricRequest, gallery: Gallery, rng: np.random.Generator) -> tuple[Floats, ...]:
        present = np.bincount(gallery.joint)
        ranked = formulas.fair_rankings(formulas.fair_counts(present, r.cut.k, NULL_DRAWS, rng), rng)
        divergences = []
        for grouping in gallery.groupings:
            images = grouping.fold(present[None, :].astype(np.float64))[0]
            dataset = r.cut.desired == "dataset"
            shares = images / images.sum() if dataset else np.full(grouping.size, 1 / grouping.size)
            divergences.append(formulas.ndkl_of_ranking(grouping.of[ranked], shares)[:, None])
        return tuple(divergences)

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of the largest grouping's mean over queries."""
        return bootstrapped(_divergence(r, now, drawn, alpha, to_one=False), _SIZE, cell, drawn, alpha)


@register
class NormalizedEntropy(TopK):
    """Entropy of the groups in the top k over that of equal shares (So-B-IT); groups show their skew."""

    spec = spec_at_k(
        name="normalized_entropy_at_k",
        meaning="how evenly the top k is spread over the groups: its entropy over that of equal shares",
        better="higher",
        jointly=True,
        group_bound="none",
        display="normalised entropy",
        alias="entropy",
    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        return formulas.entropy_of_counts(shown)[:, None], formulas.skew_of_counts(
            shown, present, desired=r.cut.desired
        )

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """By the distance from 1, a divergence from equal shares."""
        limits = _divergence(r, now, drawn, alpha, to_one=True)
        if isinstance(limits, Unavailable):
            limits = Unavailable(limits.reason.replace("NDKL", "entropy"))
        else:
            limits = replace(limits, estimate=1 - limits.estimate, lo=max(0.0, 1 - limits.hi), hi=1 - limits.lo)
        return bootstrapped(limits, _SIZE, cell, drawn, alpha)

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> formulas.TieRange | None:
        return formulas.entropy_tie_range(similarity, labels, r.cut.k, groups=grouping.size)


def _divergence(r: MetricRequest, now: Measure, drawn: Drawn, alpha: float, *, to_one: bool) -> Interval | Unavailable:
    """Of every grouping's value, or its distance from 1, averaged over queries."""
    assert now.counted is not None
    means = np.array([np.mean(queries) for queries in now.parts])
    draws = np.stack([np.mean(queries, axis=0)[:, 0] for queries in drawn.parts], axis=1)
    return divergence_interval(
        1 - means if to_one else means,
        1 - draws if to_one else draws,
        k=r.cut.k,
        shown=now.counted.shown[:, now.judged_or_all],
        images=now.counted.images[:, now.judged_or_all],
        alpha=alpha,
    )


class TwoGroups(Cut):
    """The two groups that are compared, where the attribute has more."""

    first: str | None = None
    second: str | None = None

    @property
    def named(self) -> tuple[str, str] | None:
        return None if self.first is None or self.second is None else (self.first, self.second)

    def compared(self, names: Sequence[str]) -> NDArray[np.int64]:
        return np.array([0, 1] if self.named is None else [names.index(name) for name in self.named])

    def refusal(self, over: str | Sequence[str] | None) -> tuple[str, str, str] | None:
        """Two groups are named, or none, and of one attribute."""
        named = [name for name in ("first", "second") if getattr(self, name) is not None]
        if not named:
            return None
        if len(named) == 1 or self.first == self.second:
            return "does not name two groups.", "give `first` and `second`, two groups of `over`", named[0]
        if over in ("each", "crossed"):
            return f"names two groups over `{over}`.", "name the attribute that they belong to", "over"
        return None


@register
class Bias(TopK):
    """|first - second| / (first + second) in the top k: signed by group, and held to the size of the larger."""

    spec = spec_at_k(
        name="bias_at_k",
        meaning="how unequally the top k shows two groups: |first - second| / (first + second), averaged over queries",
        better="lower",
        jointly=True,
        display="Bias",
        alias="bias",
    )
    Settings = TwoGroups

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """It compares two groups: of an attribute that has two, or the two that are named."""
        two = r.settings_of(TwoGroups).named
        for crossing in r.crossings:
            groups = [CROSS.join(group) for group in product(*(dataset.attributes[name] for name in crossing))]
            if two is None:
                if len(groups) > 2:
                    raise SuiteError(
                        f"check '{r.check}' compares two groups, and {CROSS.join(crossing)} has {len(groups)}: "
                        f"{listed(groups)}.",
                        where=r.at("over"),
                        remedy=f"say which two: `first: {groups[0]}, second: {groups[1]}`; or compare all of them by "
                        "`metric: max_skew_at_k`",
                    )
                continue
            for named in two:
                if named not in groups:
                    raise SuiteError(
                        f"check '{r.check}' compares the group '{named}', which {CROSS.join(crossing)} does not have.",
                        where=r.at("over"),
                        remedy=suggestion(named, groups, f"groups: {', '.join(groups)}"),
                    )

    def of_counts(self, r: MetricRequest, shown: Floats, present: Floats, grouping: Grouping) -> Answer:
        """Bias towards each of the two."""
        first, second = grouping.included
        bias = formulas.bias_of_counts(shown[:, first], shown[:, second])
        signed = np.stack([bias, -bias], axis=1)
        return signed, signed

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """From the larger of the two groups' shares of what is shown of both: 2 share - 1."""
        assert now.counted is not None
        both: Floats = (now.counted.shown @ same_attribute(now))[:, now.judged_or_all]

        def find(parts: Stacked) -> Interval | Unavailable:
            if both.min() == 0:
                return Unavailable("neither group is in the top k")
            share = extreme_interval(
                (1 + parts.values) / 2,
                (1 + parts.draws) / 2,
                n_sets=parts.sets,
                which="max",
                alpha=alpha,
                trials=both,
                attribute=parts.attribute,
                names=parts.names,
            )
            if isinstance(share, Unavailable):
                return share
            estimate, lo, hi = (2 * x - 1 for x in (share.estimate, share.lo, share.hi))
            return replace(share, estimate=estimate, lo=max(0.0, lo), hi=hi)

        return from_parts(find, r, cell, now, drawn, alpha, of="limits of the group that is shown more")

    def tie_range(
        self, r: MetricRequest, similarity: Floats, labels: NDArray[np.int64], grouping: Grouping
    ) -> formulas.TieRange | None:
        """From that of the signed bias. 0 lies inside where the sign can turn; it need not be reachable."""
        first, second = grouping.included.tolist()
        signed = formulas.bias_tie_range(similarity, labels, r.cut.k, groups=grouping.size, first=first, second=second)
        sizes, turns = np.abs([signed.lowest, signed.highest]), (signed.lowest <= 0) & (signed.highest >= 0)
        return formulas.TieRange(np.where(turns, 0.0, sizes.min(axis=0)), sizes.max(axis=0), signed.tied)
