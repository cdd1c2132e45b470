"""Very many sets are drawn in blocks: the same evidence as from drawing the sets, in time that does not grow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairgate.formulas.statistics import Entries, PairedResult, Resamples, paired_test, resampling
from fairgate.formulas.statistics._limits import mean_evidence
from fairgate.formulas.statistics.resampling import blocks_of, most_drawn, resampled_sums
from fairgate.ground.randomness import stream

DRAWS = 1000


def table(sets: int, groups: int, name: str = "values") -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Skewed changes of single images, each in one group; the first group fell."""
    rng = stream(0, name, sets)
    made = np.full((sets, groups), np.nan)
    group = rng.integers(0, groups, sets)
    made[np.arange(sets), group] = rng.exponential(0.1, sets) - 0.1 - 0.02 * (group == 0)
    return made


def compared(values: np.ndarray[tuple[int, int], np.dtype[np.float64]], sets: Resamples) -> PairedResult:
    return paired_test(values, np.where(np.isnan(values), np.nan, 0.0), margin=0.01, rng=sets, draws=DRAWS)


def test_blocks_have_one_size_and_every_set_is_in_one() -> None:
    unit = blocks_of(20_000, stream(0, "blocks"), resampling.BLOCKS)
    sizes = np.bincount(unit)
    assert sizes.size == resampling.BLOCKS - 48  # 2,000 of 10
    assert (sizes == 10).all()
    assert not (np.diff(unit) >= 0).all()  # dealt at random, not cut


def test_sets_up_to_a_number_are_drawn_themselves() -> None:
    few, many = (Resamples(sets, 2, stream(0, "sets")) for sets in (resampling.MOST, resampling.MOST + 1))
    assert few.unit is None
    assert many.unit is not None
    assert many.rows(many.n_sets, 2).shape == (2, many.n_sets)


def test_blocks_of_one_set_give_what_the_same_multiplicities_of_sets_give(monkeypatch: pytest.MonkeyPatch) -> None:
    values, rng = table(400, 3), stream(1, "draws")
    monkeypatch.setattr(resampling, "MOST", 0)
    blocks = Resamples(400, DRAWS, rng)
    monkeypatch.undo()
    assert blocks.unit is not None
    again = stream(1, "draws")
    again.permutation(400)  # what dealt the sets
    reordered = np.empty_like(values)
    reordered[blocks.unit] = values
    by_blocks, by_sets = compared(values, blocks), compared(reordered, Resamples(400, DRAWS, again))
    np.testing.assert_array_equal(by_blocks.verdict, by_sets.verdict)
    np.testing.assert_allclose(by_blocks.p_adjusted, by_sets.p_adjusted, atol=1 / DRAWS)  # single precision
    np.testing.assert_allclose(by_blocks.lo, by_sets.lo, rtol=1e-5)


def test_evidence_of_blocks_is_that_of_sets_within_the_error_of_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 comparisons of 4,000 images in 4 groups, at p-values of 0.001 to 1."""
    apart, ends = [], []
    for run in range(16):
        values = table(4000, 4, f"run {run}")
        sets = compared(values, Resamples(4000, DRAWS, stream(run, "sets")))
        monkeypatch.setattr(resampling, "MOST", 1000)
        blocks = compared(values, Resamples(4000, DRAWS, stream(run, "blocks")))
        monkeypatch.undo()
        p = (blocks.p_not_worse + sets.p_not_worse) / 2
        apart.append((blocks.p_not_worse - sets.p_not_worse) / np.sqrt(2 * p * (1 - p) / DRAWS + 1 / DRAWS**2))
        ends.append((blocks.hi - blocks.delta) / (sets.hi - sets.delta) - 1)
    assert np.abs(apart).max() < 5
    assert abs(np.mean(apart)) < 1
    assert abs(np.mean(ends)) < 0.06  # five errors of so few draws, 16 times


def test_sums_of_blocks_vary_as_those_of_sets_do() -> None:
    values = Entries.of(table(30_000, 5))
    sets = Resamples(30_000, 4000, stream(0, "spread"))
    centred = values.value - (values.sums(values.value) / values.sets())[values.column]
    (drawn,) = sets.sums(values, [centred], 4000)
    wanted = np.sqrt(values.sums(centred**2))
    assert (drawn * sets.spread(sets.by_unit(values, centred), values.sums(centred**2))).std(
        axis=0
    ) / wanted == pytest.approx(1, abs=5 / np.sqrt(2 * 4000))
    assert drawn.mean(axis=0) / wanted == pytest.approx(0, abs=5 / np.sqrt(4000))


def test_scores_of_blocks_vary_as_those_of_sets_even_if_what_is_alike_shares_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resampling, "MOST", 0)
    monkeypatch.setattr(resampling, "BLOCKS", 50)
    sets = Resamples(500, DRAWS, stream(0, "sets"))
    values = stream(0, "alike").normal(0, 0.1, 50)[sets.unit] + stream(0, "noise").normal(0, 0.02, 500)
    evidence = mean_evidence(values, alpha=0.05, draws=DRAWS, rng=sets)
    assert evidence.over.drawn.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("most", [2048, 256])
def test_many_rows_that_differ_are_drawn_in_blocks_with_their_means_and_variances(most: int) -> None:
    rows = stream(0, "rows").lognormal(size=(20_000, 2))
    drawn = resampled_sums(rows, 4000, stream(1, "rows"), most=most)
    error = np.sqrt(len(rows)) * rows.std(axis=0)
    assert (drawn.mean(axis=0) - rows.sum(axis=0)) / error == pytest.approx(0, abs=5 / np.sqrt(4000))
    assert drawn.std(axis=0) / error == pytest.approx(1, abs=5 / np.sqrt(2 * 4000))


def test_many_groups_that_are_drawn_apart_share_the_blocks() -> None:
    shares = [
        most_drawn(rows, groups) for rows, groups in [(8192, 126), (8193, 2), (10**6, 3), (10**6, 14), (10**6, 126)]
    ]
    assert shares == [8192, 2048, 2048, 585, 256]


def test_more_patterns_than_blocks_are_not_drawn_one_by_one() -> None:
    """Scores of three decimals: a number for every pattern and draw would grow with the images."""
    rng = stream(0, "patterns")
    rows = np.stack([rng.integers(0, 60, 40_000), rng.integers(0, 60, 40_000)], axis=1) / 1000
    blocks_alone: Any = SimpleNamespace(permutation=rng.permutation, integers=rng.integers)
    drawn = resampled_sums(rows, 200, blocks_alone, most=resampling.BLOCKS)
    error = np.sqrt(len(rows)) * rows.std(axis=0)
    assert (drawn.mean(axis=0) - rows.sum(axis=0)) / error == pytest.approx(0, abs=5 / np.sqrt(200))
    assert drawn.std(axis=0) / error == pytest.approx(1, abs=5 / np.sqrt(400))


def test_evidence_is_the_same_in_every_unit_though_rounding_differs() -> None:
    """A resample that holds one value of a group alone says nothing of it."""
    values = np.full((294, 2), np.nan)
    values[:286, 0], values[286:, 1] = stream(0, "many").normal(0, 0.1, 286), stream(0, "few").normal(0, 0.1, 8)
    sets = Resamples(294, 20_000, stream(0, "sets"))
    units = [1.0, 0.1, 1 / 3, 0.7, 1e-3]
    ends = [paired_test(values * unit, values * 0, margin=unit / 50, rng=sets, draws=20_000) for unit in units]
    for unit, result in zip(units, ends, strict=True):
        np.testing.assert_allclose(result.lo / unit, ends[0].lo, rtol=1e-9)
        np.testing.assert_allclose(result.hi / unit, ends[0].hi, rtol=1e-9)


def test_a_group_of_seven_images_is_not_judged_in_blocks_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.2% of the resamples hold one of them alone, or none; single precision gave half of these a spread."""
    monkeypatch.setattr(resampling, "MOST", 100)
    for run in range(20):
        values = np.full((300, 2), np.nan)
        values[:293, 0], values[293:, 1] = stream(run, "many").normal(0, 0.1, 293), stream(run, "few").normal(0, 0.1, 7)
        assert np.isinf(compared(values, Resamples(300, DRAWS, stream(run, "sets"))).lo[1])
