"""Skew of one attribute within each group of another, by hand, as published, with limits, ties and a fair ranker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.metrics import max_skew_at_k
from fairgate.formulas.statistics import set_counts
from fairgate.ground.errors import MetricError
from fairgate.metrics import METRICS, Cell, Measure, MetricRequest, measure
from fairgate.probes import ProbeScores

METRIC = "marginal_max_skew_at_k"
GROUPS = ("a × m", "a × f", "b × m", "b × f")


def cell(sets: int, subjects: int = 1) -> Cell:
    """Sets of four, a and b crossed with m and f, of each subject."""
    n = 4 * sets * subjects
    of = np.repeat(np.array([f"job-{at}" for at in range(subjects)], dtype=object), 4 * sets)
    codes = np.tile(np.arange(4), sets * subjects)
    return Cell(np.arange(n), np.arange(n) // 4, np.arange(n // 4), of, (codes,), (GROUPS,))


def request(k: int, within: str = "tone", **further: Any) -> MetricRequest:
    settings = METRICS[METRIC].Settings.model_validate({"k": k, "within": within})
    return MetricRequest("check", METRIC, "search", settings, (("tone", "gender"),), **further)


def measured(value: Any, k: int, within: str = "tone", subjects: int = 1) -> Measure:
    table = np.asarray(value, dtype=float)
    return measure(request(k, within), cell(table.size // 4 // subjects, subjects), [ProbeScores(table)])


HIDDEN = [[0.9, 0.1, 0.2, 0.8], [0.7, 0.0, 0.1, 0.9]]
"""Two sets: a is shown as men, b as women; over all images both genders are shown alike."""


def test_what_all_images_hide_shows_within_each_group() -> None:
    found = measured(np.ravel(HIDDEN), k=2)
    assert found.groups == list(GROUPS)
    assert found.group_values == pytest.approx([np.log(2), -np.inf, -np.inf, np.log(2)])
    assert found.value == pytest.approx(np.log(2))
    assert found.blocks == (2, 2)
    assert found.counted is not None
    assert found.counted.shown.tolist() == [[2, 0, 0, 2]]


def test_by_hand_the_worst_group_of_means_over_queries() -> None:
    even = [[0.9, 0.8, 0.9, 0.8], [0.1, 0.2, 0.1, 0.2]]
    found = measured([*np.ravel(HIDDEN), *np.ravel(even)], k=2, subjects=2)
    assert found.value == pytest.approx(np.log(2) / 2)  # (ln 2 + 0) / 2 in a, and in b


@pytest.mark.parametrize("within", ["tone", "gender"])
def test_it_is_the_published_function_within_either_attribute(within: str) -> None:
    rng, sets = np.random.default_rng(3), 60
    value, codes = rng.normal(size=4 * sets), np.tile(np.arange(4), sets)
    fixed, other = (codes // 2, codes % 2) if within == "tone" else (codes % 2, codes // 2)
    expected = [max_skew_at_k(value[None, fixed == code], other[fixed == code], 15, groups=2)[0] for code in range(2)]
    found = measured(value, k=15, within=within)
    assert [part[0].max() for part in found.parts] == pytest.approx(expected)
    assert found.value == pytest.approx(max(expected))
    order = list(GROUPS) if within == "tone" else ["a × m", "b × m", "a × f", "b × f"]
    assert found.groups == order


def test_resampled_sets_are_those_sets_drawn_so_often() -> None:
    rng, sets = np.random.default_rng(5), 12
    value = rng.normal(size=(sets, 4))
    counts = set_counts(sets, 20, rng)
    drawn = measured(value.ravel(), k=6).draw(counts)
    for at, times in enumerate(counts):
        again = measured(np.repeat(value, times, axis=0).ravel(), k=6)
        assert drawn.value[at] == pytest.approx(again.value)


def test_the_interval_covers() -> None:
    rng, sets, endless = np.random.default_rng(11), 80, 20_000
    shift = 0.4 * np.array([1, -1, -1, 1])

    def gallery(many: int) -> ProbeScores:
        return ProbeScores((rng.normal(size=(many, 1)) + rng.normal(size=(many, 4)) + shift).ravel())

    truth = measure(request(endless // 2), cell(endless), [gallery(endless)]).value
    small, covered = cell(sets), 0
    for _ in range(60):
        now = measure(request(sets // 2), small, [gallery(sets)])
        drawn = now.draw(set_counts(sets, 500, rng))
        limits = METRICS[METRIC].interval(request(sets // 2), small, now, drawn, 0.05)
        assert limits.lo is not None, limits.how
        assert limits.hi is not None
        covered += limits.lo - 0.01 <= truth <= limits.hi + 0.01
    assert covered >= 0.9 * 60


def test_a_fair_ranker_is_the_worst_of_groups_drawn_apart() -> None:
    rng = np.random.default_rng(2)
    fair = METRICS[METRIC].fair_chance(request(20), cell(40), {})
    assert fair is not None
    worst = [measured(rng.normal(size=160), k=20).value for _ in range(400)]
    assert fair.median == pytest.approx(np.median(worst), abs=0.03)
    assert fair.p95 == pytest.approx(np.quantile(worst, 0.95), abs=0.06)


def test_a_group_whose_images_are_all_alike_is_refused() -> None:
    """The order of files alternates genders, and would look fair."""
    value = np.random.default_rng(0).normal(size=(30, 4))
    value[:, 2:] = 0.5
    with pytest.raises(MetricError, match="every b image has the same similarity") as caught:
        measured(value.ravel(), k=10)
    assert "check the checkpoint" in caught.value.remedy


def test_ties_at_a_groups_cut_are_reported_with_what_their_order_can_do() -> None:
    value = np.random.default_rng(0).normal(size=(30, 4))
    plain = measured(value.ravel(), k=10)
    assert plain.ties is not None
    assert not plain.ties().decided
    value[:, 2:] = np.where(value[:, 2:] > 0, 1.0, 0.0)
    found = measured(value.ravel(), k=10)
    assert found.ties is not None
    ties = found.ties()
    assert ties.decided
    assert ties.lowest is not None
    assert ties.highest is not None
    assert ties.lowest <= found.value <= ties.highest == pytest.approx(np.log(2))


def test_groups_that_are_too_small_to_judge_decide_nothing() -> None:
    found = measure(replace(request(2), min_sets=3), cell(2), [ProbeScores(np.ravel(HIDDEN))])
    assert not found.judged.any()
