"""How well automatic filters agree with people: precision, recall, F1 and support, as in table 4 of Howard et al."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class GroupAgreement:
    """One group of one column, people being right. Each number is None where its denominator is 0.

    `precision`: of what the filter calls so, the share that people perceive so; `recall`: of what people perceive so,
    the share that the filter calls so; `support`: images that people perceive so.
    """

    column: str
    attribute: str
    group: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int


@dataclass(frozen=True, slots=True)
class ScoreAgreement:
    """One numeric column: `auc` is the chance that a random good image scores above a random other (ties half)."""

    column: str
    good: int
    other: int
    auc: float | None


def group_agreement(
    column: str, attribute: str, groups: Sequence[str], said: Sequence[str], perceived: Sequence[str]
) -> list[GroupAgreement]:
    """A row for every group. `said` and `perceived` hold the filter's and the people's group of each image."""
    rows = []
    for group in groups:
        called = sum(one == group for one in said)
        support = sum(one == group for one in perceived)
        both = sum(one == other == group for one, other in zip(said, perceived, strict=True))
        rows.append(
            GroupAgreement(
                column,
                attribute,
                group,
                precision=both / called if called else None,
                recall=both / support if support else None,
                f1=2 * both / (called + support) if called + support else None,
                support=support,
            )
        )
    return rows


def score_agreement(column: str, scores: Sequence[float], good: Sequence[bool]) -> ScoreAgreement:
    """Whether a score ranks images that people call good above others (Mann-Whitney's U over its largest value).

    An image whose score is no finite number was not measured, and is left out.
    """
    value, is_good = np.asarray(scores, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    measured = np.isfinite(value)
    value, is_good = value[measured], is_good[measured]
    above, below = value[is_good], np.sort(value[~is_good])
    if not len(above) or not len(below):
        return ScoreAgreement(column, len(above), len(below), None)
    under = np.searchsorted(below, above, "left") + np.searchsorted(below, above, "right")
    return ScoreAgreement(column, len(above), len(below), math.fsum(under / 2) / (len(above) * len(below)))
