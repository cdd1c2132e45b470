"""One check of a suite, decided: its numbers, its groups, and the verdict."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fairgate.records.metrics import with_k, without_k
from fairgate.records.parts import Number, RecordPart, Status

Verdict = Literal["pass", "fail", "inconclusive", "error"]
Rule = Literal["at_least", "at_most", "no_worse_than"]
Against = Literal["baseline", "anchor"]
Tier = Literal["gate", "watch"]
"""Whether a check decides, or is measured and shown alone."""
Decider = Literal["merge base", "base tip", "default branch", "this change"]
"""Whose definition of the gate decided a check: the stricter one counts."""

STRICTNESS: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "error": 2, "fail": 3}
"""Of a run, and between two readings of one check: a failure outranks an error, which a change may plant to hide it."""

CROSS = " × "
"""Joins the groups, and the attributes, of an intersection."""


class Waiver(RecordPart):
    """Somebody's promise that a check may fail until a date, `until` (ISO, its last day). An expired one waives
    nothing."""

    until: str
    reason: str
    expired: bool


class MemberResult(RecordPart):
    """One image of a set as a report shows it: the group depicted, what was measured, what the model said.

    `correct`: whether `predicted` is the true label; None where nothing was predicted. `right` is what a wrong answer
    should have been, if the probe knows it for every image.
    """

    member: str
    group: str
    value: Number
    predicted: str | None = None
    correct: bool | None = None
    right: str | None = None


class WorstSet(RecordPart):
    """A set, or a single image, that speaks loudest against a check.

    `spread` is how loudly, by the metric: wrong images for accuracy, how far the lowest member is behind its
    set-mates for group_gap, else the spread inside the set. None for a single image.
    """

    set_id: str
    subject: str
    spread: Number
    members: list[MemberResult]


class GroupResult(RecordPart):
    """One group's part in a check. Intervals of `delta` are simultaneous over the check's groups.

    `verdict` is the group's own, with a bound as with a baseline; `inconclusive` also where it is too small to judge.
    None where the metric has no value per group. `attribute` is what it is a group of, one attribute or crossed ones;
    None in records from before there was such a field.
    """

    group: str
    attribute: str | None = None
    value: Number = None
    lo: Number = None
    hi: Number = None
    baseline: Number = None
    delta: Number = None
    delta_lo: Number = None
    delta_hi: Number = None
    p_adjusted: Number = None
    verdict: Verdict | None = None
    status: Status = "ok"
    n_images: int
    n_sets: int


class CheckResult(RecordPart):
    """One check on one subject (or on all of them), or with one word of an association probe, decided.

    `value` with `lo` and `hi` is the estimate and its interval, `interval` how it was found, or why there is none;
    `bound` is what the value was held against (for `no_worse_than`, the margin). `delta` is candidate minus baseline,
    `p_adjusted` the corrected one-sided p-value of "worse than the margin", `test` the test that it and the limits of
    `delta` are from (None where there is none, and in records from before there was such a field). `better` says which
    way the metric is good, if that is known; `k` is where the metric cuts a ranking, and `counted` what it counts if a
    setting names it: a group, an answer, a label. `worst_group` names where a failing check failed. Of a rank metric,
    `null_median` is what a perfectly fair ranker has half of the time and `null_p95` what it is no worse than 95% of
    the time; `tie_at_k` says whether images of equal score are on both sides of the cut, and `tie_lo` and `tie_hi` what
    other orders of them would have made of the value.

    `against` says which of the two a `no_worse_than` check was compared with: the baseline, or the anchor that guards
    against slow drift. Where the base defines the check otherwise than this change, `decided_by` says whose definition
    gave the verdict (the stricter one's), `other_bound` and `other_verdict` what another one says: that of `other_by`,
    in older records the merge base's or else this change's. `judged_on` names the base's release on which the check was
    decided, since it is harder there than on this change's dataset.

    `views` of each image were scored; their mean is its number.

    `only_tempered`: the verdict, and the changes of the groups that settled it, are those at the temperature that gives
    the probe the baseline's mean answer entropy; at the model's own temperature the verdict is milder.

    `repeats` counts the images that the candidate's table lists again; they count once. `equal_pictures` counts
    those of other seeds that equal another one; they count.

    Of an inconclusive comparison, `sets_needed` sets (in groups: of each group) would settle it nine times in ten, were
    the estimate the truth; at a margin of `margin_decided` this very run would pass.

    A check of `tier` "watch" spends no alpha: its comparisons are a family apart, and its verdict decides nothing.

    `value` is the worst of the groups that are in at least `min_sets` sets; smaller ones are not judged.
    """

    id: str
    subject: str | None
    word: str | None = None
    category: str | None = None
    against: Against | None = None
    metric: str
    k: int | None = None
    counted: str | None = None
    probe: str
    views: int = 1
    over: str | None = None
    rule: Rule
    better: Literal["higher", "lower"] | None = None
    value: Number
    status: Status = "ok"
    lo: Number = None
    hi: Number = None
    interval: str | None = None
    bound: Number
    tier: Tier = "gate"
    baseline: Number = None
    delta: Number = None
    delta_lo: Number = None
    delta_hi: Number = None
    p_adjusted: Number = None
    test: str | None = None
    only_tempered: bool = False
    null_median: Number = None
    null_p95: Number = None
    tie_at_k: bool | None = None
    tie_lo: Number = None
    tie_hi: Number = None
    verdict: Verdict
    waiver: Waiver | None = None
    decided_by: Decider | None = None
    other_bound: Number = None
    other_verdict: Verdict | None = None
    other_by: Decider | None = None
    judged_on: str | None = None
    n_sets: int
    repeats: int = 0
    equal_pictures: int = 0
    min_sets: int | None = None
    sets_needed: int | None = None
    margin_decided: Number = None
    reason: str
    worst_group: str | None = None
    groups: list[GroupResult] = Field(default_factory=list)
    worst_sets: list[WorstSet] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _k_apart(cls, given: Any) -> Any:
        """Older records have no `k`: it is in the metric's name."""
        if not isinstance(given, dict) or "k" in given or not isinstance(given.get("metric"), str):
            return given
        metric, k = without_k(given["metric"])
        return {**given, "metric": metric, "k": k}

    @property
    def metric_with_k(self) -> str:
        """The metric's name with its k: `max_skew_at_100`."""
        return with_k(self.metric, self.k)

    @property
    def item(self) -> str:
        """The check's name in pytest ids and tables: `skew[doctor]`, `c-asc[nurse]`, or `skew` of all subjects;
        `no-regression@anchor` where the anchor is what it was compared with."""
        return item_name(self.id, self.about, self.against)

    @property
    def waived(self) -> bool:
        """Whether a waiver that is still good keeps this verdict from closing the gate; what could not be computed is
        never waived."""
        return self.waiver is not None and not self.waiver.expired and self.verdict in ("fail", "inconclusive")

    @property
    def watched(self) -> bool:
        """Whether the check is measured and shown, and decides nothing; what could not be computed always counts."""
        return self.tier == "watch" and self.verdict != "error"

    @property
    def excuse(self) -> Literal["waived", "watched"] | None:
        """Why its verdict does not count; None if it does."""
        return "waived" if self.waived else "watched" if self.watched else None

    @property
    def excused(self) -> bool:
        """Whether its verdict does not count."""
        return self.excuse is not None

    @property
    def worst(self) -> GroupResult | None:
        """The group that `worst_group` names."""
        return next((group for group in self.groups if group.group == self.worst_group), None)

    @property
    def units(self) -> int:
        """How many sets, or images, the value is made of: its group's, if it is a group's."""
        worst = self.worst
        return self.n_sets if worst is None or worst.value != self.value else worst.n_sets

    @property
    def failing_groups(self) -> list[GroupResult]:
        """Every group that failed by itself, in the order of `groups`."""
        return [group for group in self.groups if group.verdict == "fail"]

    @property
    def small_groups(self) -> list[GroupResult]:
        """Every group that is in too few sets to be judged, in the order of `groups`."""
        return [group for group in self.groups if self.min_sets is not None and group.n_sets < self.min_sets]

    @property
    def undecided_groups(self) -> list[GroupResult]:
        """Every group without a verdict of its own: too small to judge, or too uncertain."""
        return [group for group in self.groups if group.verdict == "inconclusive"]

    @property
    def about(self) -> str | None:
        """The subject, word or category that this item of the check is about; None where it is about all of them."""
        return self.subject or self.word or self.category


def item_name(check: str, about: str | None = None, against: Against | None = None) -> str:
    """A check's item, as pytest ids and tables name it.

    >>> item_name("no-regression", "doctor", "anchor")
    'no-regression@anchor[doctor]'
    """
    name = f"{check}@anchor" if against == "anchor" else check
    return name if about is None else f"{name}[{about}]"
