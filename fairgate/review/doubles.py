"""The same picture twice in one dataset, found while it is verified."""

from __future__ import annotations

from array import array

import numpy as np

from fairgate.data import Dataset, Problem


class Doubles:
    """Told of every picture (`Dataset.verify(watch)`), finds those whose pixels are equal. 16 bytes a picture."""

    def __init__(self) -> None:
        self._rows = array("q")
        self._names = array("Q")

    def watch(self, row: int, pixels: str) -> None:
        """Take in a picture: the first 64 bits of its pixels' SHA-256 are kept."""
        self._rows.append(row)
        self._names.append(int(pixels[:16], 16))

    def pairs(self) -> list[tuple[int, int]]:
        """(row, later row) of every picture that was there before, in stored order."""
        names, rows = np.asarray(self._names), np.asarray(self._rows)
        order = np.lexsort((rows, names))
        names, rows = names[order], rows[order]
        first = np.concatenate([[True], names[1:] != names[:-1]]) if len(names) else np.zeros(0, dtype=np.bool_)
        heads = rows[np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))] if len(rows) else rows
        return sorted((int(head), int(row)) for head, row, new in zip(heads, rows, first, strict=True) if not new)


def problems_with_doubles(dataset: Dataset) -> list[Problem]:
    """Everything that `Dataset.verify` finds, and the first pictures that are there twice."""
    doubles = Doubles()
    problems = dataset.verify(doubles.watch)
    if problems:
        return problems
    index, pairs = dataset.index, doubles.pairs()
    return [
        Problem(
            "doubled_image",
            f"set '{index.set_id[row]}', member '{index.member[row]}' shows the same picture as set "
            f"'{index.set_id[before]}', member '{index.member[before]}'.",
            f"{dataset.folder}, rows {before} and {row}",
            "build again without it (another seed, or a recipe step that drops doubles): "
            "a picture that is there twice counts twice in every figure",
        )
        for before, row in pairs
    ]
