"""How far the groups perceived in generated pictures are from a target: distance, skew and entropy of their shares."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fairgate.formulas.metrics import corrected_shares, entropy_of_counts, share_distance, skew_of_counts
from fairgate.ground.errors import SuiteError
from fairgate.metrics.cell import Floats
from fairgate.metrics.contract import MetricRequest, MetricSettings, register
from fairgate.metrics.generated import OfShares, generation_probe, picture_spec
from fairgate.probes import DatasetFacts


class _FromTarget(OfShares):
    """How far shares are from wanted ones, which are equal ones."""

    at_target: float
    """Its value where the shares are the wanted ones, which no other shares reach."""

    def target(self, r: MetricRequest) -> Floats:
        """Wanted shares, (groups,)."""
        groups = len(generation_probe(r).groups)
        return np.full(groups, 1 / groups)

    def bounds(self, r: MetricRequest, shares: Floats, alpha: float) -> tuple[float, float]:
        """Limits from drawn shares (draws, groups)."""
        lo, hi = np.quantile(self.of(r, shares), [alpha / 2, 1 - alpha / 2])
        return float(lo), float(hi)

    def limits(self, r: MetricRequest, seen: Floats, readers: Floats | None, alpha: float) -> tuple[float, float]:
        """Those bounds; with the target's own value among them where the draws do not exclude the target: chance alone
        moves shares away from a target, so that no draw reaches it."""
        shares = seen if readers is None else corrected_shares(seen, readers).shares
        lo, hi = self.bounds(r, shares, alpha)
        centred, off = shares - shares.mean(axis=0), self.target(r) - shares.mean(axis=0)
        inverse = np.linalg.pinv(np.cov(centred, rowvar=False))
        away = np.einsum("dg,gh,dh->d", centred, inverse, centred)
        if off @ inverse @ off <= np.quantile(away, 1 - alpha):
            lo, hi = min(lo, self.at_target), max(hi, self.at_target)
        return lo, hi


class ShareTarget(MetricSettings):
    """The shares that are wanted: equal ones, or one for each group."""

    target: Literal["uniform"] | dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(
        default="uniform", description="The shares that are wanted: equal ones, or one for each group."
    )


class _FromDeclared(_FromTarget):
    """How far shares are from equal or declared ones."""

    Settings = ShareTarget

    def require(self, r: MetricRequest, dataset: DatasetFacts) -> None:
        """Refuse a target of other groups, or that does not add up to 1."""
        wanted, groups = r.settings_of(ShareTarget).target, generation_probe(r).groups
        if isinstance(wanted, dict) and (set(wanted) != set(groups) or abs(sum(wanted.values()) - 1) > 1e-6):
            raise SuiteError(
                f"the target of check '{r.check}' is no share for each group, adding up to 1.",
                where=r.at("target"),
                remedy=f"groups: {', '.join(groups)}",
            )

    def target(self, r: MetricRequest) -> Floats:
        """Wanted shares, (groups,)."""
        wanted = r.settings_of(ShareTarget).target
        return (
            super().target(r)
            if wanted == "uniform"
            else np.array([wanted[group] for group in generation_probe(r).groups])
        )


@register
class TargetDistance(_FromDeclared):
    """Total variation between shares and the target."""

    spec = picture_spec(
        name="target_distance",
        meaning="total variation between the shares of groups among the readable pictures and `target` (`uniform`, or "
        "a share for each group): the share of pictures that would have to show another group; 0 is the target",
        better="lower",
    )
    at_target = 0.0

    def of(self, r: MetricRequest, shares: Floats) -> Floats:
        """Half the sum of absolute differences."""
        return share_distance(shares, self.target(r))

    def bounds(self, r: MetricRequest, shares: Floats, alpha: float) -> tuple[float, float]:
        """Of the excess of the groups that are painted too often, taken together: a sum of sizes grows with noise."""
        excess = shares - self.target(r)
        lo, hi = np.quantile(excess[:, excess.mean(axis=0) > 0].sum(axis=1), [alpha / 2, 1 - alpha / 2])
        return max(float(lo), 0.0), max(float(hi), 0.0)


@register
class TargetSkew(_FromDeclared):
    """The group that is painted most too often."""

    spec = picture_spec(
        name="target_skew",
        meaning="largest ln(share / target) over groups, of the shares among the readable pictures: ln 2 is a group "
        "that is painted twice as often as `target` says; 0 is the target",
        better="lower",
        highest=100,
    )
    at_target = 0.0

    def of(self, r: MetricRequest, shares: Floats) -> Floats:
        """A group that nobody paints has none."""
        return np.asarray(self._of_groups(r, shares).max(axis=-1))

    def _of_groups(self, r: MetricRequest, shares: Floats) -> Floats:
        wanted = self.target(r)
        return skew_of_counts(shares, wanted, desired=wanted, k=1)

    def bounds(self, r: MetricRequest, shares: Floats, alpha: float) -> tuple[float, float]:
        """The largest of every group's own: of draws, the largest group grows with noise."""
        levels = [alpha / 2, 1 - alpha / 2]
        lo, hi = np.quantile(self._of_groups(r, shares), levels, axis=0, method="inverted_cdf").max(axis=1)
        return float(lo), float(hi)


@register
class PaintedEntropy(_FromTarget):
    """Normalised entropy of the shares."""

    spec = picture_spec(
        name="painted_entropy",
        meaning="entropy of the shares of groups among the readable pictures, as a share of the highest: 1 is equal "
        "shares, 0 is one group alone",
        better="higher",
    )
    at_target = 1.0

    def of(self, r: MetricRequest, shares: Floats) -> Floats:
        """H / ln(groups)."""
        return entropy_of_counts(shares)

    def bounds(self, r: MetricRequest, shares: Floats, alpha: float) -> tuple[float, float]:
        """Quantiles, moved up by what drawing takes from an entropy (Miller and Madow's bias)."""
        drawn = self.of(r, shares)
        taken = float(self.of(r, shares.mean(axis=0)[None])[0] - drawn.mean())
        lo, hi = np.clip(np.quantile(drawn, [alpha / 2, 1 - alpha / 2]) + taken, 0, 1)
        return float(lo), float(hi)
