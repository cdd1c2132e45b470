"""Published counts of men and women painted in 153 occupations, plain and with Fair Diffusion: what the page prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
REAL = ROOT / "../shared/real"
FILES = [REAL / f"fair_diffusion_{name}_counts.txt" for name in ("sd15", "edited")]
PAGE = ROOT / "docs" / "evidence" / "papers" / "diffusion-perturbations.md"

pytestmark = pytest.mark.skipif(
    not all(file.is_file() for file in FILES), reason="the counts are not beside this checkout"
)


def shares_of_women(file: Path) -> np.ndarray:
    """One for each occupation."""
    found = re.findall(r"man: (\d+), woman: (\d+)", file.read_text(encoding="utf-8"))
    counts = np.array(found, dtype=np.float64)
    return np.asarray(counts[:, 1] / counts.sum(axis=1))


def test_the_spread_of_the_share_of_women_over_occupations_is_the_one_that_the_page_prints() -> None:
    plain, edited = (shares_of_women(file) for file in FILES)
    assert plain.shape == edited.shape == (153,)
    printed = f"a standard deviation of {plain.std():.3f} in SD 1.5, {edited.std():.3f} with Fair Diffusion"
    assert printed == "a standard deviation of 0.347 in SD 1.5, 0.130 with Fair Diffusion"
    assert f"published counts of 153 occupations: the share of women has {printed}" in PAGE.read_text(encoding="utf-8")
