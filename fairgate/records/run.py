"""The run record: the one typed result that every table, page, file and later baseline is rendered from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints, model_validator

from fairgate.ground.errors import readable
from fairgate.records.metrics import with_k, without_k

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["pass", "fail", "inconclusive", "error"]
Rule = Literal["at_least", "at_most", "no_worse_than"]
Against = Literal["baseline", "anchor"]
Decider = Literal["merge base", "base tip", "default branch", "this change"]
"""Whose definition of the gate decided a check: the stricter one counts."""

OPEN, SHUT, NO_VERDICT, NEEDS_APPROVAL = 0, 1, 3, 10
"""Exit codes of a run whose suite and options are valid; 4 is for those that are not. 10 is outside pytest's own."""

ApprovalKind = Literal[
    "dataset", "tokenizer", "preprocessing", "anchor", "plugin", "table", "definition", "model", "record"
]
"""What a person has to weigh before it is merged."""

STRICTNESS: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "error": 2, "fail": 3}
"""Of a run, and between two readings of one check: a failure outranks an error, which a change may plant to hide it."""

CROSS = " × "
"""Joins the groups, and the attributes, of an intersection."""


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


Number = Annotated[float | None, PlainSerializer(_finite, return_type=float | None, when_used="json")]
"""A measured number; absent (None) rather than invented. JSON has null for a non-finite one, and a `status`."""

Entropy = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Status = Literal["ok", "infinite", "absent"]


def status_of(value: float | None) -> Status:
    """What became of a number: `ok`, `infinite` (an absent group has a skew of -inf), or `absent`."""
    if value is None or math.isnan(value):
        return "absent"
    return "ok" if math.isfinite(value) else "infinite"


def _readable(value: Any) -> Any:
    """Plain data with every text of it `readable`."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, list | tuple) else value


class RecordPart(BaseModel):
    """A record or a part of one: frozen, strict about unknown keys, with text that every file can hold (`readable`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, given: Any) -> Any:
        return _readable(given)


class DatasetInfo(RecordPart):
    """The release that was scored. `fingerprint` names its content, not its files."""

    name: str
    version: str
    fingerprint: str
    counterfactual: bool
    attributes: dict[str, list[str]]
    notice: str | None = None


class ModelInfo(RecordPart):
    """A checkpoint: where it was loaded from and the hash of its bytes. `registered` is the version of a model that
    MLflow's registry holds, `NAME/3`, also where the URI names it by an alias; `preparation` is the code that prepared
    images and prompts, `open_clip/1`. `tokenizer` and `preprocessing` are digests of the files and settings that turn
    text into tokens and pictures into tensors; `logit_scale` multiplies cosines before the softmax. Each is None where
    it is not known (a table of scores, a record from before there were such fields)."""

    uri: str
    fingerprint: str
    precision: str | None = None
    registered: str | None = None
    preparation: str | None = None
    tokenizer: str | None = None
    preprocessing: str | None = None
    logit_scale: Number = None


class BaselineInfo(RecordPart):
    """What the candidate was compared with.

    `commit` is where `git:` found its record: the merge base. `rescored` says why the baseline's checkpoint was scored
    in this run instead of read from its record. `unchanged`: the candidate is this very checkpoint, so that every
    difference is zero.
    """

    source: str
    uri: str
    fingerprint: str
    created_at: str | None = None
    commit: str | None = None
    rescored: str | None = None
    unchanged: bool = False


class DefinitionChange(RecordPart):
    """One thing that a change alters in the gate itself: `checks.skew.at_most`, as text before and now.

    None: it was not there before, or is not there now.
    """

    what: str
    before: str | None
    now: str | None


class OtherDefinition(RecordPart):
    """The gate as another branch defines it today, where that is neither this change's definition nor the merge base's.

    `changes` lead from this change to that branch: `before` is this change's text, `now` the branch's.
    """

    decider: Decider
    ref: str
    commit: str
    suite_digest: str
    changes: list[DefinitionChange] = Field(default_factory=list)


class GateDefinition(RecordPart):
    """The gate as the merge base defines it, compared with the one of this change. No changes: they are the same.

    `suite_digest` is None where the merge base has no such suite. `others` are the definitions of the base's tip, and
    of the default branch where that is not the base, as far as they differ from both.
    """

    source: str
    commit: str
    suite_digest: str | None
    changes: list[DefinitionChange] = Field(default_factory=list)
    others: list[OtherDefinition] = Field(default_factory=list)


class NeededApproval(RecordPart):
    """A change that a person has to weigh: `what` is a sentence for a reviewer, `before` and `now` are digests of what
    the default branch (or the baseline) and this change have; `none` if they have nothing."""

    kind: ApprovalKind
    what: str
    before: str
    now: str


class Waiver(RecordPart):
    """Somebody's promise that a check may fail until a date, `until` (ISO, its last day). An expired one waives
    nothing."""

    until: str
    reason: str
    expired: bool


ProbeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=80)]


class Coverage(RecordPart):
    """Expected against scored. Anything missing makes the run an error. `unasked` counts, by probe, the images that the
    suite leaves out: they are in no numerator and no denominator."""

    expected_sets: int
    scored_sets: int
    expected_images: int
    scored_images: int
    prompts: int
    missing: list[str] = Field(default_factory=list)
    unasked: dict[ProbeName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether everything that was expected was scored."""
        return (
            not self.missing and self.expected_sets == self.scored_sets and self.expected_images == self.scored_images
        )


class MemberResult(RecordPart):
    """One image of a set as a report shows it: the group depicted, what was measured, what the model said.

    `correct`: whether `predicted` is the true label; None where nothing was predicted.
    """

    member: str
    group: str
    value: Number
    predicted: str | None = None
    correct: bool | None = None


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
    `p_adjusted` the corrected one-sided p-value of "worse than the margin". `better` says which way the metric is good,
    if that is known; `k` is where the metric cuts a ranking, and `counted` what it counts if a setting names it: a
    group, an answer, a label. `worst_group` names where a failing check failed. Of a rank metric, `null_median` is what
    a perfectly fair ranker has half of the time and `null_p95` what it is no worse than 95% of the time; `tie_at_k`
    says whether images of equal score are on both sides of the cut, and `tie_lo` and `tie_hi` what other orders of them
    would have made of the value.

    `against` says which of the two a `no_worse_than` check was compared with: the baseline, or the anchor that guards
    against slow drift. Where the base defines the check otherwise than this change, `decided_by` says whose definition
    gave the verdict (the stricter one's), `other_bound` and `other_verdict` what another one says: that of `other_by`,
    in older records the merge base's or else this change's. `judged_on` names the base's release on which the check was
    decided, since it is harder there than on this change's dataset.

    `only_tempered`: the verdict, and the changes of the groups that settled it, are those at the temperature that gives
    the probe the baseline's mean answer entropy; at the model's own temperature the verdict is milder.

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
    over: str | None = None
    rule: Rule
    better: Literal["higher", "lower"] | None = None
    value: Number
    status: Status = "ok"
    lo: Number = None
    hi: Number = None
    interval: str | None = None
    bound: Number
    baseline: Number = None
    delta: Number = None
    delta_lo: Number = None
    delta_hi: Number = None
    p_adjusted: Number = None
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
    min_sets: int | None = None
    sets_needed: int | None = None
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


class Misclassification(RecordPart):
    """How often members of one group, of one subject, were taken for another label."""

    probe: str
    subject: str
    group: str
    predicted: str
    count: int
    total: int


class Decision(RecordPart):
    """How verdicts were reached."""

    alpha: float
    correction: str
    seed: int
    draws: int


class Environment(RecordPart):
    """Where the run took place. Never part of a verdict. `git_height` counts the commits that led here, and `processor`
    is the model of the CPU (None if it is not known, or in older records).

    `plugins` are the installed packages of which a metric, probe or model was used, as `VERSION sha256:CODE`; None in
    records from before there was such a field.
    """

    fairgate: str
    python: str
    platform: str
    device: str
    processor: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    plugins: dict[str, str] | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    git_branch: str | None = None
    git_height: int | None = None
    pull_request: int | None = None
    ci_url: str | None = None


class RunRecord(RecordPart):
    """The versioned result of one suite on one checkpoint: results.json, and the next run's baseline.

    `definition` compares the gate with that of the base, where there is one. `notices` are sentences
    about what the change alters besides the weights (another tokenizer, dataset release, label temperature, source of
    scores), which a reviewer sees next to the verdict. `needs_approval` lists those that the
    default branch has to approve before the gate opens. `warnings` are about where the two runs took place (other
    versions, device, precision). `answer_entropy` is the mean entropy of a classification's answers in nats, by probe
    and subject: it differs from the baseline's where the label temperature does. `baseline_reason` is why this record
    became a baseline.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    suite: str
    suite_digest: str
    verdict: Verdict
    allow_inconclusive: bool = False
    dataset: DatasetInfo
    model: ModelInfo
    baseline: BaselineInfo | None
    anchor: BaselineInfo | None = None
    definition: GateDefinition | None = None
    coverage: Coverage
    probes: dict[str, str]
    scores_digest: str | None = None
    answer_entropy: dict[str, dict[str, Entropy]] = Field(default_factory=dict)
    decision: Decision
    checks: list[CheckResult]
    confusions: list[Misclassification] = Field(default_factory=list)
    environment: Environment
    notices: list[str] = Field(default_factory=list)
    needs_approval: list[NeededApproval] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    baseline_reason: str | None = None
    command: str
    created_at: str
    seconds: float

    @property
    def passes(self) -> bool:
        """Whether all checks passed, or are inconclusive if the run allows that; the change may still need approval."""
        return self.verdict == "pass" or (self.verdict == "inconclusive" and self.allow_inconclusive)

    @property
    def ok(self) -> bool:
        """Whether the gate is open: the checks pass, and nothing has to be approved."""
        return self.passes and not self.needs_approval

    @property
    def exit_code(self) -> int:
        """0: the gate is open; 1: the model is judged and something failed, or the evidence is too thin; 3: no verdict,
        since something could not be computed and nothing failed; 10: the checks pass, and a person has to approve
        `needs_approval`."""
        if self.passes:
            return NEEDS_APPROVAL if self.needs_approval else OPEN
        failed = any(check.verdict == "fail" and not check.waived for check in self.checks)
        return NO_VERDICT if self.verdict == "error" and not failed else SHUT

    @property
    def decided(self) -> Verdict:
        """The verdict that the checks add up to: waived ones aside, the most severe. A record that says otherwise of
        itself was forged or damaged."""
        return overall([check.verdict for check in self.checks if not check.waived])

    @property
    def closing(self) -> list[CheckResult]:
        """The checks that close the gate, in the record's order: what neither passed, is waived, nor may be
        inconclusive."""
        allowed = ("pass", "inconclusive") if self.allow_inconclusive else ("pass",)
        return [check for check in self.checks if check.verdict not in allowed and not check.waived]

    def counts(self) -> dict[Verdict, int]:
        """Number of checks per verdict, every verdict named; waived ones count as what they are."""
        return {verdict: sum(check.verdict == verdict for check in self.checks) for verdict in STRICTNESS}


def item_name(check: str, about: str | None = None, against: Against | None = None) -> str:
    """A check's item, as pytest ids and tables name it.

    >>> item_name("no-regression", "doctor", "anchor")
    'no-regression@anchor[doctor]'
    """
    name = f"{check}@anchor" if against == "anchor" else check
    return name if about is None else f"{name}[{about}]"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a run: the most severe of its checks'. No check at all is an error, never a pass."""
    return max(verdicts, key=lambda verdict: STRICTNESS[verdict], default="error")
