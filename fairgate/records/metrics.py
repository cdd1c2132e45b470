"""What reports need to know of a metric and of a probe's numbers, without the libraries that measure them.

`metrics.json` holds it of fairgate's own: `python -m fairgate.metrics` writes it, from the metrics and probes.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Better = Literal["higher", "lower"]
Extreme = Literal["max", "min"]
FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """Declaration of a metric: what a suite may configure, and how reports name it. A plain metric has the first four.

    `probes` are the kinds of probe that it is measured on, `better` the good direction, `lowest` and `highest` what it
    can take at all, `per_group` whether it needs `over` ("no" means that `over` is meaningless for it).
    `counterfactual` metrics look inside sets; `truth` metrics need images that have a right answer; `utility` ones say
    whether a model is of use, the others whom it is of use to. `jointly`: the value is one number of all groups of an
    attribute, so that none of them can be judged where one is too small. `turns` ones count answers, and change only
    where an answer turns. `tempered` ones are made of P(true), which depends on the label temperature: by default those
    of a zero-shot classification that are no `turns`. `rankings`: the value is an average over queries, each with a
    gallery of its own. `relative`: a group's number is its distance from the others: its set-mates, or, of single
    images, the mean of all groups. `gaps`: images may be without a number, and are left out; of a comparison also where
    the other run has none. `averaged`: the value is a mean of a number per image, which may be a mean over views.
    `of_two`: the value compares a run with its baseline, so that a check of it is `no_worse_than: baseline`; `of_one`:
    it has no meaning beside another run's, so that a check of it has a bound.

    A number, the check's or a group's, is held against the bound as it is (`group_bound` "value") or by its size
    ("size"); or a group's not at all ("none": groups are shown with another number than the check's).

    `display` is the name in reports, to which a k is added (`MaxSkew@100`), `plain` the name in a check's reason; each
    is the metric's own name where it is empty. `worst_set` says how a report shows the badness of a set, as a number or
    as a count. `alias` is the name of its method of the `fairness` fixture, by default the metric's own, and
    `usual_k` the k of that.
    """

    name: str
    meaning: str
    probes: tuple[str, ...]
    better: Better
    lowest: float = 0
    highest: float = 1
    per_group: Literal["yes", "no", "maybe"] = "no"
    counterfactual: bool = False
    truth: bool = False
    utility: bool = False
    jointly: bool = False
    tempered: bool | None = None
    turns: bool = False
    rankings: bool = False
    relative: bool = False
    gaps: bool = False
    averaged: bool = False
    of_two: bool = False
    of_one: bool = False
    group_bound: Literal["value", "size", "none"] = "value"
    display: str = ""
    plain: str = ""
    worst_set: str = "spread {number}"
    alias: str = ""
    usual_k: int | None = None

    def __post_init__(self) -> None:
        tempered = "zero_shot_classification" in self.probes and not self.turns
        object.__setattr__(self, "tempered", tempered if self.tempered is None else self.tempered)
        object.__setattr__(self, "alias", self.alias or self.name)

    @property
    def extreme(self) -> Extreme:
        """Which side of several groups is the worst one."""
        return "max" if self.better == "lower" else "min"

    def shown_as(self, k: int | None = None) -> str:
        """What reports call it: `MaxSkew@100`."""
        name = self.display or self.name.removesuffix("_at_k").replace("_", " ")
        return name if k is None else f"{name}@{k}"

    def sentence_name(self, k: int | None) -> str:
        """What a check's reason calls it: `max skew at 100`."""
        name = self.plain or with_k(self.name, k).replace("_", " ")
        return name if k is None else name.replace("at k", f"at {k}")


def over_views(views: int) -> str:
    """How a metric's name ends in a sentence: ` over 16 views of each image`; nothing for one."""
    return "" if views == 1 else f" over {views} views of each image"


def with_k(metric: str, k: int | None) -> str:
    """A metric's name with its k, as MLflow and other programs have it.

    >>> with_k("max_skew_at_k", 100), with_k("fairness", None)
    ('max_skew_at_100', 'fairness')
    """
    return metric if k is None else f"{metric.removesuffix('_at_k')}_at_{k}"


def without_k(name: str) -> tuple[str, int | None]:
    """A metric and its k, from records of before 0.3, which had them in a single name.

    >>> without_k("max_skew_at_100"), without_k("fairness")
    (('max_skew_at_k', 100), ('fairness', None))
    """
    stem, at, k = name.rpartition("_at_")
    return (f"{stem}_at_k", int(k)) if at and k.isdecimal() and len(k) < 100 else (name, None)


@functools.cache
def own_metrics() -> dict[str, MetricSpec]:
    """The specs of fairgate's own metrics, by name."""
    specs = json.loads(FILE.read_text(encoding="utf-8"))["metrics"]
    return {fields["name"]: MetricSpec(**{**fields, "probes": tuple(fields["probes"])}) for fields in specs}


@functools.cache
def own_values() -> dict[str, str]:
    """What the number of an image is, by the kind of probe as records name it: `P(true)`, `cosine`."""
    values: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8"))["values"]
    return values
