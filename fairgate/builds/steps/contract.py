"""What a step is: it declares the columns it reads and writes, fills them or judges them, and explains every drop.

Models run in batches that fit: an out-of-memory error halves them, and the work goes on.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from fairgate.ground.errors import DeviceError, RecipeError
from fairgate.ground.randomness import stream

Item = TypeVar("Item")
Result = TypeVar("Result")
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
    traces = []
    for rows in sets:
        numbers = {
            name: float(value)
            for name, value in rows.columns.items()
            if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        }
        members = tuple(str(row.get("member", "")) for row in rows.rows)
        traces.append(Trace(rows.set_id, rows.subject, fell.get(rows.set_id), rows.drop, numbers, members))
    return traces


def _require(columns: tuple[str, ...], sets: Sequence[SetRows], what: str) -> None:
    for column in columns:
        for rows in sets:
            if column not in rows.columns and not (rows.rows and all(column in row for row in rows.rows)):
                raise RecipeError(
                    f"{what} column '{column}', which set '{rows.set_id}' does not have.",
                    where=what,
                    remedy="order the recipe's steps so that a column is written before it is read",
                )


class SmallerBatches(UserWarning):
    """A batch did not fit into memory; smaller ones are used from here on, by this step and for as long as it lives."""


class Batches:
    """Runs functions over items, in batches that fit into memory; a size that did not fit is not tried again.

    The result for an item must not depend on the others of its batch: then sizes change nothing but time. `what` names
    the items in messages ("images"). `most` is the limit since memory ran out, None before.
    """

    def __init__(self, *, what: str = "items") -> None:
        self.most: int | None = None
        self._what = what

    def __call__(
        self,
        run: Callable[[Sequence[Item]], Sequence[Result]],
        items: Sequence[Item],
        size: int | None = None,
        meter: Meter | None = None,
    ) -> list[Result]:
        """One result per item, in order; at most `size` at a time (None: all at once), and no more than `most`.

        Every halving is counted in `meter` as `halved_batches`. Raises DeviceError when a single item does not fit.
        """
        done: list[Result] = []
        while len(done) < len(items):
            batch = items[len(done) : len(done) + min(filter(None, (size, self.most)), default=len(items))]
            results = _fitting(run, batch)
            if results is None:
                if len(batch) == 1:
                    raise DeviceError(
                        f"the device has too little free memory for a batch of one ({self._what}).",
                        remedy="free memory on the device, make the pictures smaller, or run on a larger one",
                    )
                self.shrink(len(batch), (len(batch) + 1) // 2, meter)
                continue
            if len(results) != len(batch):
                raise ValueError(f"{len(batch)} {self._what} went in, and {len(results)} results came out")
            done.extend(results)
        return done

    def shrink(self, tried: int, most: int, meter: Meter | None = None) -> None:
        """Keep to `most` from here on, as a batch of `tried` did not fit: counted and said."""
        self.most = most
        if meter is not None:
            meter.count("halved_batches")
        warnings.warn(
            f"out of memory with a batch of {tried} {self._what}: going on with {most}", SmallerBatches, stacklevel=3
        )


def _fitting(run: Callable[[Sequence[Item]], Sequence[Result]], batch: Sequence[Item]) -> Sequence[Result] | None:
    """What `run` makes of a batch, or None where memory ran out; what it held is let go by then."""
    try:
        return run(batch)
    except RuntimeError as error:
        torch = sys.modules.get("torch")  # who never imported it cannot meet its error
        if torch is None or not isinstance(error, torch.OutOfMemoryError):
            raise
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None
