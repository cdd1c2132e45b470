"""How far raters agree: raw, and Krippendorff's alpha (any number, nominal, gaps allowed); and how well automatic
filters agree with people: precision, recall, F1 and support, as in table 4 of Howard et al."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

Ratings = Sequence[Sequence[Hashable]]
"""The answers to every unit; units with fewer than two answers are skipped."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one question. `units` were answered by two raters or more. Alpha is None where every answer is the same."""

    units: int
    raw: float | None
    alpha: float | None


def agreement(answers: Mapping[str, Mapping[Any, Hashable]]) -> Agreement:
    """Agreement of raters, each a mapping of unit -> answer. None ("cannot say") is an answer like any other."""
    units: dict[Hashable, list[Hashable]] = {}
    for answered in answers.values():
        for unit, answer in answered.items():
            units.setdefault(unit, []).append(answer)
    shared = [given for given in units.values() if len(given) > 1]
    return Agreement(len(shared), raw_agreement(shared), krippendorffs_alpha(shared))


def raw_agreement(units: Ratings) -> float | None:
    """Mean over units of the share of pairs of raters that agree; None without a pair."""
    shares = [
        sum(left == other for left, other in combinations(given, 2)) / (len(given) * (len(given) - 1) / 2)
        for given in units
        if len(given) > 1
    ]
    return sum(shares) / len(shares) if shares else None


def krippendorffs_alpha(units: Ratings) -> float | None:
    """1 - observed / expected disagreement over pairs of answers (Krippendorff 2011, nominal data, missing values).

    1 is perfect, 0 what chance gives. None without two answers to one unit, and where every answer is the same.

    >>> round(krippendorffs_alpha(["aa", "bb", "ab", "aa"]), 3)
    0.533
    """
    paired = [given for given in units if len(given) > 1]
    totals = Counter(answer for given in paired for answer in given)
    n = sum(totals.values())
    expected = n * n - sum(count * count for count in totals.values())
    if not expected:
        return None
    observed = sum(
        (len(given) ** 2 - sum(count * count for count in Counter(given).values())) / (len(given) - 1)
        for given in paired
    )
    return 1 - (n - 1) * observed / expected


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
    column: str, attribute: str, groups: Sequence[str], by_filter: Sequence[str | None], perceived: Sequence[str | None]
) -> list[GroupAgreement]:
    """A row for every group. `by_filter` and `perceived` hold the filter's and the people's group of each image."""
    rows = []
    for group in groups:
        called = sum(answer == group for answer in by_filter)
        support = sum(answer == group for answer in perceived)
        both = sum(answer == other == group for answer, other in zip(by_filter, perceived, strict=True))
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
    from scipy.stats import mannwhitneyu  # 0.5 s to import

    value, is_good = np.asarray(scores, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    measured = np.isfinite(value)
    above, below = value[measured & is_good], value[measured & ~is_good]
    pairs = len(above) * len(below)
    # its exact p-value, which nobody reads, would take minutes for few good images of many
    auc = float(mannwhitneyu(above, below, method="asymptotic").statistic) / pairs if pairs else None
    return ScoreAgreement(column, len(above), len(below), auc)
