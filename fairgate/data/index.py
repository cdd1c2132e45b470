"""The columns of a dataset without its pictures: small, and all that deciding a gate needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairgate.data.manifest import CROSS
from fairgate.errors import DatasetError, suggestion

if TYPE_CHECKING:
    import pyarrow as pa

Strings = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Index:
    """Text columns in stored row order, each of shape (rows,) and dtype object (str). `path` is "" where unknown.

    `groups` holds the declared groups of each attribute, in order.
    """

    set_id: Strings
    member: Strings
    subject: Strings
    caption: Strings
    path: Strings
    attributes: dict[str, Strings]
    groups: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.set_id)

    def codes(self, over: str | Sequence[str]) -> tuple[npt.NDArray[np.intp], list[str]]:
        """Group of every row as a position in the list of group names, for one attribute or several crossed.

        Names of intersections read "dark × female", the last attribute running fastest; combinations without a
        single row are named too. Raises DatasetError for an attribute or group that is not declared.
        """
        names = (over,) if isinstance(over, str) else tuple(over)
        code = np.zeros(len(self), dtype=np.intp)
        for name in names:
            code = code * len(self._groups_of(name)) + self._codes_of(name)
        return code, [CROSS.join(cell) for cell in product(*(self._groups_of(name) for name in names))]

    def _groups_of(self, attribute: str) -> Sequence[str]:
        if attribute not in self.groups:
            raise DatasetError(
                f"the dataset does not record '{attribute}'.",
                remedy=suggestion(attribute, self.groups, f"recorded attributes: {', '.join(self.groups)}"),
            )
        return self.groups[attribute]

    def _codes_of(self, attribute: str) -> npt.NDArray[np.intp]:
        values = self.attributes[attribute]
        code = np.full(len(values), -1, dtype=np.intp)
        for position, group in enumerate(self._groups_of(attribute)):
            code[values == group] = position
        if (code < 0).any():
            row = int(np.flatnonzero(code < 0)[0])
            raise DatasetError(
                f"'{values[row]}' is not a declared group of '{attribute}'.",
                where=f"set '{self.set_id[row]}', member '{self.member[row]}'",
                remedy="run `fairgate dataset verify` on the dataset",
            )
        return code


def strings(column: pa.ChunkedArray) -> Strings:
    """A dictionary-encoded text column as Python strings, equal ones shared: a repeated value costs a pointer."""
    shared: dict[str, str] = {}
    parts = [np.empty(0, dtype=object)]
    for chunk in column.chunks:
        own = [text or "" for text in chunk.dictionary.to_pylist()]
        values = np.array([*(shared.setdefault(text, text) for text in own), ""], dtype=object)  # "" for what is null
        codes = chunk.indices  # to_numpy() would import pandas
        gaps = codes.null_count
        parts.append(
            values[[-1 if code is None else code for code in codes.to_pylist()] if gaps else np.from_dlpack(codes)]
        )
    return np.concatenate(parts)
