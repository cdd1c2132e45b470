"""What a step is: it declares the columns it reads and writes, fills them or judges them, and explains every drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from fairgate.errors import RecipeError
from fairgate.randomness import stream

Row = dict[str, Any]
"""A member: column -> value. Pictures are PIL images or encoded bytes; numbers are Python's or numpy's."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a set is dropped: a `reason` in snake_case, what was `measured`, its `limit`, the `member` that failed.

    `member` is None where the set as a whole failed. Where several members were judged at once, `also` names the others
    that failed, for this reason or another. Reasons and members are counted per group in the yield tables.
    """

    reason: str
    measured: float | None = None
    limit: float | None = None
    member: str | None = None
    also: tuple[str, ...] = ()


@dataclass(slots=True)
class SetRows:
    """A counterfactual set in the making: its members, the columns it has as a whole, and where its randomness is from.

    `names` (recipe, subject, set, attempt, ...) are the names of its random streams: what is drawn depends on them and
    on `seed`, never on the order or the machine in which sets are made. `columns` are facts of the whole set (a prompt,
    a scene, `directional`), repeated in every row of the finished dataset; numbers among them can rank sets.
    """

    set_id: str
    subject: str
    names: tuple[str | int, ...]
    seed: int = 0
    rows: list[Row] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    drop: Drop | None = None

    def stream(self, *purpose: str | int) -> np.random.Generator:
        """The generator for one purpose of this set: `rows.stream("noise")`."""
        return stream(self.seed, *self.names, *purpose)

    def seed_of(self, *purpose: str | int) -> int:
        """A 63-bit seed for one purpose, for `torch.Generator`; store it, so that an image can be made again."""
        return int(self.stream(*purpose).integers(2**63 - 1))

    def column(self, name: str) -> list[Any]:
        """One column over the members, in their order. Raises KeyError where a member lacks it."""
        return [row[name] for row in self.rows]


@dataclass(slots=True)
class Meter:
    """What work was done: `count("unet", 100)`. UNet evaluations are per image: a batch of 4 under CFG counts 8."""

    counts: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, times: int = 1) -> None:
        self.counts[what] += times


@runtime_checkable
class Step(Protocol):
    """Every step says which columns must be there before it, and which are there after it, for the sets it keeps."""

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()


@runtime_checkable
class Maker(Step, Protocol):
    """A step that fills columns or adds members, for many sets at once; it may drop a set by setting `drop`."""

    def make(self, sets: Sequence[SetRows], meter: Meter) -> None:
        """Fill `writes` in every set that is not dropped."""


@runtime_checkable
class Judge(Step, Protocol):
    """A step that keeps a set or says why not."""

    def judge(self, rows: SetRows) -> Drop | None:
        """None to keep the set."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The outcome of one set: accepted (`drop` is None) or dropped, at which step, with its numeric set columns."""

    set_id: str
    subject: str
    step: str | None
    drop: Drop | None
    numbers: dict[str, float]
    members: tuple[str, ...]

    @property
    def kept(self) -> bool:
        return self.drop is None


def run_steps(steps: Iterable[Step], sets: Sequence[SetRows], meter: Meter) -> list[Trace]:
    """Run steps over sets, in order; a dropped set goes no further. One trace for every set, in the given order.

    Raises RecipeError where a step reads a column that no step wrote, or did not write what it declares.
    """
    fell: dict[str, str] = {}
    for step in steps:
        alive = [rows for rows in sets if rows.drop is None]
        if not alive:
            break
        name = type(step).__name__
        _require(step.reads, alive, f"step {name} reads")
        if isinstance(step, Maker):
            step.make(alive, meter)
        elif isinstance(step, Judge):
            for rows in alive:
                rows.drop = step.judge(rows)
        fell |= {rows.set_id: name for rows in alive if rows.drop is not None}
        _require(step.writes, [rows for rows in alive if rows.drop is None], f"step {name} declares to write")
    return [_trace(rows, fell.get(rows.set_id)) for rows in sets]


def _require(columns: tuple[str, ...], sets: Sequence[SetRows], what: str) -> None:
    for column in columns:
        for rows in sets:
            if column not in rows.columns and not (rows.rows and all(column in row for row in rows.rows)):
                raise RecipeError(
                    f"{what} column '{column}', which set '{rows.set_id}' does not have.",
                    where=what,
                    remedy="order the recipe's steps so that a column is written before it is read",
                )


def _trace(rows: SetRows, step: str | None) -> Trace:
    numbers = {
        name: float(value)
        for name, value in rows.columns.items()
        if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    }
    members = tuple(str(row.get("member", "")) for row in rows.rows)
    return Trace(rows.set_id, rows.subject, step, rows.drop, numbers, members)
