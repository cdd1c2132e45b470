"""The run record: the one typed result that every table, page, file and later baseline is rendered from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from fairgate.records.check import STRICTNESS, CheckResult, Decider, Verdict
from fairgate.records.parts import DatasetInfo, Entropy, Environment, ModelInfo, RecordPart, same_architecture

SCHEMA_VERSION: Literal[1] = 1

OPEN, SHUT, NO_VERDICT, NEEDS_APPROVAL = 0, 1, 3, 10
"""Exit codes of a run whose suite and options are valid; 4 is for those that are not. 10 is outside pytest's own."""

ApprovalKind = Literal[
    "dataset", "tokenizer", "preprocessing", "anchor", "plugin", "table", "definition", "model", "record", "server"
]
"""What a person has to weigh before it is merged."""


class BaselineInfo(RecordPart):
    """What the candidate was compared with.

    `commit` is where `git:` found its record: the merge base. `rescored` says why the baseline's checkpoint was scored
    in this run instead of read from its record. `unchanged`: the candidate is this very checkpoint, so that every
    difference is zero. `weights` is that of a saved record, as in `ModelInfo`: of a baseline that was named as a model,
    another architecture is meant.
    """

    source: str
    uri: str
    fingerprint: str
    created_at: str | None = None
    commit: str | None = None
    rescored: str | None = None
    unchanged: bool = False
    weights: Annotated[int, Field(ge=1)] | None = None


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


ProbeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=80)]


class Coverage(RecordPart):
    """Expected against scored. Anything missing makes the run an error. `unasked` counts, by probe, the images that the
    suite leaves out: they are in no numerator and no denominator. `lacking` counts, by probe of independent samples,
    the rows of which the candidate's has no picture: each counts as the metric defines."""

    expected_sets: int
    scored_sets: int
    expected_images: int
    scored_images: int
    prompts: int
    missing: list[str] = Field(default_factory=list)
    unasked: dict[ProbeName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    lacking: dict[ProbeName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether everything that was expected was scored."""
        return (
            not self.missing and self.expected_sets == self.scored_sets and self.expected_images == self.scored_images
        )


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

    @property
    def method(self) -> str:
        """The published name of the correction (Romano and Wolf 2005) that a suite's `correction` stands for."""
        return {"holm": "step-down max-T", "bonferroni": "single-step max-T"}.get(self.correction, self.correction)


class RunRecord(RecordPart):
    """The versioned result of one suite on one checkpoint: results.json, and the next run's baseline.

    `definition` compares the gate with that of the base, where there is one. `notices` are sentences
    about what the change alters besides the weights (another tokenizer, dataset release, label temperature, source of
    scores), which a reviewer sees next to the verdict. `needs_approval` lists those that the
    default branch has to approve before the gate opens. `warnings` are about where the two runs took place (other
    versions, device, precision), and about what the checks cannot see (labels without an image, few seeds, options that
    no answer names, groups about which all answers are abstentions). `answer_entropy` is the mean entropy of a
    classification's answers in nats, by probe and subject: it differs from the baseline's where the label temperature
    does. `baseline_reason` is why this record
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
    def other_architecture(self) -> bool:
        """Whether the saved baseline is of another architecture, as far as is known: a trial of another product."""
        return self.baseline is not None and not same_architecture(self.model.weights, self.baseline.weights)

    @property
    def exit_code(self) -> int:
        """0: the gate is open; 1: the model is judged and something failed, or the evidence is too thin; 3: no verdict,
        since something could not be computed and nothing failed; 10: the checks pass, and a person has to approve
        `needs_approval`."""
        if self.passes:
            return NEEDS_APPROVAL if self.needs_approval else OPEN
        failed = any(check.verdict == "fail" and not check.excused for check in self.checks)
        return NO_VERDICT if self.verdict == "error" and not failed else SHUT

    @property
    def decided(self) -> Verdict:
        """The verdict that the checks add up to: waived and watched ones aside, the most severe. A record that
        says otherwise of itself was forged or damaged."""
        return overall([check.verdict for check in self.checks if not check.excused])

    @property
    def closing(self) -> list[CheckResult]:
        """The checks that close the gate, in the record's order: what neither passed, is waived or watched, nor
        may be inconclusive."""
        allowed = ("pass", "inconclusive") if self.allow_inconclusive else ("pass",)
        return [check for check in self.checks if check.verdict not in allowed and not check.excused]

    def counts(self) -> dict[Verdict, int]:
        """Number of checks per verdict, every verdict named; waived ones count as what they are."""
        return {verdict: sum(check.verdict == verdict for check in self.checks) for verdict in STRICTNESS}


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a run: the most severe of its checks'. No check at all is an error, never a pass."""
    return max(verdicts, key=lambda verdict: STRICTNESS[verdict], default="error")
