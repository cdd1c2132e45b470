"""Numbers of groups inside sets, as lists: weights stay with their numbers, and every number has a place of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.statistics import Entries
from fairgate.formulas.statistics import entries as entries_module

NAN = float("nan")
TABLE = np.array([[0.1, NAN, 0.3], [NAN, 0.5, 0.6], [0.7, 0.8, NAN]])
WEIGHTS = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0], [5.0, 6.0, 0.0]])


def rows(entries: Entries) -> list[tuple[float, int, int, float]]:
    assert entries.weight is not None
    columns = (entries.value, entries.row, entries.column, entries.weight)
    return list(zip(*(each.tolist() for each in columns), strict=True))


def test_a_table_becomes_its_numbers_with_set_group_and_weight() -> None:
    entries = Entries.of(TABLE, WEIGHTS)
    wanted = [
        (0.1, 0, 0, 1.0),
        (0.3, 0, 2, 2.0),
        (0.5, 1, 1, 3.0),
        (0.6, 1, 2, 4.0),
        (0.7, 2, 0, 5.0),
        (0.8, 2, 1, 6.0),
    ]
    assert rows(entries) == wanted
    assert entries.shape == (3, 3)
    assert entries.keys().tolist() == [0, 2, 4, 5, 6, 7]
    assert entries.sets().tolist() == [2, 2, 2]
    assert entries.sums(WEIGHTS[~np.isnan(TABLE)]).tolist() == [6.0, 9.0, 6.0]
    assert Entries.of(TABLE).weight is None
    assert Entries.of(entries) is entries
    single = Entries.of(TABLE[:, 2])
    assert (single.shape, single.column.tolist()) == ((3, 1), [0, 0])


def test_some_of_the_numbers_keep_their_sets_groups_and_weights() -> None:
    entries = Entries.of(TABLE, WEIGHTS)
    some = entries.having(np.array([True, False, False, True, False, True]))
    assert rows(some) == [(0.1, 0, 0, 1.0), (0.6, 1, 2, 4.0), (0.8, 2, 1, 6.0)]
    assert some.shape == (3, 3)
    assert Entries.of(TABLE).having(np.full(6, True)).weight is None


def test_groups_alone_are_counted_anew_and_all_of_them_are_the_list_itself() -> None:
    entries = Entries.of(TABLE, WEIGHTS)
    two = entries.among(np.array([False, True, True]))
    assert rows(two) == [(0.3, 0, 1, 2.0), (0.5, 1, 0, 3.0), (0.6, 1, 1, 4.0), (0.8, 2, 0, 6.0)]
    assert two.shape == (3, 2)
    assert entries.among(np.full(3, True)) is entries
    assert [each.tolist() for each in two.samples()] == [[0.5, 0.8], [0.3, 0.6]]


def test_a_group_that_no_set_shows_has_a_place_too() -> None:
    entries = Entries.of([[0.1, NAN], [0.3, NAN]])
    assert entries.sets().tolist() == [2, 0]
    assert entries.sums(entries.value).tolist() == [0.4, 0.0]
    assert [each.tolist() for each in entries.samples()] == [[0.1, 0.3], []]


def test_samples_keep_the_order_of_their_sets_in_double_precision() -> None:
    table = np.arange(2000, dtype=np.float32).reshape(1000, 2)
    for sample, column in zip(Entries.of(table).samples(), table.T, strict=True):
        np.testing.assert_array_equal(sample, column)
        assert sample.dtype == np.float64


def test_samples_of_more_groups_than_two_bytes_count_stand_apart() -> None:
    groups = 2**16 + 1
    entries = Entries(np.array([0.3, 0.1, 0.2]), np.zeros(3, int), np.array([groups - 1, 0, 1]), (1, groups))
    samples = entries.samples()
    assert (samples[0].tolist(), samples[1].tolist(), samples[-1].tolist()) == ([0.1], [0.2], [0.3])


def test_samples_are_those_of_the_latest_groups() -> None:
    first = Entries.of(np.array([[0.1, 0.2], [0.3, 0.4]]))
    other = Entries(first.value, first.row, first.column[::-1].copy(), first.shape)
    for entries in (first, other, first):
        wanted = [entries.value[entries.column == group].tolist() for group in (0, 1)]
        assert [sample.tolist() for sample in entries.samples()] == wanted
    assert first.is_placed_as(Entries.of(np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert not first.is_placed_as(other)


def test_places_are_those_of_its_own_groups_whatever_was_asked_before_or_by_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries, other = Entries.of(TABLE), Entries.of([[0.1], [0.2]])

    class Raced(list[Any]):
        def __setitem__(self, at: Any, value: Any) -> None:
            super().__setitem__(at, [(other.column, ["another's"])])

    own = [[0, 4], [2, 5], [1, 3]]
    assert [each.tolist() for each in entries.places()] == own
    assert [each.tolist() for each in replace(entries, shape=(3, 4)).places()] == [*own, []]
    monkeypatch.setattr(entries_module, "_LATEST", Raced())
    assert [each.tolist() for each in entries.places()] == own
