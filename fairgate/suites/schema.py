"""The suite file, typed: what may be written in `fairness_suites/*.yaml`, and nothing else."""

from __future__ import annotations

import string
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticKnownError, core_schema

from fairgate.errors import harmless
from fairgate.measures import METRICS, MetricSettings
from fairgate.records import Against, Rule

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=80)]


def _plain(text: str) -> str:
    if harmless(text) != text:
        raise ValueError(f"'{harmless(text)}' holds control characters, or reads as a command to a CI log")
    return text


Prose = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Text = Annotated[Prose, AfterValidator(_plain)]
"""A name or prompt that is shown everywhere: test ids, tables, logs."""


class _Known:
    """A name of the registry of metrics, looked up when a suite is read, so that installed packages can add some."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(_metric, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": list(METRICS), "type": "string"}


def _metric(name: str) -> str:
    if name not in METRICS:
        *first, last = (f"'{known}'" for known in METRICS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})
    return name


MetricName = Annotated[str, _Known()]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _fields(template: str) -> set[str]:
    """Names of the placeholders. Widths and conversions are refused: `{label:>999999999}` would fill the memory."""
    names: set[str] = set()
    for _, name, specification, conversion in string.Formatter().parse(template):
        if specification or conversion:
            raise ValueError("a placeholder is a name in braces and nothing more")
        if name is not None:
            names.add(name)
    return names


def _only(template: str, allowed: set[str], needed: set[str]) -> str:
    try:
        found = _fields(template)
    except ValueError as error:
        raise ValueError(f"'{template}' is not a template: {error}") from error
    if unknown := found - allowed:
        raise ValueError(f"'{template}' has the unknown placeholder {sorted(unknown)}; known: {sorted(allowed)}")
    if needed and not found & needed:
        raise ValueError(f"'{template}' never uses {' or '.join(f'{{{name}}}' for name in sorted(needed))}")
    return template


class ZeroShotProbe(_Part):
    """Ask which label fits an image: softmax over the labels at the model's own scale (paper 1).

    `labels` is one list, or a list per subject; `truth` is the subject or the name of an attribute; `words` says how a
    subject or a group is written in a prompt where that differs from its name. `positive` is one label that no image
    is right or wrong about (`trustworthy person` of two): its probability is then measured instead of the truth's, an
    implicit association.
    """

    kind: Literal["zero_shot_classification"]
    template: Text
    labels: list[Prose] | dict[str, list[Prose]]
    truth: str = "subject"
    positive: Text | None = None
    words: dict[str, Text] = Field(default_factory=dict)

    @field_validator("template")
    @classmethod
    def _template(cls, value: str) -> str:
        return _only(value, {"label", "a_label"}, {"label", "a_label"})

    @model_validator(mode="after")
    def _positive(self) -> ZeroShotProbe:
        if self.positive is None:
            return self
        if "truth" in self.model_fields_set or self.words:
            raise ValueError("`positive` takes the place of `truth` and `words`: no image is right or wrong about it")
        for labels in [self.labels] if isinstance(self.labels, list) else self.labels.values():
            if self.positive not in labels:
                raise ValueError(f"the positive label '{self.positive}' is not among the labels {labels}")
        return self

    @field_validator("labels")
    @classmethod
    def _labels(cls, value: list[str] | dict[str, list[str]]) -> list[str] | dict[str, list[str]]:
        for labels in [value] if isinstance(value, list) else value.values():
            if len(labels) < 2:
                raise ValueError("a classification needs at least two labels")
            for label in labels:
                _plain(label)
            if len(set(labels)) < len(labels):
                raise ValueError(f"labels stand twice: {sorted({x for x in labels if labels.count(x) > 1})}")
        return value

    def prompt(self, label: str) -> str:
        """The text that the model sees for a label."""
        return self.template.format(label=label, a_label=with_article(label))

    def labels_of(self, subject: str) -> list[str]:
        """The labels that compete for an image of a subject."""
        return self.labels if isinstance(self.labels, list) else self.labels[subject]

    def word(self, name: str) -> str:
        """How a subject or group is written."""
        return self.words.get(name, name.replace("_", " "))


class RetrievalProbe(_Part):
    """Rank a subject's images by prompts that name the subject and no attribute (paper 3).

    The text embeddings of the prompts are averaged into one query per subject.
    """

    kind: Literal["retrieval"]
    prompts: Annotated[list[Text], Field(min_length=1)]
    words: dict[str, Text] = Field(default_factory=dict)

    @field_validator("prompts")
    @classmethod
    def _prompts(cls, value: list[str]) -> list[str]:
        return [_only(prompt, {"subject", "a_subject"}, {"subject", "a_subject"}) for prompt in value]

    def word(self, name: str) -> str:
        """How a subject is written."""
        return self.words.get(name, name.replace("_", " "))

    def prompts_of(self, subject: str) -> list[str]:
        """The prompts whose embeddings are averaged into the subject's query."""
        word = self.word(subject)
        return [prompt.format(subject=word, a_subject=with_article(word)) for prompt in self.prompts]


class AssociationProbe(_Part):
    """Rank images of everybody by a word that none of them shows: whom does it bring up? (So-B-IT, paper 4).

    Every word makes one prompt by the template; all images of a check compete for it.
    """

    kind: Literal["association"]
    template: Text
    words: Annotated[list[Text], Field(min_length=1)]

    @field_validator("template")
    @classmethod
    def _template(cls, value: str) -> str:
        return _only(value, {"word", "a_word"}, {"word", "a_word"})

    @field_validator("words")
    @classmethod
    def _words(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError(f"words stand twice: {sorted({x for x in value if value.count(x) > 1})}")
        return value

    def prompt(self, word: str) -> str:
        """The text that the model sees for a word."""
        return self.template.format(word=word, a_word=with_article(word))


Probe = Annotated[ZeroShotProbe | RetrievalProbe | AssociationProbe, Field(discriminator="kind")]


def with_article(word: str) -> str:
    """`an engineer`, `a chef`, `an usher`, `a university clerk`: the article by how the word begins."""
    begins = word.lower()
    vowel = begins[:1] in tuple("aeio") or (begins[:1] == "u" and not begins.startswith(("uni", "use", "uti")))
    return f"{'an' if vowel or begins.startswith(('hour', 'honest')) else 'a'} {word}"


class Groups(_Part):
    """Which attributes the suite looks at (`over: each` and `over: crossed` range over these), and how many sets a
    group needs before it is judged."""

    attributes: Literal["each"] | Annotated[list[str], Field(min_length=1)] = "each"
    min_sets: Annotated[int, Field(ge=2)] = 30


class DecisionRule(_Part):
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


class Check(_Part):
    """A metric with a bound, or with a margin against the baseline.

    `by` makes an item of every subject of the dataset, or of every word of an association probe. `first` and `second`
    are the two groups that bias_at_k compares, where the attribute has more than two.
    """

    # Settings of installed packages' metrics are further keys; `_settings` refuses all others.
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
    def _numbers(cls, data: Any) -> Any:
        """Whole numbers are fine where a bound is wanted (`at_most: 1`)."""
        if isinstance(data, dict):
            for key in ("at_least", "at_most", "margin", "anchor_margin"):
                if type(data.get(key)) is int:
                    data = {**data, key: float(data[key])}
        return data

    @model_validator(mode="after")
    def _settings(self) -> Check:
        unknown = [key for key in self.model_extra or {} if key not in own_settings(self.metric)]
        if unknown:
            details: list[InitErrorDetails] = [
                {"type": "extra_forbidden", "loc": (key,), "input": (self.model_extra or {})[key]} for key in unknown
            ]
            raise ValidationError.from_exception_data("Check", details)
        return self

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


class Waived(_Part):
    """A check, on all subjects or on one subject or word, that may fail until the end of a day, and why."""

    check: Name
    subject: Text | None = None
    until: date
    reason: Prose


class Suite(_Part):
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
    probes: Annotated[dict[Name, Probe], Field(min_length=1)]
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
