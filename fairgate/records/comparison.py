"""The audit record: many models on one suite's dataset and probes; every table, page and file is rendered from it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from fairgate.records.parts import DatasetInfo, Environment, Number, RecordPart, Status

Conclusion = Literal["first_fairer", "second_fairer", "alike", "unsettled"]
Agreement = Literal["agree", "pairing", "few_sets", "cancels", "independence", "opposite"]
Outcome = Literal["correct", "p_true", "p_positive"]
OUTCOMES: Final[dict[Outcome, str]] = {
    "correct": "right answers",
    "p_true": "P(true label)",
    "p_positive": "P(positive label)",
}


class AuditedModel(RecordPart):
    """One checkpoint under the short name that tables call it by."""

    name: str
    uri: str
    fingerprint: str
    precision: str | None = None
    device: str
    scores_digest: str


class FairnessRow(RecordPart):
    """One model on one subject (None: on all): F_M with the interval of its median's order statistics (absent under 6
    sets), and accuracy with a set-bootstrap interval.

    `fairness` is absent where images are no counterfactual sets.
    """

    model: str
    subject: str | None
    fairness: Number = None
    lo: Number = None
    hi: Number = None
    accuracy: Number
    accuracy_lo: Number
    accuracy_hi: Number
    n_sets: int
    n_images: int


class PairRow(RecordPart):
    """Two models on the same sets; differences are second minus first.

    `delta` is the difference of F_M between paired bootstrap limits; `p_mood` Mood's median test of the spreads inside
    sets as if each model had sets of its own, `p_mood_adjusted` after Bonferroni. `spread_delta` is the mean change of
    the spread, set by set, with `p_paired` that there is none. Limits and adjusted p-values hold for all pairs of
    models on one subject at once. `conclusion` weighs the paired limits against the margin.
    """

    first: str
    second: str
    subject: str | None
    n_sets: int
    delta: Number = None
    lo: Number = None
    hi: Number = None
    p_mood: Number = None
    p_mood_adjusted: Number = None
    spread_delta: Number = None
    spread_lo: Number = None
    spread_hi: Number = None
    p_paired: Number = None
    accuracy_delta: Number = None
    accuracy_lo: Number = None
    accuracy_hi: Number = None
    p_accuracy: Number = None
    conclusion: Conclusion | None = None
    agreement: Agreement | None = None


class EffectRow(RecordPart):
    """A group's effect on an outcome against the reference group: OLS, standard errors clustered by set.

    `p_adjusted` is after Holm, over all models and groups of the same attributes (and subjects, where by subject).
    Where every set shows exactly the same difference there is no spread and no interval; p is then that of a sign test
    over the sets.
    """

    model: str
    subject: str | None
    over: str
    outcome: Outcome
    reference: str
    reference_mean: Number
    group: str
    effect: Number
    lo: Number = None
    hi: Number = None
    p: Number
    p_adjusted: Number
    n_sets: int
    n_images: int


class Refusal(RecordPart):
    """Something that could not be computed, and why: a status, never a zero."""

    what: str
    model: str | None = None
    subject: str | None = None
    over: str | None = None
    reason: str


class TakenFor(RecordPart):
    """How many images of one group of the attributes `over`, of one subject, a model took for another label."""

    model: str
    subject: str
    over: str
    group: str
    predicted: str
    count: int
    total: int


class ClassificationAudit(RecordPart):
    """Everything about one zero-shot probe."""

    kind: Literal["zero_shot_classification"] = "zero_shot_classification"
    name: str
    digest: str
    margin: float
    fairness: list[FairnessRow]
    pairs: list[PairRow]
    effects: list[EffectRow]
    taken: list[TakenFor]
    refusals: list[Refusal] = Field(default_factory=list)


class ImplicitRow(RecordPart):
    """How probable a model finds the positive label for one group, and how far from the group's set-mates.

    `lo` and `hi` are percentiles of the mean in resampled sets, absent where a resample lacks a group. `within_sets` is
    absent where no set shows every group.
    """

    model: str
    over: str
    group: str
    mean: float
    lo: Number = None
    hi: Number = None
    within_sets: Number = None
    n_images: int
    n_sets: int


class ImplicitAudit(RecordPart):
    """Everything about one probe that no image is right or wrong about: P("a trustworthy person"), say (paper 1).

    `spreads` are highest means of a group less lowest, by which paper 1 compares models, of no check.
    """

    kind: Literal["implicit_association"] = "implicit_association"
    name: str
    digest: str
    positive: str
    groups: list[ImplicitRow]
    spreads: list[MetricRow] = Field(default_factory=list)
    effects: list[EffectRow]
    refusals: list[Refusal] = Field(default_factory=list)


class _Ranked(RecordPart):
    """A number of one model's rankings, cut at k, over the groups of one or more attributes."""

    model: str
    over: str
    k: int


class SkewRow(_Ranked):
    """MaxSkew@K of one model on one gallery, and what a perfectly fair ranker has by chance.

    `subject` is a subject, or the word of an association. `favoured` is the group that is most over-represented;
    `tied`: equal scores at the cut, so that order decided.
    """

    subject: str
    value: Number
    status: Status = "ok"
    favoured: str
    null_median: float
    null_p95: float
    tied: bool


class RecallRow(RecordPart):
    """R@K: how often an image's own subject's query is among the k nearest of all subjects', with its interval."""

    model: str
    k: int
    value: float
    lo: float
    hi: float
    n_sets: int


class SkewSummary(_Ranked):
    """The distribution over subjects of MaxSkew@K; `beyond` counts subjects above their fair ranker's 95% point. `lo`
    and `hi` are the gate's limits of the mean, in an endless gallery; `interval` tells how, or why there are none."""

    mean: Number
    lo: Number = None
    hi: Number = None
    interval: str | None = None
    lowest: Number
    lower_quartile: Number
    median: Number
    upper_quartile: Number
    highest: Number
    null_median: float
    null_p95: float
    beyond: int
    subjects: int


class RetrievalAudit(RecordPart):
    """Everything about one probe that ranks images: by their own subject's query (`kind` is then "retrieval", also for
    a probe of an installed package), or all of them by words ("association")."""

    kind: Literal["retrieval", "association"]
    name: str
    digest: str
    recall: list[RecallRow] = Field(default_factory=list)
    skews: list[SkewRow]
    summaries: list[SkewSummary]
    refusals: list[Refusal] = Field(default_factory=list)


class MetricRow(RecordPart):
    """A metric of the suite's checks on one model: of a subject, word or category (None: of all), over groups or none.

    The interval is absent where the metric has none; `interval` then says why. `worst_group` is the group that the
    value is of, where it is of one, and `check` the first of the checks that measure it.
    """

    model: str
    metric: str
    k: int | None = None
    subject: str | None
    over: str | None
    value: Number
    status: Status = "ok"
    lo: Number = None
    hi: Number = None
    interval: str | None = None
    worst_group: str | None = None
    check: str
    n_sets: int


class MetricsAudit(RecordPart):
    """The metrics of one probe's checks for which the audit has no table of their own, such as an installed
    package's."""

    name: str
    digest: str
    rows: list[MetricRow]
    refusals: list[Refusal] = Field(default_factory=list)


ProbeAudit = Annotated[ClassificationAudit | ImplicitAudit | RetrievalAudit, Field(discriminator="kind")]


class AuditDecision(RecordPart):
    """How tests and intervals were made."""

    alpha: float
    seed: int
    draws: int
    reference: dict[str, str]


class AuditRecord(RecordPart):
    """The versioned result of an audit: audit.json.

    `left_out` names crossed attributes that were not looked at, and why: too few sets in some group. `metrics` holds
    those of the suite's checks that `probes` has no table of. `refused` names models, by their address, that lack what
    a probe needs.
    """

    schema_version: Literal[1] = 1
    suite: str
    suite_digest: str
    dataset: DatasetInfo
    n_sets: int
    n_images: int
    models: list[AuditedModel]
    decision: AuditDecision
    probes: list[ProbeAudit]
    metrics: list[MetricsAudit] = Field(default_factory=list)
    left_out: dict[str, str] = Field(default_factory=dict)
    refused: list[Refusal] = Field(default_factory=list)
    environment: Environment
    command: str
    created_at: str
    seconds: float


class AuditCollection(RecordPart):
    """Audits of several suites on the same models: audits.json. `left_out`: why a suite could measure no model."""

    schema_version: Literal[1] = 1
    audits: list[AuditRecord]
    left_out: dict[str, str] = Field(default_factory=dict)
    command: str
