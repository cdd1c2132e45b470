"""Embeddings to unit length, or a clear error where a model returned none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairgate.errors import ModelError
from fairgate.models.protocols import Embeddings


def unit_or_error(raw: Embeddings, where: Callable[[int], str]) -> Embeddings:
    """Rows scaled to length 1, float32. Raises ModelError for a NaN, infinite or zero row; `where(row)` names it."""
    wide = raw.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if bad.size:
        raise ModelError(
            f"the model returned a NaN, infinite or zero embedding for {bad.size} of {len(raw)} inputs of a batch.",
            where=where(int(bad[0])),
            remedy="check the checkpoint (did training diverge?); with half precision, try --fairness-device cpu",
        )
    return np.asarray(wide / lengths, dtype=np.float32)
