"""The suite file, typed: what may be written in `fairness_suites/*.yaml`, and nothing else."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, Union

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticKnownError, core_schema

from fairgate.measures import METRICS, MetricSettings
from fairgate.probes import PROBES, Name, Part, Probe, Prose, Text
from fairgate.records import Against, Rule


class _Known:
    """A name of the registry of metrics, looked up when a suite is read, so that installed packages can add some."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(_metric)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": list(METRICS), "type": "string"}


def _is_metric(name: Any) -> bool:
    return isinstance(name, str) and name in METRICS


def _metric(name: Any) -> str:
    if not _is_metric(name):
        *first, last = (f"'{known}'" for known in METRICS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})
    return str(name)


MetricName = Annotated[str, _Known()]


class _ProbeOfKind:
    """A probe of a kind that is registered, of which its own settings are read."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(_probe)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        kinds: Any = Union[tuple(PROBES.values())]  # noqa: UP007
        either: Any = Annotated[kinds, Field(discriminator="kind")]
        return handler(TypeAdapter(either).core_schema)


def _probe(value: Any) -> Probe:
    if isinstance(value, Probe):
        return value
    if not isinstance(value, dict):
        raise PydanticKnownError("model_attributes_type")
    kind = value.get("kind")
    if "kind" not in value:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
    if not isinstance(kind, str) or kind not in PROBES:
        known = ", ".join(f"'{name}'" for name in PROBES)
        raise PydanticKnownError(
            "union_tag_invalid", {"discriminator": "'kind'", "tag": str(kind), "expected_tags": known}
        )
    return PROBES[kind].model_validate(value)


class Groups(Part):
    """Which attributes the suite looks at (`over: each` and `over: crossed` range over these), and how many sets a
    group needs before it is judged."""

    attributes: Literal["each"] | Annotated[list[str], Field(min_length=1)] = "each"
    min_sets: Annotated[int, Field(ge=2)] = 30


class DecisionRule(Part):
    """How regressions are decided: one family over the whole file."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    correction: Literal["holm", "bonferroni"] = "holm"
    seed: Annotated[int, Field(ge=0)] = 0
    draws: Annotated[int, Field(ge=500, le=100_000)] = 4000


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


class Check(Part):
    """A metric with a bound, or with a margin against the baseline.

    `by` makes an item of every subject of the dataset, or of every word of an association probe. `first` and `second`
    are the two groups that bias_at_k compares, where the attribute has more than two.
    """

    # Settings of installed packages' metrics are further keys; `_keys` refuses all others.
    model_config = ConfigDict(extra="allow", json_schema_extra=_with_settings)

    id: Name
    probe: str
    metric: MetricName
    by: Literal["subject", "word"] | None = None
    over: str | Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=1)] | None = None
    desired: Literal["dataset", "uniform"] = "dataset"
    first: Text | None = None
    second: Text | None = None
    at_least: float | None = None
    at_most: float | None = None
    no_worse_than: Literal["baseline"] | None = None
    margin: Annotated[float, Field(ge=0)] | None = None
    anchor_margin: Annotated[float, Field(ge=0)] | None = None
    decide: Literal["estimate", "interval"] = "estimate"

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

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, data: Any) -> Any:
        """Whole numbers are fine where a bound is wanted (`at_most: 1`)."""
        if isinstance(data, dict):
            for key in ("at_least", "at_most", "margin", "anchor_margin"):
                if type(data.get(key)) is int:
                    data = {**data, key: float(data[key])}
        return data

    @model_validator(mode="after")
    def _one_rule(self) -> Check:
        rules = [name for name in ("at_least", "at_most", "no_worse_than") if getattr(self, name) is not None]
        if len(rules) != 1:
            raise ValueError(
                f"a check has exactly one of at_least, at_most, no_worse_than; this one has {rules or 'none'}"
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
        """What the check is held against: the bound, or the margin to the baseline."""
        return next(value for value in (self.at_least, self.at_most, self.margin) if value is not None)

    def margin_to(self, against: Against) -> float:
        """The margin to the baseline or to the anchor, which is the same unless the check says so."""
        return self.bound if against == "baseline" or self.anchor_margin is None else self.anchor_margin


class Waived(Part):
    """A check, on all subjects or on one subject or word, that may fail until the end of a day, and why."""

    check: Name
    subject: Text | None = None
    until: date
    reason: Prose


class Suite(Part):
    """One file of `fairness_suites/`: a dataset, probes, checks.

    `anchor` is a second, pinned baseline (the last release): every `no_worse_than: baseline` check is compared with it
    too, as an item of its own, so that many small passes do not add up to a large regression.
    """

    schema_: Literal[1] = Field(alias="schema")
    suite: Name
    dataset: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*(@v[0-9]+)?$", max_length=80)]
    model: Text | None = None
    baseline: Text | None = None
    anchor: Text | None = None
    on_inconclusive: Literal["fail", "warn"] | None = None
    probes: Annotated[dict[Name, Annotated[Probe, _ProbeOfKind()]], Field(min_length=1)]
    groups: Groups = Groups()
    decision: DecisionRule = DecisionRule()
    checks: Annotated[list[Check], Field(min_length=1)]
    waivers: list[Waived] = Field(default_factory=list)

    @model_validator(mode="after")
    def _ids(self) -> Suite:
        ids = [check.id for check in self.checks]
        if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
            raise ValueError(f"check ids stand twice: {twice}")
        waived = [(waiver.check, waiver.subject) for waiver in self.waivers]
        if many := sorted({str(check) for check, subject in waived if waived.count((check, subject)) > 1}):
            raise ValueError(f"waivers stand twice, for {many}")
        return self
