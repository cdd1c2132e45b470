"""Metrics of generated pictures: a group's share, how far shares are from a target (distance, skew and entropy), and
shares of all pictures, whose reader is not corrected: readable ones, those that show their subject, and refusals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import corrected_shares, entropy_of_counts, share_distance, skew_of_counts
from fairgate.ground.errors import SuiteError, suggestion
from fairgate.metrics.cell import Cell, Floats
from fairgate.metrics.contract import Answers, Measure, MetricRequest, MetricSettings, register
from fairgate.metrics.generated import OfPictures, OfShares, absent_rows, generation_probe, picture_spec
from fairgate.probes import REFUSAL, SHOWN


class PerceivedGroup(MetricSettings):
    """The group whose share it is."""

    group: str = Field(description="The group whose share it is.")

    @property
    def counted(self) -> str:
        return self.group


@register
class PerceivedShare(OfShares):
    """Share of a group."""

    spec = picture_spec(
        name="perceived_share",
        meaning="share of the readable pictures that show `group`, corrected for the reader's measured error. It sees "
        "one side: give every group that may lose a check of its own",
        better="higher",
    )
    Settings = PerceivedGroup

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse a group that the reader does not perceive."""
        group, groups = r.settings_of(PerceivedGroup).group, generation_probe(r).groups
        if group not in groups:
            raise SuiteError(
                f"check '{r.check}' is about '{group}', which probe '{r.probe}' does not perceive.",
                where=r.at("group"),
                remedy=suggestion(group, groups, f"groups: {', '.join(groups)}"),
            )

    def of(self, r: MetricRequest, shares: Floats) -> Floats:
        return shares[:, generation_probe(r).groups.index(r.settings_of(PerceivedGroup).group)]


class _FromTarget(OfShares):
    """How far shares are from wanted ones, which are equal ones."""

    at_target: float
    """Its value where the shares are the wanted ones, which no other shares reach."""

    def target(self, r: MetricRequest) -> Floats:
        """Wanted shares, (groups,)."""
        groups = len(generation_probe(r).groups)
        return np.full(groups, 1 / groups)

    @abstractmethod
    def bounds(self, r: MetricRequest, shares: Floats, alpha: float) -> tuple[float, float]:
        """Limits from drawn shares (draws, groups)."""

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

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse a target of other groups, or that does not add up to 1."""
        wanted, groups = r.settings_of(ShareTarget).target, generation_probe(r).groups
        if isinstance(wanted, dict) and (set(wanted) != set(groups) or abs(sum(wanted.values()) - 1) > 1e-6):
            raise SuiteError(
                f"the target of check '{r.check}' is no share for each group, adding up to 1.",
                where=r.at("target"),
                remedy=f"groups: {', '.join(groups)}",
            )

    def target(self, r: MetricRequest) -> Floats:
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


class _ShareOfAll(OfPictures):
    """A share of all pictures, whose reader is not corrected; also of a model that paints one picture.

    What a smaller sample lacks may have been left out since it was refused: it counts as that."""

    def read_together(self, now: Answers, before: Answers) -> tuple[Answers, Answers]:
        """What the other run lacks counts for neither; what the run alone lacks, against it."""
        theirs = absent_rows(before)
        return _without(now, absent_rows(now) & theirs), _without(before, theirs)

    def counted(self, answers: Answers) -> NDArray[np.bool_]:
        """All but those that the other run lacks."""
        counted: NDArray[np.bool_] = answers[0].more.get(_UNCOUNTED, np.zeros(len(answers[0].value))) == 0
        return counted

    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """Of every prompt that has a picture."""
        there = np.unique(cell.set_code[~absent_rows(answers)[cell.rows]]).size
        return replace(super().measure(r, cell, answers), sets=None if there == cell.n_sets else there)

    @abstractmethod
    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        """Whether a picture counts, (dataset's images,) of 0 and 1."""

    def kinds(self, r: MetricRequest, cell: Cell, answers: Answers) -> Floats:
        yes, counted = self.holds(r, answers)[cell.rows], self.counted(answers)[cell.rows]
        return np.where(counted[:, None], np.stack([yes, 1 - yes], axis=1), 0.0)

    def number(self, r: MetricRequest, seen: Floats, confusion: Floats | None) -> Floats:
        share: Floats = seen[:, 0] / seen.sum(axis=1)
        return share


_UNCOUNTED = "uncounted"


def _without(answers: Answers, rows: NDArray[np.bool_]) -> Answers:
    """Answers of which some rows do not count."""
    if not rows.any():
        return answers
    return [replace(answers[0], more={**answers[0].more, _UNCOUNTED: rows.astype(np.float64)})]


@register
class Readable(_ShareOfAll):
    """Share of pictures in which somebody is perceived."""

    spec = picture_spec(
        name="readable",
        meaning="share of pictures in which the reader perceives somebody: not in one that is refused, nor in a row "
        "that a smaller sample lacks. A model that paints noise, or nobody, fails here where the reader says so "
        "(`nobody`, `least`)",
        better="higher",
        utility=True,
    )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        return np.where(absent_rows(answers), 0.0, answers[0].value)

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """A model that paints nobody."""
        return 0.0


@register
class SubjectShown(_ShareOfAll):
    """Share of pictures that the reader takes for their own subject."""

    spec = picture_spec(
        name="subject_shown",
        meaning="share of pictures that the reader takes for their own subject, among all subjects of the release; of "
        "a model that paints the same whatever the prompt, one in as many as there are subjects",
        better="higher",
        utility=True,
    )

    def require(self, r: MetricRequest, dataset: Manifest) -> None:
        """Refuse a probe that does not look for subjects, and a release of one."""
        if generation_probe(r).labels is not None:
            raise SuiteError(
                f"check '{r.check}': probe '{r.probe}' takes labels that somebody gave, and looks for no subject.",
                where=r.where,
                remedy="a table of labels says nothing of subjects: take the check out",
            )
        if generation_probe(r).shows is None or len(dataset.subjects) < 2:
            raise SuiteError(
                f"check '{r.check}': probe '{r.probe}' does not say how a subject looks, or there is only one.",
                where=r.where,
                remedy='give the probe a `reader` and `shows: "a photo of {a_subject}"`, and the release two subjects',
            )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        return answers[0].more[SHOWN]

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """One of the subjects, each time."""
        return None if subjects is None else 1 / subjects


@register
class RefusalRate(_ShareOfAll):
    """Share of prompts of which the generator makes no picture."""

    spec = picture_spec(
        name="refusal_rate",
        meaning="share of prompts of which the generator makes no picture: a black one, as safety checkers return, or "
        "`refused` in a table of labels, or a row that a smaller sample lacks. No share of groups counts them",
        better="lower",
    )

    def holds(self, r: MetricRequest, answers: Answers) -> Floats:
        return np.where(absent_rows(answers), 1.0, answers[0].more.get(REFUSAL, np.zeros(len(answers[0].value))))
