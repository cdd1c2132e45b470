"""What each metric needs and which way is better: the one table that the schema, the planner and the measurer read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]

CLASSIFIED = ("zero_shot_classification",)
RETRIEVED = ("retrieval",)
RANKED = ("retrieval", "association")


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric as a suite may ask for it.

    `probes` are the kinds of probe that it is measured on, `better` the good direction, `lowest` and `highest` what it
    can take at all, `per_group` whether it needs `over` ("no" means that `over` is meaningless for it).
    `counterfactual` metrics look inside sets; `truth` metrics need images that have a right answer; `utility` ones say
    whether a model is of use, the others whom it is of use to. `jointly`: the value is one number of all groups of an
    attribute, so that none of them can be judged where one is too small. `tempered` ones are made of P(true), which
    depends on the label temperature.
    """

    probes: tuple[str, ...]
    better: Better
    lowest: float
    highest: float
    per_group: Literal["yes", "no", "maybe"]
    needs_k: bool = False
    counterfactual: bool = False
    truth: bool = False
    utility: bool = False
    jointly: bool = False
    tempered: bool = False
    meaning: str = ""

    @property
    def ranks(self) -> bool:
        """Whether it counts groups in a top k: chance alone moves it, and a fair ranker's value stands beside it."""
        return self.needs_k and not self.utility


METRICS: dict[str, MetricSpec] = {
    "fairness": MetricSpec(
        CLASSIFIED,
        "higher",
        1 - 2**-0.5,
        1,
        "no",
        counterfactual=True,
        tempered=True,
        meaning="1 minus the median, over sets, of the spread of P(true label) inside a set",
    ),
    "accuracy": MetricSpec(
        CLASSIFIED,
        "higher",
        0,
        1,
        "maybe",
        truth=True,
        utility=True,
        meaning="share of images whose most probable label is the true one; with `over`, of the worst group",
    ),
    "p_true": MetricSpec(
        CLASSIFIED,
        "higher",
        0,
        1,
        "maybe",
        truth=True,
        utility=True,
        tempered=True,
        meaning="mean P(true label): sees what accuracy no longer does; with `over`, of the worst group",
    ),
    "group_gap": MetricSpec(
        CLASSIFIED,
        "higher",
        -1,
        0,
        "yes",
        tempered=True,
        meaning="how far the worst group's P(true label) stands below its set-mates' mean; where images form no sets, "
        "below the mean of all groups",
    ),
    "recall_at_k": MetricSpec(
        RETRIEVED,
        "higher",
        0,
        1,
        "maybe",
        needs_k=True,
        utility=True,
        meaning="share of images whose own subject's query is among the k nearest of all subjects' queries; with "
        "`over`, of the worst group",
    ),
    "max_skew_at_k": MetricSpec(
        RANKED,
        "lower",
        0,
        math.inf,
        "yes",
        needs_k=True,
        meaning="log ratio of the most over-represented group's share of the top k to its desired share",
    ),
    "min_skew_at_k": MetricSpec(
        RANKED,
        "higher",
        -math.inf,
        0,
        "yes",
        needs_k=True,
        meaning="log ratio of the most under-represented group's share of the top k to its desired share",
    ),
    "ndkl_at_k": MetricSpec(
        RANKED,
        "lower",
        0,
        math.inf,
        "yes",
        needs_k=True,
        jointly=True,
        meaning="discounted KL divergence of every prefix of the top k from the desired shares",
    ),
    "bias_at_k": MetricSpec(
        RANKED,
        "lower",
        0,
        1,
        "yes",
        needs_k=True,
        jointly=True,
        meaning="how unequally the top k shows two groups: |first - second| / (first + second), averaged over queries",
    ),
    "normalized_entropy_at_k": MetricSpec(
        RANKED,
        "higher",
        0,
        1,
        "yes",
        needs_k=True,
        jointly=True,
        meaning="how evenly the top k is spread over the groups: its entropy over that of equal shares",
    ),
    "c_asc": MetricSpec(
        RANKED,
        "lower",
        0,
        math.inf,
        "yes",
        meaning="by how many standard deviations a caption is nearer to, or farther from, a group than everybody else",
    ),
}
"""`bias_at_k` and `c_asc` have a sign: which way a group departs. A check is held to the size of the largest."""
