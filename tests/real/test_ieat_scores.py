"""Published effect sizes and p values of the image embedding association test (Steed and Caliskan 2021), recomputed."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from fairgate.formulas.metrics import effect_size, permutation_p

FOLDER = Path(__file__).parents[2] / "../shared/real/outputs/ieat_assoc"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the scores are not beside this checkout")

COUNTED = 7
"""Targets a side up to which all partitions were counted; of more, the published p is of random ones."""


def scores() -> dict[tuple[str, str], dict[str, list[float]]]:
    """Of each test and model, those of X and of Y."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    with gzip.open(FOLDER / "assoc_scores.csv.gz", "rt") as handle:
        for row in csv.DictReader(handle):
            sides = found.setdefault((row["test"], row["model"]), {"X": [], "Y": []})
            sides[row["side"]].append(float(row["assoc_score"]))
    return found


def published() -> list[dict[str, str]]:
    with (FOLDER / "published.csv").open() as handle:
        return list(csv.DictReader(handle))


def test_effect_sizes_are_the_published_ones() -> None:
    sides, rows = scores(), published()
    assert len(rows) == 78
    found = [effect_size(*sides[row["test"], row["model"]].values()) for row in rows]
    np.testing.assert_allclose(found, [float(row["d"]) for row in rows], rtol=0, atol=1e-13)


def test_ps_over_all_partitions_are_the_published_ones() -> None:
    sides = scores()
    counted = [row for row in published() if int(row["n_t"]) <= COUNTED]
    assert len(counted) == 24
    for row in counted:
        assert permutation_p(*sides[row["test"], row["model"]].values()) == pytest.approx(float(row["p"]), abs=1e-15)


def test_ps_over_drawn_partitions_are_near_the_published_ones() -> None:
    sides = scores()
    drawn = [row for row in published() if int(row["n_t"]) > 10][:6]
    for row in drawn:
        found = permutation_p(*sides[row["test"], row["model"]].values(), rng=np.random.default_rng(0), draws=2000)
        p = float(row["p"])
        assert found == pytest.approx(p, abs=5 * (p * (1 - p) / 2000 + 0.25 / 10_000) ** 0.5 + 1e-3)
