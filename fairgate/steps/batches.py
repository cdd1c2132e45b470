"""Batches that fit: an out-of-memory error halves them, and the work goes on."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from fairgate.errors import DeviceError
from fairgate.steps.contract import Meter

Item = TypeVar("Item")
Result = TypeVar("Result")


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
