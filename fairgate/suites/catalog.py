"""What each metric needs and which way is better: the one table that the schema, the planner and the measurer read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric as a suite may ask for it.

    `better` is the good direction, `lowest` and `highest` what it can take at all, `per_group` whether it needs `over`
    ("no" means that `over` is meaningless for it).
    """

    probe_kind: Literal["zero_shot_classification", "retrieval"]
    better: Literal["higher", "lower"]
    lowest: float
    highest: float
    per_group: Literal["yes", "no", "maybe"]
    needs_k: bool = False
    counterfactual: bool = False
    meaning: str = ""


METRICS: dict[str, MetricSpec] = {
    "fairness": MetricSpec(
        "zero_shot_classification",
        "higher",
        1 - 2**-0.5,
        1,
        "no",
        counterfactual=True,
        meaning="1 minus the median, over sets, of the spread of P(true label) inside a set",
    ),
    "accuracy": MetricSpec(
        "zero_shot_classification",
        "higher",
        0,
        1,
        "maybe",
        meaning="share of images whose most probable label is the true one; with `over`, of the worst group",
    ),
    "group_gap": MetricSpec(
        "zero_shot_classification",
        "higher",
        -1,
        0,
        "yes",
        counterfactual=True,
        meaning="how far the worst group's P(true label) stands below its set-mates' mean",
    ),
    "max_skew_at_k": MetricSpec(
        "retrieval",
        "lower",
        0,
        math.inf,
        "yes",
        needs_k=True,
        meaning="log ratio of the most over-represented group's share of the top k to its desired share",
    ),
    "min_skew_at_k": MetricSpec(
        "retrieval",
        "higher",
        -math.inf,
        0,
        "yes",
        needs_k=True,
        meaning="log ratio of the most under-represented group's share of the top k to its desired share",
    ),
    "ndkl_at_k": MetricSpec(
        "retrieval",
        "lower",
        0,
        math.inf,
        "yes",
        needs_k=True,
        meaning="discounted KL divergence of every prefix of the top k from the desired shares",
    ),
}
