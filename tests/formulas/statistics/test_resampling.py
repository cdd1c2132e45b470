"""Resampled sets, medians under multiplicities, and the intervals they give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fairgate.formulas.statistics import (
    Resamples,
    bootstrap,
    paired_test,
    resampling,
    set_count_chunks,
    set_counts,
    weighted_median,
)
from fairgate.formulas.statistics.resampling import resampled_sums, without_zeros
from fairgate.ground.errors import StatisticsError
from fairgate.ground.randomness import stream


def test_every_draw_holds_as_many_sets_as_the_data() -> None:
    counts = set_counts(30, 500, stream(0, "counts"))
    assert counts.shape == (500, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert counts.mean(axis=0) == pytest.approx(1.0, abs=0.2)


def test_a_set_alone_is_drawn_once_every_time() -> None:
    assert set_counts(1, 3, stream(0, "alone")).tolist() == [[1]] * 3


def test_chunks_are_the_same_draws_in_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = set_counts(7, 50, stream(0, "chunks"))
    monkeypatch.setattr(resampling, "CHUNK", 21)
    chunks = list(set_count_chunks(7, 50, stream(0, "chunks")))
    assert len(chunks) == 17
    np.testing.assert_array_equal(np.concatenate(chunks), whole)


@pytest.mark.parametrize("sets", [7, 200, 300, 70_000])
def test_multiplicities_are_the_counts_of_plain_draws(sets: int) -> None:
    counts = set_counts(sets, 5, stream(0, "plain", sets))
    drawn = stream(0, "plain", sets).integers(0, sets, size=(5, sets))
    for row, picks in zip(counts, drawn, strict=True):
        np.testing.assert_array_equal(row, np.bincount(picks, minlength=sets))
    assert counts.dtype == np.int32


@pytest.mark.parametrize("sets", [30, 255, 256])
def test_shared_resamples_give_what_their_generator_would(sets: int) -> None:
    shared = Resamples(sets, 300, stream(0, "shared"))
    np.testing.assert_array_equal(set_counts(sets, 300, shared), set_counts(sets, 300, stream(0, "shared")))
    np.testing.assert_array_equal(set_counts(sets, 20, shared), set_counts(sets, 300, shared)[:20])
    assert set_counts(sets, 20, shared).dtype == np.int32
    values = stream(1, "values").normal(size=(sets, 3))
    by_shared = paired_test(values, 0 * values, margin=0.1, rng=shared, draws=300)
    by_generator = paired_test(values, 0 * values, margin=0.1, rng=stream(0, "shared"), draws=300)
    np.testing.assert_array_equal(by_shared.lo, by_generator.lo)
    again = paired_test(values, 0 * values, margin=0.1, rng=shared, draws=300)
    np.testing.assert_array_equal(again.hi, by_shared.hi)
    interval = bootstrap(values[:, 0], sets, shared, n=300)
    assert interval == bootstrap(values[:, 0], sets, stream(0, "shared"), n=300)
    assert (shared.n_sets, shared.draws) == (sets, 300)


def test_shared_resamples_come_in_chunks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Resamples(7, 50, stream(0, "chunks"))
    monkeypatch.setattr(resampling, "CHUNK", 21)
    assert [len(chunk) for chunk in set_count_chunks(7, 50, shared)] == [3] * 16 + [2]
    np.testing.assert_array_equal(set_counts(7, 50, shared), set_counts(7, 50, stream(0, "chunks")))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_the_weighted_median_is_the_median_of_the_repeated_values(seed: int, n: int) -> None:
    rng = stream(seed, "median")
    values = rng.integers(0, 5, n) / 4
    counts = set_counts(n, 5, rng)
    expected = [np.median(np.repeat(values, row)) for row in counts]
    np.testing.assert_allclose(weighted_median(values, counts), expected)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 200), blocks=st.integers(1, 4))
def test_the_weighted_median_of_blocks_is_that_of_their_rows_however_far_from_the_middle(
    seed: int, n: int, blocks: int
) -> None:
    rng = stream(seed, "median of blocks")
    values, unit = np.sort(rng.random(n)), np.sort(rng.integers(0, blocks, n))
    counts = rng.integers(0, 3, (5, blocks)).astype(np.int32)
    counts[counts[:, unit].sum(axis=1) == 0] = 1
    expected = [np.median(np.repeat(values, row)) for row in counts[:, unit]]
    np.testing.assert_array_equal(weighted_median(values, counts, unit), expected)


def test_the_interval_of_a_mean_is_the_normal_one_for_many_sets() -> None:
    values = stream(0, "values").normal(1.0, 2.0, 2000)
    interval = bootstrap(values, 2000, stream(0, "percentile"), n=4000)
    reach = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(2000)
    assert interval.estimate == pytest.approx(values.mean())
    assert [interval.lo, interval.hi] == pytest.approx([values.mean() - reach, values.mean() + reach], abs=0.01)
    assert (interval.method, interval.draws) == ("percentile", 4000)


def test_limits_are_the_quantiles_of_the_resampled_means_of_two_sets_or_more() -> None:
    for values in (stream(0, "values").normal(size=30), np.array([0.0, 1.0])):
        found = bootstrap(values, values.size, stream(1, "draws"), n=500, alpha=0.3)
        means = set_counts(values.size, 500, stream(1, "draws")) @ values / values.size
        assert [found.lo, found.hi] == pytest.approx(np.quantile(means, [0.15, 0.85]).tolist())


def test_rows_of_one_set_are_drawn_together() -> None:
    values = stream(0, "rows").normal(size=40)
    rows, sets = np.repeat(values, 25), np.repeat(np.arange(40), 25)
    together = bootstrap(rows, sets, stream(0, "draws"), n=2000)
    alone = bootstrap(values, 40, stream(0, "draws"), n=2000)
    assert [together.lo, together.hi] == pytest.approx([alone.lo, alone.hi])


def test_sets_that_agree_leave_nothing_to_doubt() -> None:
    interval = bootstrap(np.full(20, 0.5), 20, stream(0, "same"), n=100)
    assert (interval.lo, interval.estimate, interval.hi) == (0.5, 0.5, 0.5)


SHARED = "share resamples among tests on the same sets, with no more draws than were made; else pass a generator"
VALUES = "pass finite values (rows,) with the set code 0, 1, ... of each, or one per set and their number"


@pytest.mark.parametrize(
    ("call", "problem", "where", "remedy"),
    [
        (lambda rng: set_counts(0, 5, rng), "5 draws of 0 sets", "set_counts", "both must be at least 1"),
        (lambda rng: set_counts(3, 0, rng), "0 draws of 3 sets", "set_counts", "both must be at least 1"),
        (lambda rng: Resamples(0, 5, rng), "5 draws of 0 sets", "set_counts", "both must be at least 1"),
        (lambda rng: set_counts(4, 5, Resamples(3, 5, rng)), "5 resamples of 4 sets", "Resamples", SHARED),
        (lambda rng: set_counts(3, 6, Resamples(3, 5, rng)), "of 5 resamples of 3 sets", "Resamples", SHARED),
        (lambda rng: Resamples(3, 5, rng).rows(3, 0), "0 resamples of 3 sets", "Resamples", SHARED),
        (lambda rng: bootstrap([0.1, 0.2, np.nan], 3, rng), "1 of them not finite", "values", VALUES),
        (lambda rng: bootstrap([0.1, 0.2], 3, rng), "do not fit 3 sets", "values", VALUES),
        (lambda rng: bootstrap([0.1, 0.2], [0, 2], rng), "do not fit 3 sets", "values", VALUES),
        (lambda rng: bootstrap([0.1], 1, rng), "1 set cannot be", "sets", "score at least two sets, better thirty"),
    ],
)
def test_what_cannot_be_resampled_is_refused(call, problem: str, where: str, remedy: str) -> None:
    with pytest.raises(StatisticsError, match=problem) as caught:
        call(stream(0, "refused"))
    assert (caught.value.where, caught.value.remedy) == (where, remedy)


def test_patterns_that_are_drawn_at_once_give_the_distribution_of_their_rows() -> None:
    """300 answers of three kinds: means, variances and covariances of sums agree within five Monte-Carlo errors."""
    rng, draws = stream(0, "patterns"), 20_000
    table = np.repeat(np.array([[1.0, 0.5], [0.0, 1.0], [-1.0, 0.25]]), (30, 250, 20), axis=0)
    at_once = resampled_sums(table, draws, rng, most=resampling.MOST)
    row_by_row = set_counts(len(table), draws, rng) @ table
    for drawn in (at_once, row_by_row):
        off = drawn - table.sum(axis=0)
        spread = len(table) * np.cov(table.T, bias=True)
        assert np.abs(off.mean(axis=0)).max() < 5 * np.sqrt(spread.diagonal().max() / draws)
        variances = spread.diagonal()
        error = np.sqrt((np.outer(variances, variances) + spread**2) / draws)
        assert (np.abs(np.cov(off.T) - spread) < 5 * error).all()
    quantiles = [0.01, 0.1, 0.5, 0.9, 0.99]
    apart = np.quantile(at_once, quantiles, axis=0) - np.quantile(row_by_row, quantiles, axis=0)
    assert (np.abs(apart) < 0.2 * row_by_row.std(axis=0)).all()


def test_rows_that_all_differ_are_drawn_as_they_are() -> None:
    table = stream(1, "rows").normal(size=(50, 2))
    wanted = set_counts(50, 100, stream(2, "draws")) @ table
    assert resampled_sums(table, 100, stream(2, "draws"), most=50) == pytest.approx(wanted)


def test_a_sparse_product_is_the_dense_one() -> None:
    columns = np.zeros((400, 60))
    columns[np.arange(400), np.arange(400) % 60] = stream(3, "columns").normal(size=400)
    weights = set_counts(400, 30, stream(4, "draws")).astype(np.float64)
    thin = without_zeros(columns)
    assert not isinstance(thin, np.ndarray)
    assert weights @ thin == pytest.approx(weights @ columns)
    assert isinstance(without_zeros(columns + 1.0), np.ndarray)
    one_in_twenty = np.eye(20)
    assert not isinstance(without_zeros(one_in_twenty), np.ndarray)
    one_in_twenty[0, 1] = 1.0
    assert isinstance(without_zeros(one_in_twenty), np.ndarray)
