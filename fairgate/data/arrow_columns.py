"""Arrow: its files, and columns of its tables as numpy arrays. Neither `to_numpy` nor `fill_null` (pandas: 0.3 s)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


def arrow_file(path: Path, mode: Literal["rb", "wb"] = "rb") -> Any:
    """An open file for Arrow, which itself opens only paths that are UTF-8."""
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path), mode)


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text, coded or not."""
    import pyarrow as pa

    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(held) or pa.types.is_large_string(held))


def texts(column: Any, missing: str | None = "") -> NDArray[np.object_]:
    """A text column, coded or not, as Python strings: (rows,) dtype object. Null becomes `missing`.

    Equal texts are one string: a few bytes of Parquet may repeat a long one a billion times.
    """
    import pyarrow as pa

    shared: dict[str, str] = {}
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        own = [missing if text is None else shared.setdefault(text, text) for text in coded.dictionary.to_pylist()]
        values = np.array([*own, missing], dtype=object)
        gaps, codes = coded.indices.null_count, coded.indices
        at = [-1 if code is None else code for code in codes.to_pylist()] if gaps else np.from_dlpack(codes)
        parts.append(values[at])
    return np.concatenate(parts)


def numbers(column: Any) -> NDArray[np.float64]:
    """A column of numbers: (rows,) float64, NaN for what is missing."""
    import pyarrow as pa

    parts = [np.empty(0)]
    for chunk in column.cast(pa.float64(), safe=False).chunks:
        values = chunk.to_pylist() if chunk.null_count else np.from_dlpack(chunk)
        parts.append(np.asarray(values, dtype=np.float64))
    return np.concatenate(parts)


def batch_texts(column: Any) -> list[str]:
    """A coded text column of a batch; null becomes "". Equal texts are one string, and only the batch's are made: its
    codes are those of a whole row group."""
    codes = np.array([-1 if code is None else code for code in column.indices.to_pylist()])
    used, at = np.unique(codes, return_inverse=True)
    held = column.dictionary.take([code if code >= 0 else None for code in used.tolist()]).to_pylist()
    return [held[place] or "" for place in at.tolist()]
