"""Heads are fitted on features of labelled pictures: a linear one by regression, or a table of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairgate.ground.errors import ModelError
from fairgate.models.contract import Model
from fairgate.models.features.family import Backbone
from fairgate.models.features.heads import NEIGHBOURS, Head, Kind, Table

PENALTY = 1e-3
"""Of the squared weights, per image, on features of standard deviation 1."""


def fit_head(
    model: Model | Backbone,
    codes: NDArray[np.int64],
    labels: Sequence[str],
    *,
    kind: Kind,
    attribute: str,
    release: str,
    fingerprint: str,
    neighbours: int = NEIGHBOURS,
    penalty: float = PENALTY,
) -> Head:
    """A head for a backbone that is bound to labelled pictures. `codes` (images,) are places in `labels`, -1 for none.

    The linear one is a multinomial logistic regression with an L2 penalty on standardised features. Raises ModelError
    for a model that is no backbone, and for pictures of fewer than two labels.
    """
    if not isinstance(model, Backbone):
        raise ModelError(
            "it is no backbone without a head.", where=model.uri, remedy="name one as features:FOLDER, without head="
        )
    known = codes >= 0
    there = np.unique(codes[known])
    if len(there) < 2:
        raise ModelError(
            f"pictures of {len(there)} label(s) teach nothing.", where=release, remedy="name an attribute of two groups"
        )
    features, own = model.features()[known], np.searchsorted(there, codes[known]).astype(np.int64)
    if kind == "linear":
        weight, bias = _regression(features, own, len(there), penalty)
        tensors: dict[str, NDArray[Any]] = {"weight": weight, "bias": bias}
    else:
        unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        tensors = {"features": unit.astype(np.float32), "codes": own}
    return Head(
        labels=tuple(labels[place] for place in there.tolist()),
        attribute=attribute,
        pool=model.pool,
        release=release,
        fingerprint=fingerprint,
        origin=model.fingerprint,
        neighbours=min(neighbours, len(own)),
        tensors=tensors,
    )


def _regression(features: Table, codes: NDArray[np.int64], labels: int, penalty: float) -> tuple[Table, Table]:
    """Weight (labels, width) and bias (labels,) that minimise the mean cross-entropy plus the penalty."""
    from scipy.optimize import minimize

    mean, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale = np.where(scale > 0, scale, 1.0)
    shown = (features - mean) / scale
    wanted = np.eye(labels)[codes]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        table = flat.reshape(labels, -1)
        logits = shown @ table[:, :-1].T + table[:, -1]
        logits -= logits.max(axis=1, keepdims=True)
        total = np.exp(logits).sum(axis=1, keepdims=True)
        off = (np.exp(logits) / total - wanted) / len(shown)
        slope = np.concatenate([off.T @ shown + 2 * penalty * table[:, :-1], off.sum(axis=0)[:, None]], axis=1)
        value = -(wanted * (logits - np.log(total))).sum() / len(shown) + penalty * np.square(table[:, :-1]).sum()
        return float(value), slope.ravel()

    found = minimize(loss, np.zeros(labels * (features.shape[1] + 1)), jac=True, method="L-BFGS-B")
    table = found.x.reshape(labels, -1)
    weight = table[:, :-1] / scale
    return weight.astype(np.float32), (table[:, -1] - weight @ mean).astype(np.float32)
