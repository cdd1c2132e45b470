"""How well a group is predicted from vectors (Smith et al. 2023, section 3.3): a classifier judged in folds, and the
interval of its AUC.

The paper trains ResNet-50 and BERT on COCO train and judges on val; here a logistic regression on any vectors is judged
in five folds. The figures are comparable with each other, and not with the paper's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.formulas.statistics import set_count_chunks
from fairgate.ground.errors import DatasetError
from fairgate.studies.papers.contract import ResampledNumber

Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

FOLDS = 5
AUC_DRAWS = 1000
"""Resamples of an AUC's interval."""
WIDER = (1 + FOLDS / (FOLDS - 1)) ** 0.5
"""By how much a deviation over folds is too small, as their models share rows (Nadeau and Bengio 2003): 1.5."""
_BLOCK = 8192  # rows that are in float64 at once
_ENTRIES = 1_000_000  # rows times resamples that are judged at once


def predictable_auc(
    vectors: Any,
    positive: NDArray[np.bool_],
    rng: np.random.Generator,
    owner: Rows | None = None,
    weight: Rows | None = None,
) -> ResampledNumber:
    """Held-out AUC of a logistic regression that predicts the group from vectors (rows, dim); 0.5 is chance.

    Folds are stratified by group, every row is scored by the model that was not fitted on it, and the AUC is averaged
    over folds. Vectors may be sparse. `owner` (rows,) codes photographs: rows of one are in one fold, by the group of
    its first row; `weight` (rows,) is how many equal rows each is there for. Resamples are of photographs, `WIDER` for
    what the fitted models depend on. Raises DatasetError where a group has fewer photographs than there are folds.
    """
    owner = np.arange(len(positive)) if owner is None else owner
    _, first, code = np.unique(owner, return_index=True, return_inverse=True)
    fold = _folds(positive, first, rng)
    scores, counts = np.empty(len(positive)), np.ones(len(positive), dtype=np.intp) if weight is None else weight
    for number in range(FOLDS):
        judging = fold[code] == number
        slope, intercept = _fitted(vectors, np.flatnonzero(~judging), positive, counts)
        for rows in _blocks(np.flatnonzero(judging)):
            scores[rows] = _doubles(vectors, rows) @ slope + intercept
    judged = [
        _Judged.of(np.flatnonzero(fold[code] == number), scores, positive, code, counts) for number in range(FOLDS)
    ]

    def means(times: NDArray[np.int32]) -> Matrix:
        return np.asarray(np.mean([each.aucs(times) for each in judged], axis=0))

    step = max(1, _ENTRIES // len(positive))
    draws = [
        means(chunk[start : start + step])
        for chunk in set_count_chunks(len(first), AUC_DRAWS, rng)
        for start in range(0, len(chunk), step)
    ]
    value = float(means(np.ones((1, len(first)), dtype=np.int32))[0])
    wider = np.clip(value + WIDER * (np.concatenate(draws) - value), 0, 1)
    return ResampledNumber(value, wider, int(counts.sum()), "a fold has one group alone")


def _folds(positive: NDArray[np.bool_], first: Rows, rng: np.random.Generator) -> Rows:
    """The fold of every photograph, stratified by the group of its `first` row."""
    leading = positive[first]
    fold = np.empty(len(first), dtype=np.intp)
    for group in np.unique(leading):
        own = rng.permutation(np.flatnonzero(leading == group))
        if len(own) < FOLDS or positive.all() or not positive.any():
            raise DatasetError(
                f"a group has {0 if len(own) >= FOLDS else len(own)} rows, too few for {FOLDS} folds.",
                where="labels",
                remedy="give more rows of it",
            )
        fold[own] = np.arange(len(own)) % FOLDS
    return fold


@dataclass(frozen=True, slots=True)
class _Judged:
    """The rows of a fold in order of their scores: their photographs, how often each counts, who is of the group, and
    where equal scores start."""

    photograph: Rows
    weight: Rows
    positive: NDArray[np.bool_]
    starts: Rows

    @classmethod
    def of(cls, rows: Rows, scores: Matrix, positive: NDArray[np.bool_], code: Rows, weight: Rows) -> _Judged:
        ordered = rows[np.argsort(scores[rows], kind="stable")]
        starts = np.unique(scores[ordered], return_index=True)[1]
        return cls(code[ordered], weight[ordered], positive[ordered], starts)

    def aucs(self, times: NDArray[np.int32]) -> Matrix:
        """AUC (draws,) of photographs that are drawn so many times, (draws, photographs); NaN without both groups."""
        often = times[:, self.photograph] * self.weight
        up, down = (np.add.reduceat(often * group, self.starts, axis=1) for group in (self.positive, ~self.positive))
        pairs = up.sum(axis=1) * down.sum(axis=1)
        below = np.cumsum(down, axis=1) - down / 2
        return np.asarray((up * below).sum(axis=1) / np.where(pairs > 0, pairs, np.nan))


def _fitted(vectors: Any, rows: Rows, positive: NDArray[np.bool_], counts: Rows) -> tuple[Matrix, float]:
    """Slope (dim,) and intercept of a logistic regression on standardised rows, with scikit-learn's penalty (C = 1).

    Not by scikit-learn, which takes all rows as float64 at once: 605 MB of 184,656 edits. Here blocks are.
    """
    from scipy.optimize import minimize
    from scipy.sparse import issparse
    from scipy.special import expit
    from sklearn.preprocessing import StandardScaler

    # A sparse table would be dense once its means were taken away; the intercept takes them up as well.
    scaler = StandardScaler(with_mean=not issparse(vectors))
    for block in _blocks(rows):
        scaler.partial_fit(_doubles(vectors, block), sample_weight=counts[block])
    mean, total = np.zeros(vectors.shape[1]) if scaler.mean_ is None else scaler.mean_, counts[rows].sum()

    def line(weights: Matrix) -> tuple[Matrix, float]:
        slope = weights[:-1] / scaler.scale_
        return slope, float(weights[-1] - mean @ slope)

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        slope, intercept = line(weights)
        value, gradient, residuals = weights[:-1] @ weights[:-1] / 2, weights.copy(), 0.0
        gradient[-1] = 0.0
        for block in _blocks(rows):
            own = _doubles(vectors, block)
            logits = own @ slope + intercept
            value += counts[block] @ np.logaddexp(0, np.where(positive[block], -logits, logits))
            residual = counts[block] * (expit(logits) - positive[block])
            gradient[:-1] += own.T @ residual / scaler.scale_
            residuals += residual.sum()
        gradient[:-1] -= mean / scaler.scale_ * residuals
        gradient[-1] += residuals
        return value / total, gradient / total

    options = {"gtol": 1e-8, "ftol": 0.0, "maxiter": 10_000, "maxfun": 20_000}
    return line(minimize(loss, np.zeros(len(mean) + 1), jac=True, method="L-BFGS-B", options=options).x)


def _blocks(rows: Rows) -> Iterator[Rows]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _doubles(vectors: Any, rows: Rows) -> Any:
    """Rows of vectors as float64, sparse ones sparse."""
    return vectors[rows].astype(np.float64)
