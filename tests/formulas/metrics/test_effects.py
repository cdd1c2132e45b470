"""WEAT's effect size and permutation test: by hand, against scipy, and drawn partitions against all of them."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import effect_size, effects, permutation_p


def test_effect_sizes_by_hand() -> None:
    # means 2 and 1, deviations from 1.5 of +-0.5 and +-1.5: variance (0.25 + 2.25 + 2.25 + 0.25) / 3
    assert effect_size([1.0, 3.0], [0.0, 2.0]) == pytest.approx(1 / (5 / 3) ** 0.5, rel=1e-15)
    assert effect_size([1.0], [0.0]) == pytest.approx(2**0.5, rel=1e-15)  # 1 over the deviation of 0 and 1


def test_ps_by_hand() -> None:
    assert permutation_p([3.0, 2.0], [1.0, 0.0]) == 1 / 6  # of six pairs one has the largest sum
    assert permutation_p([3.0, 1.0], [2.0, 0.0]) == 2 / 6
    assert permutation_p([0.0], [1.0, 1.0]) == 1.0
    assert permutation_p([1.0, 0.0], [1.0, 0.0]) == 5 / 6  # four ties and one larger; with > it would be 1 / 6


def test_ps_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for sizes in ((4, 4), (3, 5)):
        x, y = (rng.normal(size=size) for size in sizes)
        expected = stats.permutation_test(
            (x, y), lambda a, b: a.mean() - b.mean(), alternative="greater", n_resamples=np.inf, vectorized=False
        )
        assert permutation_p(x, y) == pytest.approx(expected.pvalue, abs=1e-12)


def test_drawn_partitions_estimate_what_all_of_them_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.5, 1, 6), rng.normal(0, 1, 6)
    exact = permutation_p(x, y)
    monkeypatch.setattr(effects, "MOST_PARTITIONS", 10)
    drawn = permutation_p(x, y, rng=np.random.default_rng(2), draws=4000)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * (0.25 / 4000) ** 0.5)
