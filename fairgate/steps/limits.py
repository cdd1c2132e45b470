"""Keeping a set while a number of it stays within its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairgate.errors import RecipeError
from fairgate.steps.contract import Drop, SetRows


@dataclass(frozen=True, slots=True)
class Within:
    """Drops a set whose `column` is below `at_least` or above `at_most`, with `reason`."""

    column: str
    reason: str
    at_least: float | None = None
    at_most: float | None = None

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    def judge(self, rows: SetRows) -> Drop | None:
        """None within the limits. Raises RecipeError where the set has no such number."""
        value = rows.columns.get(self.column)
        if not isinstance(value, int | float):
            raise RecipeError(
                f"set '{rows.set_id}' has no number '{self.column}', and got {value!r}.",
                where=f"step Within('{self.column}')",
                remedy="order the recipe's steps so that a column is written before it is judged",
            )
        measured = float(value)
        if self.at_least is not None and not measured >= self.at_least:  # NaN is not within any limit
            return Drop(self.reason, measured=measured, limit=self.at_least)
        if self.at_most is not None and not measured <= self.at_most:
            return Drop(self.reason, measured=measured, limit=self.at_most)
        return None
