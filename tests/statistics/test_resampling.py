"""Resampled sets, medians under multiplicities, and the intervals they give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import norm

from fairgate.errors import StatisticsError
from fairgate.randomness import stream
from fairgate.statistics import bootstrap, draws, set_count_chunks, set_counts, weighted_median


def test_every_draw_holds_as_many_sets_as_the_data() -> None:
    counts = set_counts(30, 500, stream(0, "counts"))
    assert counts.shape == (500, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert counts.mean(axis=0) == pytest.approx(1.0, abs=0.2)


def test_chunks_are_the_same_draws_in_less_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = set_counts(7, 50, stream(0, "chunks"))
    monkeypatch.setattr(draws, "CHUNK", 21)
    chunks = list(set_count_chunks(7, 50, stream(0, "chunks")))
    assert len(chunks) == 17
    np.testing.assert_array_equal(np.concatenate(chunks), whole)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_the_weighted_median_is_the_median_of_the_repeated_values(seed: int, n: int) -> None:
    rng = stream(seed, "median")
    values = rng.integers(0, 5, n) / 4
    counts = set_counts(n, 5, rng)
    expected = [np.median(np.repeat(values, row)) for row in counts]
    np.testing.assert_allclose(weighted_median(values, counts), expected)


def test_the_interval_of_a_mean_is_the_normal_one_for_many_sets() -> None:
    values = stream(0, "values").normal(1.0, 2.0, 2000)
    for method in ("percentile", "bca"):
        interval = bootstrap(values, 2000, stream(0, method), n=4000, method=method)
        reach = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(2000)
        assert interval.estimate == pytest.approx(values.mean())
        assert [interval.lo, interval.hi] == pytest.approx([values.mean() - reach, values.mean() + reach], abs=0.01)
        assert (interval.method, interval.draws) == (method, 4000)


def test_the_median_of_sets_has_a_percentile_interval_that_covers() -> None:
    covered = 0
    for trial in range(100):
        rng = stream(trial, "cover")
        interval = bootstrap(rng.lognormal(size=60), 60, rng, n=400, statistic="median")
        covered += interval.lo <= 1.0 <= interval.hi
    assert covered >= 88


def test_bca_follows_skewness_as_scipys_does() -> None:
    values = stream(0, "skewed").lognormal(size=80)
    interval = bootstrap(values, 80, stream(1, "bca"), n=20_000, method="bca")
    peer = scipy_bootstrap((values,), np.mean, n_resamples=20_000, rng=stream(2, "peer")).confidence_interval
    assert [interval.lo, interval.hi] == pytest.approx([peer.low, peer.high], abs=0.03)
    plain = bootstrap(values, 80, stream(1, "bca"), n=20_000)
    assert interval.hi > plain.hi


def test_rows_of_one_set_are_drawn_together() -> None:
    values = stream(0, "rows").normal(size=40)
    rows, sets = np.repeat(values, 25), np.repeat(np.arange(40), 25)
    together = bootstrap(rows, sets, stream(0, "draws"), n=2000)
    alone = bootstrap(values, 40, stream(0, "draws"), n=2000)
    assert [together.lo, together.hi] == pytest.approx([alone.lo, alone.hi])
    median = bootstrap(rows, sets, stream(0, "draws"), n=200, statistic="median")
    assert median.hi - median.lo > 0.1


def test_a_function_of_multiplicities_is_resampled_like_its_values() -> None:
    values = stream(0, "function").normal(size=30)
    by_function = bootstrap(lambda counts: counts @ values / 30, 30, stream(0, "draws"), n=1000, method="bca")
    by_values = bootstrap(values, 30, stream(0, "draws"), n=1000, method="bca")
    assert [by_function.lo, by_function.hi] == pytest.approx([by_values.lo, by_values.hi])


def test_sets_that_agree_leave_nothing_to_doubt() -> None:
    interval = bootstrap(np.full(20, 0.5), 20, stream(0, "same"), n=100, method="bca")
    assert (interval.lo, interval.estimate, interval.hi) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "problem", "remedy"),
    [
        (lambda rng: set_counts(0, 5, rng), "5 draws of 0 sets", "at least 1"),
        (lambda rng: bootstrap([0.1, np.nan], 2, rng), "1 of them not finite", "finite values"),
        (lambda rng: bootstrap([0.1, 0.2], 3, rng), "do not fit 3 sets", "set code"),
        (lambda rng: bootstrap([0.1, 0.2], [0, 2], rng), "do not fit 3 sets", "set code 0, 1, ..."),
        (lambda rng: bootstrap([0.1], 1, rng), "1 set cannot be resampled", "at least two sets"),
        (lambda rng: bootstrap([0.1, 0.2], 2, rng, statistic="median", method="bca"), "jackknife", "percentile"),
    ],
)
def test_what_cannot_be_resampled_is_refused(call, problem: str, remedy: str) -> None:
    with pytest.raises(StatisticsError, match=problem) as caught:
        call(stream(0, "refused"))
    assert caught.value.where
    assert remedy in caught.value.remedy
