"""Forgetting: columns that later steps needed and the finished dataset does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fairgate.steps.contract import Meter, SetRows


@dataclass(frozen=True, slots=True)
class Forget:
    """Takes columns off the sets, so that they are not stored with every member."""

    columns: tuple[str, ...]

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Remove them."""
        for rows in sets:
            for column in self.columns:
                rows.columns.pop(column, None)
