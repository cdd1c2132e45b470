"""The gate's tests on plain arrays: of groups among their set-mates, and of groups of images that form no sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairgate.formulas.metrics import set_deviation
from fairgate.formulas.statistics import Design, PairedResult, compare_images, decided, paired_test


def group_changes(candidate: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    return set_deviation(candidate) - set_deviation(baseline)


def group_regression(candidate: np.ndarray, baseline: np.ndarray, **test: Any) -> PairedResult:
    return paired_test(set_deviation(candidate), set_deviation(baseline), **test)


def image_regression(
    candidate: Any, baseline: Any, labels: Any, *, margin: float, alpha: float = 0.05, harm: Any = "lower", **test: Any
) -> PairedResult:
    return decided([compare_images(candidate, baseline, labels, design=Design(margin, alpha, harm), **test)])[0]
