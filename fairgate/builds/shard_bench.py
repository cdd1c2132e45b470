"""What a worker does: it opens the models of a part, and turns starting sets into shards, one after the other."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairgate.builds.opening import sharing
from fairgate.builds.recipes import Part
from fairgate.builds.shard_store import Ledger, record_of, shard_path, starts_digest
from fairgate.builds.shards import encode
from fairgate.builds.steps import Meter, SetRows, Step, run_steps
from fairgate.engines import Work
from fairgate.ground.errors import RecipeError
from fairgate.ground.hashing import sha256_bytes
from fairgate.models.generation import Offload, offloading


@dataclass(frozen=True)
class ShardBench:
    """Opens a part's steps on a device; it can be pickled, and travels to the worker."""

    part: Part
    subject: str
    context: Any
    attributes: list[str]
    plan: str
    offload: Offload = "none"

    def __call__(self, device: str, last: Work | None) -> ShardWork:
        """What makes shards with the models of the steps; those that `last` had of the same part stay open."""
        models = last.let_go(self.part.name) if isinstance(last, ShardWork) else {}
        with offloading(self.offload), sharing(models):
            return ShardWork(self, self.part.steps(self.subject, device, self.context), models)


class ShardWork:
    """Makes the shards of one part of one subject."""

    def __init__(self, bench: ShardBench, steps: Sequence[Step], models: dict[tuple[Any, ...], Any]) -> None:
        self._bench, self._steps, self._models = bench, steps, models

    def let_go(self, part: str) -> dict[tuple[Any, ...], Any]:
        """The models, if `part` is the part that they were opened for; else none, and their memory is free."""
        self._steps = ()
        if part != self._bench.part.name:
            self._models.clear()
            gc.collect()
            if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
        return self._models

    def __call__(self, numbered: tuple[int, list[SetRows]]) -> tuple[Ledger, bytes | None]:
        """The ledger and the file (None for no set) of a shard, from its index and its starting sets."""
        started, (index, sets) = time.perf_counter(), numbered
        if doubled := [set_id for set_id, times in Counter(rows.set_id for rows in sets).items() if times > 1]:
            raise RecipeError(
                f"set '{doubled[0]}' starts twice.",
                where="the part's shards",
                remedy="give every starting set of a subject its own set_id",
            )
        meter, attributes = Meter(), self._bench.attributes
        traces = run_steps(self._steps, sets, meter)
        encoded = encode([rows for rows in sets if rows.drop is None])
        data = encoded.parquet
        ledger = Ledger(
            plan=self._bench.plan,
            index=index,
            starts=starts_digest(sets),
            content=encoded.content,
            file=None if data is None else shard_path(Path(), index, "parquet").name,
            sha256=None if data is None else sha256_bytes(data),
            bytes=0 if data is None else len(data),
            attributes=attributes,
            counts=dict(sorted(meter.counts.items())),
            seconds=round(time.perf_counter() - started, 3),
            sets=[record_of(trace, rows, attributes) for trace, rows in zip(traces, sets, strict=True)],
        )
        return ledger, data
