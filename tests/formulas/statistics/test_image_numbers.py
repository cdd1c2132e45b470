"""Numbers of single images are summed once by small cells: groups get what they get of the images themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairgate.formulas.statistics import (
    Design,
    Entries,
    ImageCells,
    ImageNumbers,
    Resamples,
    compare_images,
    compare_means,
    decided,
)
from fairgate.formulas.statistics.moments import moments_of
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream

IMAGES, CELLS, DRAWS = 9000, 12, 60
SETS = Resamples(IMAGES, DRAWS, stream(0, "sets"))
PLACE = stream(0, "places").permutation(IMAGES)
CELL = stream(0, "cells").integers(0, CELLS, IMAGES)
GROUPINGS = {"cells": np.arange(CELLS), "pairs": np.arange(CELLS) // 2, "all": np.zeros(CELLS, dtype=int)}


def numbers(values: NDArray[Any], group: NDArray[np.int64] = GROUPINGS["pairs"]) -> ImageNumbers:
    """Numbers of the images, and the same ones as a list in the order of the sets."""
    in_order = np.empty(IMAGES)
    in_order[PLACE] = values
    column = np.empty(IMAGES, dtype=np.int64)
    column[PLACE] = group[CELL]
    groups = int(group.max()) + 1
    cells = ImageCells(CELL.astype(np.uint8), PLACE, np.bincount(CELL, minlength=CELLS))
    listed = Entries(in_order, np.arange(IMAGES), column, (IMAGES, groups))
    return ImageNumbers(cells, group, groups, values, lambda: listed)


def change(now: ImageNumbers, before: ImageNumbers, sign: float = 1.0) -> ImageNumbers:
    def minus(new: Entries, old: Entries, sign: float) -> Entries:
        return Entries(sign * (new.value - old.value), new.row, new.column, new.shape)

    return now.less(before, sign, minus)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    answers=st.booleans(),
    grouping=st.sampled_from(sorted(GROUPINGS)),
    sign=st.sampled_from([1.0, -1.0]),
)
def test_moments_by_cells_are_those_of_the_images(seed: int, answers: bool, grouping: str, sign: float) -> None:
    rng = np.random.default_rng(seed)
    ease = rng.uniform(0.2, 0.8, CELLS)[CELL]
    sides = [rng.random(IMAGES) < ease if answers else rng.normal(ease, 0.1) for _ in range(2)]
    now, before = (numbers(side, GROUPINGS[grouping]) for side in sides)
    difference = change(now, before, sign)
    by_cells, by_images = difference.moments(SETS), moments_of(difference.plain(), answers=True)
    assert by_cells is not None
    assert by_cells.turned == by_images.turned
    np.testing.assert_array_equal(by_cells.n, by_images.n)
    np.testing.assert_array_equal(by_cells.departing >= 24, by_images.departing >= 24)
    for name in ("mean", "squares", "cubes"):
        np.testing.assert_allclose(getattr(by_cells, name), getattr(by_images, name), rtol=1e-9, atol=1e-9)
    for power in (1, 2):
        np.testing.assert_allclose(by_cells.by_unit(SETS, power), by_images.by_unit(SETS, power), atol=1e-9)
    np.testing.assert_allclose(by_cells.tally(SETS, DRAWS), by_images.tally(SETS, DRAWS), rtol=1e-6)


@pytest.mark.parametrize("answers", [True, False])
def test_a_comparison_by_cells_is_that_of_the_images(answers: bool) -> None:
    rng = stream(0, "compared", str(answers))
    before = rng.random(IMAGES) < 0.8 if answers else rng.normal(0.8, 0.1, IMAGES)
    now = before & (rng.random(IMAGES) < 0.97) if answers else before - rng.exponential(0.02, IMAGES)
    design, pair = Design(0.02, 0.05, "lower"), [numbers(now), numbers(before)]
    by_cells, by_images = (
        decided([compare_means(*sides, design=design, rng=SETS, draws=DRAWS)])[0]
        for sides in (pair, [side.plain() for side in pair])
    )
    np.testing.assert_array_equal(by_cells.verdict, by_images.verdict)
    for name in ("delta", "lo", "hi", "p_adjusted", "p_not_worse"):
        np.testing.assert_allclose(getattr(by_cells, name), getattr(by_images, name), rtol=1e-4, atol=1e-6)


def test_answers_of_groups_in_which_none_turned_are_those_of_the_images() -> None:
    before = stream(0, "still").random(IMAGES) < 0.8
    now = before & ~((CELL >= 6) & (stream(0, "turned").random(IMAGES) < 0.05))
    difference = change(numbers(now), numbers(before))
    by_cells, by_images = difference.moments(SETS), moments_of(difference.plain(), answers=True)
    assert by_cells is not None
    assert by_cells.turned == by_images.turned
    assert by_cells.departing.tolist() == by_images.departing.tolist()
    np.testing.assert_array_equal(by_cells.squares[:3], 0.0)
    for same in (now, np.ones(IMAGES, dtype=bool), np.zeros(IMAGES, dtype=bool)):
        assert change(numbers(same), numbers(same)).moments(SETS) is None
    assert change(numbers(np.ones(IMAGES, dtype=bool)), numbers(np.zeros(IMAGES, dtype=bool))).moments(SETS) is None


def test_groups_that_are_left_out_are_in_no_sum() -> None:
    values = stream(0, "among").normal(0.5, 0.1, IMAGES)
    some = np.array([True, False, True, True, False, True])
    fewer = numbers(values).among(some)
    assert fewer.shape == (IMAGES, 4)
    np.testing.assert_allclose(fewer.means(), numbers(values).means()[some])
    known = fewer.moments(SETS)
    assert known is not None
    np.testing.assert_array_equal(known.n, fewer.plain().sets())
    np.testing.assert_allclose(known.squares, moments_of(fewer.plain(), answers=True).squares)


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(IMAGES) % 500, 0.0, 0.3),  # nearly all agree
        np.full(IMAGES, 0.7),
        stream(0, "whole").integers(-1, 2, IMAGES).astype(float),  # answers, as numbers
        np.where(CELL == 0, 1e9 + np.arange(IMAGES) % 7, 0.1),  # a spread that rounding could make
        np.where(np.arange(IMAGES) == 7, np.nan, stream(0, "a gap").normal(size=IMAGES)),
    ],
    ids=["nearly all equal", "all equal", "answers as numbers", "hardly spread", "a number missing"],
)
def test_numbers_that_have_to_be_looked_at_one_by_one_are(values: NDArray[Any]) -> None:
    assert numbers(values).moments(SETS) is None


def test_few_images_and_drawn_sets_are_looked_at_one_by_one() -> None:
    values = stream(0, "few").normal(size=IMAGES)
    small = np.where(np.arange(CELLS) == 0, 1, 0)
    assert numbers(values, small).moments(SETS) is not None
    cells = ImageCells(np.where(np.arange(IMAGES) < 48, 0, 1), PLACE, np.array([48, IMAGES - 48]))
    assert ImageNumbers(cells, np.array([0, 1]), 2, values, lambda: numbers(values).plain()).moments(SETS) is None
    assert numbers(values).moments(Resamples(100, 1, stream(0, "one"))) is None


def test_infinite_numbers_are_refused_as_in_a_list() -> None:
    values = stream(0, "infinite").normal(size=IMAGES)
    broken = np.where(np.arange(IMAGES) == 5, np.inf, values)
    with pytest.raises(StatisticsError, match="infinite"):
        compare_means(numbers(broken), numbers(values), design=Design(0.02, 0.05, "lower"), rng=SETS, draws=DRAWS)


@pytest.mark.parametrize("harm", ["lower", "higher", "either"])
def test_gaps_of_answers_are_those_of_the_same_numbers(harm: Any) -> None:
    rng = stream(0, "gaps")
    label = np.where(np.arange(IMAGES) < 20, -1, CELL % 3)
    before = rng.random(IMAGES) < 0.8
    now = before & (rng.random(IMAGES) < np.where(label == 1, 0.93, 0.98))
    counted, listed = (
        compare_images(*sides, label, groups=3, design=Design(0.01, 0.05, harm), rng=stream(0, "images"), draws=DRAWS)
        for sides in ((now, before), (now.astype(float), before.astype(float)))
    )
    for one, other in zip(decided([counted]), decided([listed]), strict=True):
        np.testing.assert_array_equal(one.verdict, other.verdict)
        for name in ("delta", "lo", "hi", "p_adjusted"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)
