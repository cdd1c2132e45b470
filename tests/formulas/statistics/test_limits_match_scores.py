"""A limit lies where the evidence reaches the score that it was asked for: limits and p-values never disagree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fairgate.formulas.statistics import Design, compare_draws, compare_images
from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.answers import chance_given_turned
from fairgate.formulas.statistics.family import Evidence

Floats = NDArray[np.float64]
DESIGN = Design(0.1, 0.05, "lower")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of_means(table: Floats, farthest: float | None = None) -> Evidence:
    return mean_evidence(table, alpha=0.05, draws=200, rng=rng(), farthest=farthest)


def few(values: list[float], sets: int = 60) -> Floats:
    """Sets that agree but for the first few."""
    return np.append(values, np.zeros(sets - len(values)))


def pair(first: Floats, second: Floats) -> Floats:
    return np.stack([first, np.append(second, np.full(len(first) - len(second), np.nan))], axis=1)


def many() -> Evidence:
    return of_means(rng(1).gamma(2.0, 0.1, (60, 2)))


def hidden() -> Evidence:
    return of_means(pair(few([0.3, -0.2, 0.1]), few([-0.4, -0.5], sets=40)))


def hidden_beside_many() -> Evidence:
    return of_means(np.stack([few([0.3, -0.2, 0.1]), rng(1).gamma(2.0, 0.1, 60)], axis=1))


def answers() -> Evidence:
    return of_means(pair(few([-1.0] * 4 + [1.0]), few([1.0] * 3 + [-1.0], sets=40)))


def bounded() -> Evidence:
    return of_means(pair(few([-0.25, -0.5, 0.25]), few([0.75, 0.5], sets=40)), farthest=1.0)


def resamples() -> Evidence:
    draws = rng(1).normal(0.0, [0.1, 0.2], (200, 2))
    return compare_draws([0.1, -0.2], draws + np.array([0.1, -0.2]), n_sets=60, design=DESIGN).evidence


def images(sparse: bool = False) -> Evidence:
    labels = np.repeat([0, 1, 2], [40, 50, 60])
    before = rng(1).normal(0.5, 0.1, 150)
    after = before + rng(2).gamma(2.0, 0.05, 150)
    if sparse:
        after[labels == 1] = before[labels == 1]
        after[[45, 60]] += 0.2
    return compare_images(after, before, labels, groups=3, design=DESIGN, rng=rng(), draws=200).evidence


def sparse_images() -> Evidence:
    return images(sparse=True)


@pytest.mark.parametrize("z", [0.5, 1.64, 2.5])
@pytest.mark.parametrize(
    ("evidence", "within"),
    [
        (many, 1e-9),
        (hidden, 1e-6),
        (hidden_beside_many, 1e-6),
        (answers, 0.03),
        (bounded, 0.03),
        (resamples, 1e-9),
        (images, 1e-9),
        (sparse_images, 0.08),
    ],
)
def test_the_score_at_a_limit_is_the_one_that_the_limit_is_for(
    evidence: Callable[[], Evidence], within: float, z: float
) -> None:
    of = evidence()
    for side, direction in ((of.over, -1.0), (of.under, 1.0)):
        reach = side.reach(z)
        assert (reach > 0).all()
        at_limit = [side.z(float(bound))[group] for group, bound in enumerate(of.mean + direction * reach)]
        assert at_limit == pytest.approx([z] * of.mean.size, abs=within)


def test_groups_of_answers_on_images_of_their_own_are_held_against_the_chance_of_such_a_p() -> None:
    """Every set holds one group alone: the first has 4 lost of 30, the second 2 lost and 1 won of 40."""
    table = np.full((70, 2), np.nan)
    table[:30, 0], table[30:, 1] = few([-1.0] * 4, 30), few([-1.0, -1.0, 1.0], 40)
    evidence = of_means(table)
    for side in (evidence.under, evidence.over):
        assert side.rival is not None
        assert side.rival(0.0, 0.03).tolist() == [chance_given_turned(4, 30, 0.03), chance_given_turned(3, 40, 0.03)]
        assert side.rival(0.1, 0.03).tolist() == [0.03, 0.03]
    assert of_means(pair(few([-1.0] * 4), few([-1.0] * 4))).under.rival is None
