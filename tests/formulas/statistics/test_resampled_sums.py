"""Resampled sums by hand: of rows, patterns and blocks, and of the groups of sets that several tests share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairgate.formulas.statistics import Entries, Resamples, resampling, set_counts
from fairgate.formulas.statistics.resampling import blocks_of, resampled_sums
from fairgate.ground.randomness import stream

NAN = float("nan")
TABLE = np.array([[0.1, NAN, 0.3], [NAN, 0.5, 0.6], [0.7, 0.8, NAN], [0.2, NAN, NAN], [0.4, 0.9, 0.6]])
WEIGHTS = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0], [5.0, 6.0, 0.0], [7.0, 0.0, 0.0], [8.0, 9.0, 1.0]])
SHOWN = ~np.isnan(TABLE)


def in_blocks_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "MOST", 4)
    monkeypatch.setattr(resampling, "BLOCKS", 3)


# Rows that are drawn


def test_as_many_patterns_as_eighths_of_the_rows_are_drawn_at_once_in_the_order_of_their_numbers() -> None:
    patterns, counts = np.array([[0.0, 0.5], [0.0, 2.0], [1.0, 1.0], [1.0, 3.0]]), np.array([10, 6, 8, 8])
    rows = stream(0, "order").permutation(np.repeat(patterns, counts, axis=0))
    wanted = stream(1, "draws").multinomial(32, counts / 32, size=50) @ patterns
    np.testing.assert_allclose(resampled_sums(rows, 50, stream(1, "draws"), most=2), wanted)
    rows = rows[2:]
    by_row = set_counts(30, 50, stream(1, "draws")) @ rows
    np.testing.assert_allclose(resampled_sums(rows, 50, stream(1, "draws"), most=30), by_row)


def test_drawn_blocks_keep_the_mean_of_the_rows_and_their_variance() -> None:
    rows = stream(0, "rows").lognormal(size=(50, 3)) * [1.0, 0.01, 0.0] + [0.0, 0.0, 0.25]
    rng = stream(1, "draws")
    unit, centred = blocks_of(50, rng, 8), rows - rows.mean(axis=0)
    assert np.bincount(unit).tolist() == [7] * 7 + [1]
    blocks = np.stack([centred[unit == block, :2].sum(axis=0) for block in range(8)])
    blocks *= np.sqrt((centred[:, :2] ** 2).sum(axis=0) / (blocks**2).sum(axis=0))
    wanted = rows[:, :2].sum(axis=0) + set_counts(8, 20, rng) @ blocks
    drawn = resampled_sums(rows, 20, stream(1, "draws"), most=8)
    np.testing.assert_allclose(drawn[:, :2], wanted)
    assert (drawn[:, 2] == 50 * 0.25).all()  # a column that does not vary


# Sets that several tests share


def test_blocks_of_sets_are_drawn_as_sets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of_two(monkeypatch)
    shared, rng = Resamples(5, 6, stream(0, "blocks")), stream(0, "blocks")
    unit, counts = blocks_of(5, rng, 3), set_counts(3, 6, rng)
    np.testing.assert_array_equal(shared.rows(5, 6), counts[:, unit])
    monkeypatch.setattr(resampling, "_BLOCK", 2)
    chunks = list(shared.of_blocks(5))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(chunks), counts[:5])
    sets = Resamples(4, 2, stream(0, "sets"))
    np.testing.assert_array_equal(next(sets.of_blocks(2)), sets.rows(4, 2))


@pytest.mark.parametrize("blocks", [False, True])
def test_a_tally_counts_the_resampled_sets_of_every_group_or_their_images(
    monkeypatch: pytest.MonkeyPatch, blocks: bool
) -> None:
    if blocks:
        in_blocks_of_two(monkeypatch)
    shared, entries = Resamples(5, 20, stream(0, "tally")), Entries.of(TABLE, WEIGHTS)
    counts = shared.rows(5, 20)
    images = shared.tally(entries, 20, images=True)
    np.testing.assert_array_equal(images, counts @ WEIGHTS)
    sets = shared.tally(entries, 20)
    np.testing.assert_array_equal(sets, counts @ SHOWN)
    np.testing.assert_array_equal(shared.tally(Entries.of(TABLE), 20, images=True), counts @ SHOWN)
    assert shared.tally(entries, 20) is sets  # remembered
    assert shared.tally(entries, 20, images=True) is images
    assert shared.tally(Entries.of(TABLE, WEIGHTS), 20, images=True) is images  # lists of the same numbers share it
    np.testing.assert_array_equal(shared.tally(entries, 7), sets[:7])


def test_a_tally_is_not_taken_for_that_of_other_sets_groups_or_images() -> None:
    shared, entries = Resamples(5, 20, stream(0, "tally")), Entries.of(TABLE, WEIGHTS)
    counts = shared.rows(5, 20)
    shared.tally(entries, 20)
    shared.tally(entries, 20, images=True)
    turned = replace(entries, row=4 - entries.row), replace(entries, column=2 - entries.column)
    for other, shown in zip(turned, (SHOWN[::-1], SHOWN[:, ::-1]), strict=True):
        np.testing.assert_array_equal(shared.tally(other, 20), counts @ shown)
    assert entries.weight is not None
    twice = shared.tally(replace(entries, weight=2 * entries.weight), 20, images=True)
    np.testing.assert_array_equal(twice, counts @ (2 * WEIGHTS))


def test_sums_of_blocks_are_spread_as_those_of_their_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = Entries.of(np.nan_to_num(TABLE))
    numbers = np.where(entries.column == 1, 0.0, entries.value - 0.3)
    assert (few := Resamples(5, 2, stream(0, "spread"))).spread(
        few.by_unit(entries, numbers), entries.sums(numbers**2)
    ) == 1.0
    in_blocks_of_two(monkeypatch)
    shared = Resamples(5, 2, stream(0, "spread"))
    table = numbers.reshape(5, 3)[:, [0, 2]]
    blocks = np.stack([table[shared.unit == block].sum(axis=0) for block in range(3)])
    first, last = np.sqrt((table**2).sum(axis=0) / (blocks**2).sum(axis=0))
    np.testing.assert_allclose(
        shared.spread(shared.by_unit(entries, numbers), entries.sums(numbers**2)), [first, 1.0, last]
    )  # nothing to spread in the second
