"""The suite file, typed: what may be written in `fairness_suites/*.yaml`, and nothing else."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, Union

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticKnownError, core_schema

from fairgate.metrics import METRICS, MetricSettings
from fairgate.probes import PROBES, Name, Probe, Prose, SuiteSection, Text
from fairgate.records import Against, ApprovalKind, Rule, Tier


def _is_metric(name: Any) -> bool:
    return isinstance(name, str) and name in METRICS


def _metric(name: Any) -> Any:
    """Looked up when a suite is read, so that installed packages can add some."""
    if not _is_metric(name):
        *first, last = (f"'{known}'" for known in METRICS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})
    return name


def _names_of_metrics(schema: dict[str, Any]) -> None:
    schema["enum"] = list(METRICS)


class _ProbeOfKind:
    """A probe of a kind that is registered, of which its own settings are read."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Probe) else _of_its_kind(value)
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(_kinds().core_schema)


def _of_its_kind(value: Any) -> Probe:
    """Read by the one kind that is named: the modules of all others need not be imported."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind in PROBES:
        return PROBES[kind].model_validate(value)
    return _kinds().validate_python(value)


def _kinds() -> TypeAdapter[Probe]:
    kinds: Any = Union[tuple(PROBES.values())]  # noqa: UP007
    return TypeAdapter(Annotated[kinds, Field(discriminator="kind")])


class Groups(SuiteSection):
    """Which attributes the suite looks at (`over: each` and `over: crossed` range over these), and how many sets a
    group needs before it is judged."""

    attributes: Literal["each"] | Annotated[list[str], Field(min_length=1)] = Field(
        default="each",
        description="Attributes of the dataset that `over: each` and `over: crossed` use: a list, or `each` for all.",
    )
    min_sets: int = Field(
        default=30,
        ge=2,
        description="A group in fewer sets is not judged, and named. Where images form no sets, an image is a set.",
    )


class DecisionRule(SuiteSection):
    """How regressions are decided: one family over the whole file."""

    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="Rate of false alarms over all comparisons of the suite together."
    )
    correction: Literal["holm", "bonferroni"] = Field(
        default="holm",
        description="Of the max-T over all comparisons: `holm` is the step-down form, `bonferroni` the single-step "
        "one, which detects less.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the resamples.")
    draws: int = Field(default=4000, ge=500, le=100_000, description="Number of resamples of the sets.")


def own_settings(metric: str) -> dict[str, Any]:
    """Fields of a metric's settings that are no keys of every check."""
    fields = METRICS[metric].Settings.model_fields
    return {name: field for name, field in fields.items() if name not in Check.model_fields}


def _with_settings(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    for name in METRICS:
        if own := own_settings(name):
            described = METRICS[name].Settings.model_json_schema()["properties"]
            schema["properties"] |= {key: described[key] for key in own}


class Check(SuiteSection):
    """A metric with a bound, or with a margin against the baseline.

    `by` makes an item of every subject of the dataset, or of every word, or category of
    words, of an association probe. `first` and `second`
    are the two groups that bias_at_k compares, where the attribute has more than two.
    """

    # Settings of installed packages' metrics are further keys; `_keys` refuses all others.
    model_config = ConfigDict(extra="allow", json_schema_extra=_with_settings)

    id: Name = Field(description="Name of the check in tables, records and waivers; unique in the suite.")
    probe: str = Field(description="The probe, by its name under `probes`.")
    metric: Annotated[str, BeforeValidator(_metric)] = Field(
        description="What is computed from the probe's answers.", json_schema_extra=_names_of_metrics
    )
    by: Literal["subject", "word", "category"] | None = Field(
        default=None,
        description="One check for every subject, or for every word or category of words of an association probe.",
    )
    over: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="The groups: an attribute; a list of attributes, crossed; `each`, every attribute of "
        "`groups: {attributes}` on its own; `crossed`, all of them crossed.",
    )
    k: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Where a ranking is cut, for metrics at k.")
    desired: Literal["dataset", "uniform"] = Field(
        default="dataset", description="Shares of groups that a fair top k has: those of the gallery, or equal ones."
    )
    # Here and not in bias_at_k's own settings: the digest of a suite is over every key of its checks, null or not.
    first: Text | None = Field(
        default=None, description="First group of bias_at_k, where an attribute has more than two."
    )
    second: Text | None = Field(default=None, description="Second group of bias_at_k.")
    at_least: float | None = Field(default=None, description="Lower bound, of metrics where higher is better.")
    at_most: float | None = Field(default=None, description="Upper bound, of metrics where lower is better.")
    no_worse_than: Literal["baseline"] | None = Field(
        default=None, description="Compare with the baseline, set by set, instead of with a bound."
    )
    margin: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Loss against the baseline that is accepted, in units of the metric."
    )
    anchor_margin: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Loss against the suite's anchor that is accepted; left out, `margin`."
    )
    tier: Tier = Field(
        default="gate",
        description="`gate` decides; `watch` is measured and shown, spends no alpha and decides nothing.",
    )
    decide: Literal["estimate", "interval"] = Field(
        default="estimate",
        description="Hold the estimate against the bound, or its whole interval: across the bound is inconclusive.",
    )

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, data: Any) -> Any:
        """Refuse keys that are neither every check's nor the metric's; of an unknown metric, that is said instead."""
        if not isinstance(data, dict) or ("metric" in data and not _is_metric(data["metric"])):
            return data
        own = own_settings(data["metric"]) if "metric" in data else {}
        unknown = [key for key in data if key not in cls.model_fields and key not in own]
        if unknown:
            details: list[InitErrorDetails] = [
                {"type": "extra_forbidden", "loc": (str(key),), "input": data[key]} for key in unknown
            ]
            raise ValidationError.from_exception_data("Check", details)
        return data

    @model_serializer(mode="wrap")
    def _without_the_usual_tier(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Digests of suites, which approvals bind, are over every key: those of before there were tiers stay."""
        data: dict[str, Any] = handler(self)
        if data.get("tier") == "gate":
            del data["tier"]
        return data

    @model_validator(mode="after")
    def _one_rule(self) -> Check:
        rules = [name for name in ("at_least", "at_most", "no_worse_than") if getattr(self, name) is not None]
        if len(rules) != 1:
            raise ValueError(
                f"a check has exactly one of at_least, at_most, no_worse_than; this has {', '.join(rules) or 'none'}"
            )
        if (self.margin is not None) != (self.no_worse_than is not None):
            raise ValueError(
                "`margin` and `no_worse_than` go together: how much worse than the baseline is still fine?"
            )
        if self.anchor_margin is not None and self.no_worse_than is None:
            raise ValueError("`anchor_margin` is the margin of a `no_worse_than: baseline` check to the suite's anchor")
        return self

    @property
    def settings(self) -> MetricSettings:
        """What the check sets for its metric. Raises ValidationError for what the metric cannot take."""
        wanted = METRICS[self.metric].Settings
        given = {name: getattr(self, name, None) for name in wanted.model_fields}
        return wanted.model_validate({name: value for name, value in given.items() if value is not None})

    @property
    def rule(self) -> Rule:
        """Which of the three rules this check has."""
        return "at_least" if self.at_least is not None else "at_most" if self.at_most is not None else "no_worse_than"

    @property
    def bound(self) -> float:
        """The check's bound, or its margin to the baseline."""
        return next(value for value in (self.at_least, self.at_most, self.margin) if value is not None)

    def margin_to(self, against: Against) -> float:
        """The margin to the baseline or to the anchor, which is the same unless the check says so."""
        return self.bound if against == "baseline" or self.anchor_margin is None else self.anchor_margin


class Waived(SuiteSection):
    """A check, on all subjects or on one subject, word or category, that may fail until the end of a day, and why."""

    check: Name = Field(description="Id of the check.")
    subject: Text | None = Field(default=None, description="One subject, word or category of it; left out, all.")
    until: date = Field(description="Last day of the waiver, YYYY-MM-DD.")
    reason: Prose = Field(description="Why, for every report.")


Digest = Annotated[str, StringConstraints(pattern=r"^(none|[0-9a-f]{40}|[0-9a-f]{64})$")]


class Approved(SuiteSection):
    """A change of the gate, or of what a verdict rests on, that somebody has weighed: from what to what, until when,
    and why. It counts once the default branch has it; `fairgate approve` writes it."""

    kind: ApprovalKind = Field(description="What changes.")
    before: Digest = Field(description="Digest of what there was before, as the report that asks for it shows.")
    now: Digest = Field(description="Digest of what there is with the change.")
    until: date = Field(description="Last day of the approval, YYYY-MM-DD.")
    reason: Prose = Field(description="Why, for every report.")


class Suite(SuiteSection):
    """One file of `fairness_suites/`: a dataset, probes, checks.

    `anchor` is a second, pinned baseline (the last release): every `no_worse_than: baseline` check is compared with it
    too, as an item of its own, so that many small passes do not add up to a large regression.
    """

    schema_: Literal[1] = Field(alias="schema", description="Version of this format.")
    suite: Name = Field(description="Name of the suite, which is also that of its file.")
    dataset: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*(@v[0-9]+)?$", max_length=80)] = Field(
        description="A release in `fairness_data/` or `datasets/`: `NAME@vN`, or `NAME`, the newest version."
    )
    model: Text | None = Field(default=None, description="URI of the checkpoint that is judged.")
    baseline: Text | None = Field(
        default=None,
        description="What it is compared with: `git:REF`, `file:PATH`, `mlflow:...`, `model:URI` or `none`.",
    )
    anchor: Text | None = Field(
        default=None, description="A second, pinned baseline, such as `git:v1.4`, against drift."
    )
    on_inconclusive: Literal["fail", "warn"] | None = Field(
        default=None, description="Whether too little evidence fails the gate; left out, it does."
    )
    probes: dict[Name, Annotated[Probe, _ProbeOfKind()]] = Field(min_length=1, description="Probes, by name.")
    groups: Groups = Field(default=Groups(), description="Attributes and sizes of groups.")
    decision: DecisionRule = Field(default=DecisionRule(), description="How regressions are decided.")
    checks: list[Check] = Field(min_length=1, description="Checks, in the order of the reports.")
    waivers: list[Waived] = Field(default_factory=list, description="Checks that may fail for some time.")
    approval: Literal["required", "note"] | None = Field(
        default=None,
        description="Whether a change that a person has to weigh closes the gate (exit code 10) until the default "
        "branch approves it; `note`: it is only reported. Left out, `required`.",
    )
    approvals: list[Approved] = Field(default_factory=list, description="Changes that have been approved.")

    @model_validator(mode="after")
    def _ids(self) -> Suite:
        ids = [check.id for check in self.checks]
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            raise ValueError(f"check ids are given twice: {', '.join(twice)}")
        waived = [(waiver.check, waiver.subject) for waiver in self.waivers]
        if many := sorted({str(check) for check, subject in waived if waived.count((check, subject)) > 1}):
            raise ValueError(f"waivers are given twice, for {', '.join(many)}")
        return self
