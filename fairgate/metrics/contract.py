"""The contract of a metric: its spec and settings, and how it is measured, resampled and compared with chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from fairgate.data import Manifest
from fairgate.formulas.metrics import NullSkew
from fairgate.formulas.statistics import Entries, ImageNumbers, Interval, Unavailable
from fairgate.ground.plugins import Registry
from fairgate.metrics.cell import Cell, Counts, Crossing, Floats
from fairgate.probes import Probe, ProbeScores
from fairgate.records import Extreme, MetricSpec

Answers = Sequence[ProbeScores]
"""The scores that a metric reads: those of its probe, or one per word of an association."""

Parts = tuple[tuple[Floats, ...], ...]
"""By grouping and query, what the value is an extreme of: (parts,), or (draws, parts) of resamples. The value is the
worst grouping's mean over queries of the extreme part."""

Units = NDArray[np.int64] | None
"""The block of every set, (sets,), if blocks of sets are drawn; None: the sets are."""

FairRankings = dict[tuple[object, ...], tuple[Floats, ...]]
"""By a gallery's composition, which subjects often share, (draws, parts) of fair rankers for every grouping."""

CLASSIFIED = ("zero_shot_classification",)
PREDICTED = ("prediction",)
RETRIEVED = ("retrieval",)
RANKED = ("retrieval", "association")


class MetricSettings(BaseModel):
    """A metric's settings in a check, other than its bound; the base of every metric's own `Settings`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @property
    def counted(self) -> str | None:
        """What the metric counts, where a setting names it, as reports write it: `female`, `'nurse'`."""
        return None

    def refusal(self, over: str | Sequence[str] | None) -> tuple[str, str, str] | None:
        """Why a check with these settings over these groups makes no sense, a remedy and the key; None if it does."""
        return None

    def compared(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Of a grouping's groups, the positions of those that the metric is about: all."""
        return np.arange(len(names))


class Cut(MetricSettings):
    """The top k of a ranking, compared with the shares of groups in the gallery, or with equal ones."""

    k: int = Field(ge=1)
    desired: Literal["dataset", "uniform"] = "dataset"


S = TypeVar("S", bound=MetricSettings)


@dataclass(frozen=True, slots=True)
class MetricRequest:
    """A check, as its metric reads it.

    `words` are those of an association probe that the value averages over; of other probes there are none. `crossings`
    are the attributes that make the groups. `where` is the check's place in its suite, `keys` that of its keys. Groups
    in fewer than `min_sets` sets are not judged. `asked` is the probe with its settings, if the check is a suite's.
    `clusters`: the sets are clusters of images that depend on each other, and not counterfactual.
    """

    check: str
    metric: str
    probe: str
    settings: MetricSettings
    crossings: tuple[Crossing, ...] = ()
    subject: str | None = None
    words: tuple[str, ...] = ()
    where: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    min_sets: int = 0
    asked: Probe | None = None
    clusters: bool = False

    @property
    def truth_of(self) -> str | None:
        """What the probe's right labels are of, an attribute or `subject`."""
        return None if self.asked is None else self.asked.truth_of

    @property
    def cut(self) -> Cut:
        """The settings of a metric of the top k."""
        return self.settings_of(Cut)

    def settings_of(self, kind: type[S]) -> S:
        """The check's settings, which are of the kind that its metric declares."""
        assert isinstance(self.settings, kind)
        return self.settings

    def at(self, key: str) -> str:
        """The place of a key in the suite."""
        return self.keys.get(key, self.where)


@dataclass(frozen=True, slots=True)
class Counted:
    """Images of every group that the metric is about in the top k and in the gallery, both (queries, groups),
    groupings one after another."""

    shown: Floats
    images: Floats


@dataclass(frozen=True, slots=True)
class Drawn:
    """A statistic under resampled sets: `value` (draws,), `groups` (draws, groups) and `parts` where it has them."""

    value: Floats
    groups: Floats | None = None
    parts: Parts = ()


@dataclass(frozen=True, slots=True)
class Ties:
    """Whether ties decided what a check counted, and the range of its value over all orders of the tied images (None
    where the value depends on every place)."""

    decided: bool
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """A statistic that is made of the groups' means: `sums` of every set's images in every group, with their number as
    weight, and what `finish` makes of resampled means (draws, groups), NaN for a group without an image."""

    sums: Entries | ImageNumbers
    finish: Callable[[Floats], Drawn]


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric on one cell.

    `value` is the worst of the groups that are `judged` (groups,), those with enough sets; where none is, of all. A
    metric may leave out groups that it cannot judge for another reason. `blocks`: the number of groups of every part.
    `draw(counts)` maps set multiplicities (draws, sets) to the statistic. `extreme` with `parts` says what the value is
    an extreme of; without, it is a plain statistic. `paired` (sets, groups), for metrics that are means over sets, is
    what a paired test compares, each set with the weight of its `weights` (sets, groups), the images in it; `images`
    (images,), where images form no sets and their groups are compared with each other, is that instead. Without either,
    two runs are compared in resamples: of the `value`, or as `resampled` says of every group's value or its size.
    `badness` (sets,), or what makes it, and `group_badness` (groups,) rank sets and groups, the worst highest.
    `counted` is what a rank metric was computed from; `ties` says how far the order of equal scores decided it.
    `repeats` counts the images that are listed again and left out, `equal` those that equal another one and count.
    Of very many sets blocks are drawn (`Resamples`): means of groups give `means`, and `in_blocks` maps multiplicities
    of blocks, with the block of every set (sets,), to the statistic. Without either, `draw` gets those of its sets.
    `sets` is how many sets the value is made of, where these are not all; `evidence` says what sets are counted by,
    there and in `group_sets`, where it is not a number alone: `of the rarest label`.
    """

    value: float
    draw: Callable[[Counts], Drawn]
    badness: Floats | Callable[[], Floats]
    groups: list[str] = field(default_factory=list)
    group_values: Floats = field(default_factory=lambda: np.empty(0))
    group_badness: Floats = field(default_factory=lambda: np.empty(0))
    group_images: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group_sets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    paired: Floats | Entries | ImageNumbers | None = None
    weights: Floats | None = None
    means: Means | None = None
    in_blocks: Callable[[Counts, NDArray[np.int64]], Drawn] | None = None
    resampled: Literal["check", "groups", "sizes"] = "check"
    images: Floats | None = None
    extreme: Extreme | None = None
    parts: Parts = ()
    counted: Counted | None = None
    ties: Callable[[], Ties] | None = None
    blocks: tuple[int, ...] = ()
    judged: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    sets: int | None = None
    evidence: str = ""
    repeats: int = 0
    equal: int = 0

    def through(self, after: Callable[[Drawn], Drawn], **changed: Any) -> Measure:
        """The measure with other fields, and what `after` makes of its resamples."""
        draw, means, in_blocks = self.draw, self.means, self.in_blocks
        if means is not None:
            finish = means.finish
            changed["means"] = replace(means, finish=lambda drawn: after(finish(drawn)))
        if in_blocks is not None:
            changed["in_blocks"] = lambda counts, unit: after(in_blocks(counts, unit))
        return replace(self, draw=lambda counts: after(draw(counts)), **changed)

    def set_badness(self) -> Floats:
        """`badness`, (sets,)."""
        return self.badness() if callable(self.badness) else self.badness

    def numbers_alone(self) -> Measure:
        """Its numbers alone: what it was measured and resampled from is let go."""
        return replace(self, draw=_gone, paired=None, weights=None, means=None, in_blocks=None, images=None, ties=None)

    @property
    def judged_or_all(self) -> NDArray[np.bool_]:
        """The groups that the value is taken over, (groups,): those that are judged; where none is, all."""
        return self.judged if self.judged.any() else np.ones(len(self.groups), dtype=bool)

    @property
    def by_draws(self) -> bool:
        """Whether two runs are compared in resamples of the statistic: tests of means resample by themselves."""
        return self.paired is None and self.images is None

    @property
    def group_by_group(self) -> bool:
        """Whether two runs are compared in every group, and not by the check's value."""
        return bool(self.groups) and not (self.by_draws and self.resampled == "check")

    def compared(self, drawn: Drawn) -> Floats:
        """What is compared of resamples, (draws, groups), or (draws, 1) of the check's value."""
        numbers = drawn.groups if self.group_by_group and drawn.groups is not None else drawn.value[:, None]
        return np.abs(numbers) if self.resampled == "sizes" else numbers


def _gone(_: Counts) -> Drawn:
    raise AssertionError("of this measure the numbers alone were kept, which cannot be resampled")


@dataclass(frozen=True, slots=True)
class Limits:
    """`lo` and `hi` of the value, None where no interval would cover; `how` they were found, or why there are none.

    Every group has limits of its own, `group_lo` and `group_hi` (groups,), found as `group_how` says.
    """

    lo: float | None
    hi: float | None
    how: str
    group_lo: Floats | None = None
    group_hi: Floats | None = None
    group_how: str = ""

    def inside(self, spec: MetricSpec) -> Limits:
        """These limits without what the metric's value cannot be: Student's t knows no end."""
        if self.lo is None or self.hi is None:
            return self
        lo, hi = (min(max(limit, spec.lowest), spec.highest) for limit in (self.lo, self.hi))
        return replace(self, lo=lo, hi=hi)


class Metric(ABC):
    """One metric: its `spec`, the `Settings` it takes, and what follows from a probe's answers.

    A metric of one's own needs `spec` and `measure`; the other methods have defaults. Register it with the entry point
    group `fairgate.metrics`, under its spec's name.
    """

    spec: ClassVar[MetricSpec]
    Settings: ClassVar[type[MetricSettings]] = MetricSettings

    def spec_for(self, settings: MetricSettings) -> MetricSpec:
        """The spec under a check's settings, which may turn `better`."""
        return self.spec

    @property
    def needs_k(self) -> bool:
        """Whether it cuts a ranking."""
        return "k" in self.Settings.model_fields

    @property
    def counts_groups(self) -> bool:
        """Whether it counts groups in a top k: chance alone moves it, so that a fair ranker's value is next to it."""
        return self.needs_k and self.spec.rankings

    @property
    def cuts_galleries(self) -> bool:
        """Whether its `k` is of whole galleries, as the tables of an audit are, and not of parts of them."""
        return self.counts_groups

    def require(self, r: MetricRequest, dataset: Manifest) -> None:  # noqa: B027
        """Raise SuiteError for a request that makes no sense on a dataset."""

    def read_together(self, now: Answers, before: Answers) -> tuple[Answers, Answers]:
        """The answers of a run and of the run that it is compared with, as this metric measures them: as they are."""
        return now, before

    @abstractmethod
    def measure(self, r: MetricRequest, cell: Cell, answers: Answers) -> Measure:
        """The value, its groups and how it is resampled. Raises a FairgateError for what cannot be measured."""

    def interval(self, r: MetricRequest, cell: Cell, now: Measure, drawn: Drawn, alpha: float) -> Limits:
        """Limits of a measured and resampled value at confidence 1 - alpha, or why there are none."""
        if now.extreme is not None:
            return limits_of(Unavailable("the value is its worst group's"), cell, drawn, alpha)
        lo, hi = (float(limit) for limit in percentiles(drawn.value, alpha))
        return limits_of(Interval(now.value, lo, hi, "percentile", len(drawn.value)), cell, drawn, alpha)

    def fair_chance(self, r: MetricRequest, cell: Cell, rankings: FairRankings) -> NullSkew | None:
        """The value of a perfectly fair ranker; None for what is no count of a top k."""
        return None

    def blind_value(self, settings: MetricSettings, labels: int, subjects: int | None) -> float | None:
        """The value of a model that answers the same for every image, among so many `labels` (1: each image has its own
        labels) and `subjects` (None: not known yet); None for what does not say whether a model is of use."""
        return None


def percentiles(draws: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Percentile interval along the draws. A resample whose statistic is infinite (an absent group) stays infinite."""
    quantile = np.nanquantile if np.isnan(draws).any() else np.quantile  # which takes a third of the time
    lo, hi = quantile(draws, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    return lo, hi


def limits_of(
    interval: Interval | Unavailable, cell: Cell, drawn: Drawn, alpha: float, *, how: str | None = None
) -> Limits:
    """An interval of the value, with percentiles of every group; `how` it was found (None: as percentiles too)."""
    plain = f"{1 - alpha:.0%} bootstrap of {cell.drawn}, percentile"
    lows, highs = percentiles(drawn.groups, alpha) if drawn.groups is not None else (None, None)
    if isinstance(interval, Unavailable):
        reason = interval.reason.replace(" sets ", f" {cell.unit} ")
        return Limits(None, None, f"no interval: {reason}", lows, highs, plain)
    return Limits(interval.lo, interval.hi, how or plain, lows, highs, plain)


def _checked(_: str, thing: Any) -> Metric:
    metric = thing() if isinstance(thing, type) and issubclass(thing, Metric) else thing
    if not isinstance(metric, Metric):
        raise TypeError("it is no fairgate.metrics.Metric")
    return metric


REGISTERED: Registry[Metric] = Registry("metric", _checked, lambda metric: metric.spec.name)
register = REGISTERED.add
