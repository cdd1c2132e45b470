"""Bias@K: how unequally does the top k show two groups? (Wang et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.metrics import TieRange, bias_of_counts, bias_tie_range
from fairgate.formulas.statistics import Interval, Unavailable, extreme_interval
from fairgate.ground.errors import SuiteError, suggestion
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Cut, Drawn, Limits, Measure, MetricRequest, register
from fairgate.metrics.galleries import Answer, Grouping
from fairgate.metrics.limits import Stacked, from_parts, same_attribute
from fairgate.metrics.top_k import TopK, spec_at_k
from fairgate.probes import DatasetFacts
from fairgate.records import CROSS


class TwoGroups(Cut):
    """The two groups that are compared, where the attribute has more."""

    first: str | None = None
    second: str | None = None

    @property
    def named(self) -> tuple[str, str] | None:
        """Both, where they are named."""
        return None if self.first is None or self.second is None else (self.first, self.second)

    def compared(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The two."""
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

    def require(self, r: MetricRequest, dataset: DatasetFacts) -> None:
        """It compares two groups: of an attribute that has two, or the two that are named."""
        assert isinstance(r.settings, TwoGroups)
        two = r.settings.named
        for crossing in r.crossings:
            groups = [CROSS.join(group) for group in product(*(dataset.attributes[name] for name in crossing))]
            if two is None:
                if len(groups) > 2:
                    raise SuiteError(
                        f"check '{r.check}' compares two groups, and {CROSS.join(crossing)} has {len(groups)}.",
                        where=r.at("over"),
                        remedy=f"say which two: `first: {groups[0]}, second: {groups[1]}`",
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
        bias = bias_of_counts(shown[:, first], shown[:, second])
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
    ) -> TieRange | None:
        """From that of the signed bias. 0 lies inside where the sign can turn; it need not be reachable."""
        first, second = grouping.included.tolist()
        signed = bias_tie_range(similarity, labels, r.cut.k, groups=grouping.size, first=first, second=second)
        sizes, turns = np.abs([signed.lowest, signed.highest]), (signed.lowest <= 0) & (signed.highest >= 0)
        return TieRange(np.where(turns, 0.0, sizes.min(axis=0)), sizes.max(axis=0), signed.tied)
